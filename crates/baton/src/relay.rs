//! The server's side of the connections of workers: who comes, what it still has, what it is handed,
//! and what becomes of it.
//!
//! A connection is a guest. Leases, and how far each was heard, are in the store; so a cut changes
//! nothing, and any server can go on where another left off. Whatever is pushed to a worker is read
//! from the task as it stands, never from a message, so that nothing hangs on a wake-up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::{AttemptId, PrincipalId};
use baton_domain::project::LOCAL_WORKER;
use baton_domain::run::Purpose;
use baton_domain::text::Text;
use baton_store::Actor;
use baton_store::order::Kind;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::call::{Call, Envelope};
use crate::engine::Engine;
use crate::identity::{Caller, Identity};
use crate::operations::{self, WORKER};
use crate::problem::Problem;
use crate::protocol::{About, Down, Drain, Trouble, Up, about, read_cleaned};
use crate::redaction;
use crate::roster::Place;

use post::Post;

mod hand;
mod hello;
mod overhear;
mod post;
mod proof;
mod report;
mod strays;
mod watch_over;

/// Texts of a worker that wait to be carried out; then its socket is not read.
const HEARD_MAX: usize = 64;
/// Frames that wait to be written to a worker; one that leaves more is cut.
const SAID_MAX: usize = 512;
/// Runs that wait to be written to it: they are long, so they wait to be claimed instead.
const HANDED_MAX: usize = 2;
/// What a problem may say.
const DETAIL_BYTES_MAX: usize = 1_024;

/// The server's side of all workers.
pub struct Relay {
    identity: Arc<Identity>,
    posts: Mutex<BTreeMap<Place, Seated>>,
}

/// Who is let in, as who.
pub struct Guest {
    caller: Caller,
}

/// The connection of a worker, or what it left behind.
struct Seated {
    /// Which connection it is: a later one takes its place.
    number: u64,
    /// Which process it is of, if that says so and is there.
    process: Option<Text<64>>,
    /// Tells the connection that its place is taken.
    gone: watch::Sender<bool>,
    /// What was handed to the worker, and not heard of since.
    unheard: BTreeSet<AttemptId>,
}

/// What is said to a worker.
struct Mouth {
    says: mpsc::Sender<Down>,
    hands: mpsc::Sender<Down>,
}

/// Where it is heard.
pub struct Ear {
    said: mpsc::Receiver<Down>,
    handed: mpsc::Receiver<Down>,
}

impl Ear {
    /// The next frame for the worker; none once nothing more will be said.
    ///
    /// Nothing is lost if it is dropped half-way.
    pub async fn next(&mut self) -> Option<Down> {
        tokio::select! {
            biased;
            said = self.said.recv() => said,
            handed = self.handed.recv() => handed,
        }
    }

    /// What is still to be said. Runs are not handed over any more: they are given back.
    pub fn rest(mut self) -> Vec<Down> {
        self.said.close();
        std::iter::from_fn(|| self.said.try_recv().ok()).collect()
    }
}

/// A worker's side of a conversation, before it has begun.
pub struct Visitor {
    guest: Guest,
    heard: mpsc::Receiver<String>,
    mouth: Mouth,
}

impl Guest {
    /// Begins a conversation: who speaks, where to put what it says, and where to hear the answers.
    #[must_use]
    pub fn converse(self) -> (Visitor, mpsc::Sender<String>, Ear) {
        let (hears, heard) = mpsc::channel(HEARD_MAX);
        let (says, said) = mpsc::channel(SAID_MAX);
        let (hands, handed) = mpsc::channel(HANDED_MAX);
        let mouth = Mouth { says, hands };
        (Visitor { guest: self, heard, mouth }, hears, Ear { said, handed })
    }
}

impl Relay {
    /// Nobody is here yet.
    #[must_use]
    pub fn new(identity: Arc<Identity>) -> Arc<Self> {
        Arc::new(Self { identity, posts: Mutex::default() })
    }

    /// Whether this caller may come in as a worker. Whoever runs the server may, over its socket, and is
    /// a worker then and no person.
    pub fn admit(&self, caller: &Caller) -> Result<Guest, Problem> {
        if !caller.may(&WORKER) {
            let detail = format!("the key does not have the scope {WORKER}");
            return Err(Problem::new("forbidden", detail).with("scope", WORKER.to_string()));
        }
        let mut caller = caller.clone();
        match (caller.kind, &caller.key) {
            (Kind::Worker, _) => {}
            (Kind::Person, None) => {
                caller.kind = Kind::Worker;
                caller.principal = PrincipalId::new(LOCAL_WORKER)?;
            }
            (Kind::Person | Kind::Agent | Kind::Bot | Kind::System, _) => {
                let detail = "only the key of a worker lets a worker in";
                let next =
                    "baton key create --name NAME --principal NAME --kind worker --scopes worker";
                return Err(Problem::new("not_for_you", detail).next(next));
            }
        }
        Ok(Guest { caller })
    }

    /// Speaks with a worker until it goes; answers why it must, if it must.
    pub async fn attend(self: &Arc<Self>, visitor: Visitor, patience: Duration) -> Option<Problem> {
        let Visitor { guest, mut heard, mouth } = visitor;
        let first = match timeout(patience, heard.recv()).await {
            Ok(first) => first?,
            Err(_) => return Some(Problem::new("too_slow", "a worker begins with a hello")),
        };
        let hello = match self.read(&first) {
            Ok(Up::Hello(hello)) => *hello,
            Ok(_) => return Some(Problem::new("malformed", "a worker begins with a hello")),
            Err(trouble) => {
                drop(mouth.says.try_send((*trouble).into()));
                return Some(Problem::new("malformed", "a worker begins with a hello"));
            }
        };
        match self.seat(guest.caller, hello, mouth).await {
            Ok(present) => present.0.attend(&mut heard).await,
            Err(problem) => Some(problem),
        }
    }

    /// Reads a frame. What a worker tells of its agents is kept, so secrets are taken out of it first;
    /// a hello shows tokens, and is not kept.
    fn read(&self, text: &str) -> Result<Up, Box<Trouble>> {
        let redactor = self.engine().redactor();
        let read = read_cleaned::<Up>(text, |word, fields, shape| {
            if word == "hello" {
                return Ok(());
            }
            let cleaned = redaction::clean(redactor, fields, shape);
            let tally = cleaned.map_err(|mut wrong| wrong.swap_remove(0))?;
            self.engine().metrics().redacted(tally.known, tally.shapes);
            Ok(())
        });
        read.map_err(|error| {
            let field = error.field().and_then(|field| Text::new("field", cut(field, 128)).ok());
            // What is wrong with a frame is no reason to go.
            let about = about(text).unwrap_or(About { frame: None, attempt: None, seq: None });
            let trouble = trouble(error.code(), &error.to_string());
            Box::new(Trouble { field, about: Some(about), ..trouble })
        })
    }

    fn engine(&self) -> &Arc<Engine> {
        self.identity.engine()
    }

    /// Whoever panicked while it held the lock left the map whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Seated>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request in the name of a worker, for what is answered to requests, too.
    fn call(&self, caller: &Caller, actor: &Actor) -> Call {
        let handoff = operations::find("run", "handoff").expect("the table has it");
        let asked = (&handoff.about, &serde_json::Value::Null);
        let identity = Arc::clone(&self.identity);
        Call::new(identity, caller.clone(), Envelope::default(), actor.origin.clone(), asked)
    }
}

impl Post {
    /// Hears the worker and tells it what changes, until it goes or must.
    async fn attend(self: &Arc<Self>, heard: &mut mpsc::Receiver<String>) -> Option<Problem> {
        let listener = self.relay.engine().changes().listen(&self.caller.tenant);
        let mut watching = Box::pin(async {
            match listener {
                Ok(listener) => self.watch_over(listener).await,
                Err(error) => error.into(),
            }
        });
        let mut drained = false;
        let mut asked = self.relay.engine().logs().listen();
        loop {
            tokio::select! {
                biased;
                () = self.displaced() => {
                    let detail = "this worker came again: the connection before has ended";
                    return Some(Problem::new("stopped", detail));
                }
                Ok(()) = asked.changed() => {
                    if self.tell_listeners().is_err() {
                        return Some(too_slow());
                    }
                }
                text = heard.recv() => match self.take_in(&text?).await {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(problem) => return Some(problem),
                },
                problem = &mut watching, if !drained => {
                    if problem.code() != "stopped" {
                        return Some(problem);
                    }
                    // The server hands out nothing more; whatever runs goes on.
                    drained = true;
                    if self.say(Drain { until: None }).is_err() {
                        return Some(too_slow());
                    }
                }
            }
        }
    }

    /// Takes in one text; false if the worker goes.
    async fn take_in(self: &Arc<Self>, text: &str) -> Result<bool, Problem> {
        let up = match self.relay.read(text) {
            Ok(up) => up,
            Err(trouble) => {
                self.say(*trouble).map_err(|_| too_slow())?;
                return Ok(true);
            }
        };
        match up {
            Up::Hello(_) => {
                let trouble = Trouble {
                    about: Some(About {
                        frame: Text::new("frame", "hello").ok(),
                        attempt: None,
                        seq: None,
                    }),
                    ..trouble("malformed", "a worker says hello once")
                };
                self.say(trouble).map_err(|_| too_slow())?;
            }
            Up::Credit(credit) => {
                self.add_credit(credit.n, Purpose::Work);
                self.add_credit(credit.checks.unwrap_or(0), Purpose::Verify);
                self.add_credit(credit.merges.unwrap_or(0), Purpose::Merge);
            }
            Up::Heartbeat(heartbeat) => {
                let engine = self.relay.engine();
                engine.roster().heard(&self.place, engine.now());
                self.renew(heartbeat.attempts).await?;
            }
            Up::Log(log) => self.heard_log(*log),
            Up::Bye(bye) => {
                let reason = bye.reason.as_ref().map_or("none", |reason| reason.as_str());
                tracing::info!(worker = %self.place.machine, reason, "a worker goes");
                return Ok(false);
            }
            Up::Lifecycle(_)
            | Up::Usage(_)
            | Up::Limit(_)
            | Up::Permission(_)
            | Up::Question(_)
            | Up::Bind(_)
            | Up::Gates(_)
            | Up::Checkpoint(_)
            | Up::Exited(_)
            | Up::Stopped(_)
            | Up::Lost(_)
            | Up::Released(_)
            | Up::Probed(_)
            | Up::Merged(_) => self.report(up).await?,
        }
        Ok(true)
    }
}

/// The last words of a connection: a problem that is about no frame.
#[must_use]
pub fn farewell(problem: &Problem) -> Down {
    trouble(problem.code(), problem.detail()).into()
}

fn trouble(code: &str, detail: &str) -> Trouble {
    let text = |text: &str| Text::new("detail", cut(text, DETAIL_BYTES_MAX));
    Trouble {
        code: Text::new("code", code).expect("a code is a short word"),
        detail: text(detail).unwrap_or_else(|_| text("it cannot be told").expect("plain words")),
        field: None,
        about: None,
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

fn too_slow() -> Problem {
    Problem::new("too_slow", "too much waits to be read: come again")
}

fn hello_problem(field: &str, rule: &str) -> Problem {
    Problem::invalid(vec![crate::shape::Violation { field: field.into(), rule: rule.into() }])
}
