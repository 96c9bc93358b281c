//! A caller that makes tasks, works on them, sometimes falls silent past its lease, and repeats
//! whatever it got no answer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_testkit::chance::Chance;
use serde_json::{Value, json};

use crate::history::{Fenced, History, Seen, What};
use crate::http::{Answer, Asked, Client, Heard};

/// The shortest lease there is, so that many end.
const LEASE: &str = "1s";

/// One of several callers at once.
pub struct Holder {
    pub name: String,
    pub client: Client,
    pub history: Arc<History>,
    pub stop: Arc<AtomicBool>,
    pub chance: Chance,
    /// Tokens that were let lapse: run, attempt, token, and what the lease said.
    pub lapsed: Vec<Lapsed>,
    step: u64,
}

/// A claim that its holder has forgotten.
#[derive(Clone, Debug)]
pub struct Lapsed {
    pub task: String,
    pub run: String,
    pub token: String,
    pub attempt: u64,
    pub expires_at: String,
}

/// An answer, and when it was asked for and given.
struct Told {
    status: u16,
    body: Value,
    mark: String,
    invoked: u64,
    returned: u64,
    /// Whether its outcome was unknown for a while.
    doubtful: bool,
}

impl Holder {
    pub fn new(name: &str, client: Client, shared: (Arc<History>, Arc<AtomicBool>)) -> Self {
        let seed = name.bytes().map(u64::from).sum();
        let (history, stop) = shared;
        Self {
            name: name.into(),
            client,
            history,
            stop,
            chance: Chance::new(seed),
            lapsed: vec![],
            step: 0,
        }
    }

    /// Works until told to stop; what is begun is brought to an answer.
    pub fn work(mut self) -> Self {
        while !self.stop.load(Ordering::SeqCst) {
            self.cycle();
        }
        self
    }

    fn cycle(&mut self) {
        let made = self.must(
            "POST",
            "/v1/tasks",
            None,
            |mark| json!({ "project": "shop", "title": mark, "stage": "coding" }),
        );
        let own = text(&made.body["id"]);
        self.seen(&made, &own, What::Made(made.mark.clone()));
        // Sometimes whatever is next: what somebody else let lapse is found so.
        let own_alone = self.chance.chance(0.5);
        let claimed = self.must("POST", "/v1/runs/claim", None, |_| {
            let mut wish = json!({ "lease": LEASE });
            if own_alone {
                wish["task"] = json!(own);
            }
            wish
        });
        if claimed.status >= 300 {
            return;
        }
        let claim = Lapsed {
            run: text(&claimed.body["run"]["id"]),
            attempt: attempt_number(&claimed.body["attempt"]),
            token: text(&claimed.body["claim_token"]),
            expires_at: text(&claimed.body["lease"]["expires_at"]),
            task: text(&claimed.body["task"]["id"]),
        };
        self.seen(&claimed, &claim.task, What::Claimed(claim.attempt));
        if claimed.doubtful {
            self.history.met.unknown_claims.fetch_add(1, Ordering::SeqCst);
        }
        if claim.attempt > 1 {
            self.history.met.taken_over.fetch_add(1, Ordering::SeqCst);
        }
        self.speak(&claim, "checkpoints");
        if self.chance.chance(0.3) {
            self.lapsed.push(claim);
        } else {
            self.speak(&claim, "complete");
        }
        // A zombie comes back: its lease has ended, or it is still the holder.
        if self.lapsed.len() > 3 {
            let zombie = self.lapsed[usize::try_from(self.chance.below(2)).unwrap_or(0)].clone();
            self.speak(&zombie, "checkpoints");
        }
    }

    fn speak(&mut self, claim: &Lapsed, what: &str) {
        let path = format!("/v1/runs/{}/{what}", claim.run);
        let said = self.must("POST", &path, Some(claim), |mark| json!({ "summary": mark }));
        if said.status < 300 {
            self.seen(&said, &claim.task, What::Said(claim.attempt, said.mark.clone()));
        }
        if said.body["code"] == "lease_lost" {
            self.history.add_fenced(Fenced {
                task: claim.task.clone(),
                attempt: claim.attempt,
                returned: said.returned,
            });
        }
    }

    /// Asks until there is an answer, always under the same key.
    fn must(
        &mut self,
        method: &str,
        path: &str,
        claim: Option<&Lapsed>,
        body: impl Fn(&str) -> Value,
    ) -> Told {
        self.step += 1;
        let mark = format!("mark-{}-{}", self.name, self.step);
        let invoked = self.history.tick();
        let mut doubtful = false;
        let asked = Asked {
            method,
            path,
            key: Some(&mark),
            token: claim.map(|claim| claim.token.as_str()),
            body: body(&mark),
        };
        let answer = loop {
            let starts = self.history.starts();
            match self.client.ask(&asked) {
                Heard::Answer(answer) if answer.status == 503 => doubtful |= is_unknown(&answer),
                Heard::Answer(answer) => break answer,
                Heard::Unsent => self.history.wait_for_start_after(starts),
                Heard::Unknown => doubtful = true,
            }
        };
        let returned = self.history.tick();
        self.count_doubt(doubtful, &answer);
        assert!(answer.status < 500, "{method} {path}: {answer:?}");
        let Answer { status, body, .. } = answer;
        Told { status, body, mark, invoked, returned, doubtful }
    }

    fn count_doubt(&self, doubtful: bool, answer: &Answer) {
        if doubtful {
            let met = &self.history.met;
            met.unknown.fetch_add(1, Ordering::SeqCst);
            let counter =
                if answer.replayed { &met.unknown_had_happened } else { &met.unknown_had_not };
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn seen(&self, told: &Told, task: &str, what: What) {
        let as_of = position(&told.body["as_of"]).expect("every answer has one");
        let (invoked, returned, task) = (told.invoked, told.returned, task.to_owned());
        self.history.add(Seen { task, what, invoked, returned, as_of });
    }
}

fn is_unknown(answer: &Answer) -> bool {
    answer.body["certainty"] == "unknown"
}

fn text(value: &Value) -> String {
    value.as_str().expect("the answer has this text").to_owned()
}

/// The number in `A-128.3`.
fn attempt_number(value: &Value) -> u64 {
    let number = value.as_str().and_then(|id| id.split_once('.')?.1.parse().ok());
    number.expect("an attempt has a number")
}

/// The position in a cursor.
pub fn position(value: &Value) -> Option<u64> {
    value.as_str()?.split_once('-')?.1.parse().ok()
}
