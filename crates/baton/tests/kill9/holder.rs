//! A caller that makes tasks, works on them, sometimes falls silent past its lease, and repeats
//! whatever it got no answer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_testkit::chance::Chance;
use serde_json::{Value, json};

use crate::history::{History, Seen};
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
        let task = text(&made.body["id"]);
        let claimed = self.must(
            "POST",
            "/v1/runs/claim",
            None,
            |mark| json!({ "task": task, "lease": LEASE, "capabilities": [mark] }),
        );
        if claimed.status >= 300 {
            return;
        }
        let lapsed = Lapsed {
            run: text(&claimed.body["run"]["id"]),
            attempt: attempt_number(&claimed.body["attempt"]),
            token: text(&claimed.body["claim_token"]),
            expires_at: text(&claimed.body["lease"]["expires_at"]),
            task,
        };
        self.speak(&lapsed, "checkpoints");
        if self.chance.chance(0.3) {
            self.lapsed.push(lapsed);
        } else {
            self.speak(&lapsed, "complete");
        }
        // A zombie comes back: its lease has ended, or it is still the holder.
        if self.lapsed.len() > 3 {
            let zombie = self.lapsed[usize::try_from(self.chance.below(2)).unwrap_or(0)].clone();
            self.speak(&zombie, "checkpoints");
        }
    }

    fn speak(&mut self, claim: &Lapsed, what: &str) {
        let path = format!("/v1/runs/{}/{what}", claim.run);
        let answer = self.must("POST", &path, Some(claim), |mark| json!({ "summary": mark }));
        if answer.body["code"] == "lease_lost" {
            self.history.met.fenced.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Asks until there is an answer, always under the same key.
    fn must(
        &mut self,
        method: &str,
        path: &str,
        claim: Option<&Lapsed>,
        body: impl Fn(&str) -> Value,
    ) -> Answer {
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
        self.count_doubt(doubtful, &answer);
        assert!(answer.status < 500, "{method} {path}: {answer:?}");
        if answer.status < 300 {
            self.see(&mark, invoked, claim, &answer);
        }
        answer
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

    fn see(&self, mark: &str, invoked: u64, claim: Option<&Lapsed>, answer: &Answer) {
        // A claim leaves no words of the caller's choice in the history.
        let as_of = position(&answer.body["as_of"]).expect("every answer has one");
        let of_claim = answer.body["attempt"].as_str().is_some() && claim.is_none();
        if of_claim {
            return;
        }
        let task = claim.map_or_else(|| text(&answer.body["id"]), |claim| claim.task.clone());
        let attempt = claim.map(|claim| claim.attempt);
        let (mark, returned) = (mark.to_owned(), self.history.tick());
        self.history.add(Seen { task, mark, invoked, returned, as_of, attempt });
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
