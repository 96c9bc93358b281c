//! Which run is mine: what was claimed over one connection, remembered as long as it lasts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::{AttemptId, RunId, TaskId};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::problem::Problem;
use crate::shape::{RunRef, Span, Violation};

use super::desk::Refused;
use super::tools::Offer;

/// Runs that one connection may remember. A holder of more names them.
const HELD_MAX: usize = 64;
/// What a claim answers; so does the start of a run.
const CLAIMED: &str = "ClaimedView";

/// A run that was claimed over this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which run.
    pub run: RunId,
    /// The fence.
    pub attempt: AttemptId,
    /// Renew at least this often.
    pub renew_every: Duration,
}

/// What one connection holds.
#[derive(Debug, Default)]
pub struct Mine {
    held: Mutex<Vec<Held>>,
    changed: Notify,
}

impl Mine {
    /// Waits until something was claimed or forgotten.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Everything that is held, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Held> {
        self.lock().clone()
    }

    /// Says which run and attempt are meant where the caller did not. A claim token says it, too.
    pub fn fill(
        &self,
        offer: &Offer,
        arguments: &mut Map<String, Value>,
        has_token: bool,
    ) -> Result<(), Refused> {
        if !offer.has_mine() {
            return Ok(());
        }
        // Where a task may be meant instead, whoever names one means no run.
        if arguments.contains_key("task") && !arguments.contains_key("run") {
            return Ok(());
        }
        let named = arguments.get("run").and_then(Value::as_str).map(str::parse::<RunRef>);
        if has_token {
            arguments.entry("run").or_insert_with(|| "mine".into());
            return Ok(());
        }
        let held = self.lock();
        let speaker = attempt_in(arguments);
        let meant = match named {
            // An attempt is of one task: whoever names it has said which run.
            None | Some(Ok(RunRef::Mine)) if speaker.is_some() => {
                let task = speaker.map(|attempt| attempt.task.to_string());
                arguments.insert("run".into(), task.into());
                None
            }
            None | Some(Ok(RunRef::Mine)) => {
                let only = only(&held)?;
                arguments.insert("run".into(), only.run.to_string().into());
                Some(only)
            }
            Some(Ok(RunRef::Run(run))) => held.iter().rfind(|held| held.run == run).copied(),
            Some(Ok(RunRef::Live(task))) => newest(&held, task),
            // What is wrong with it is told by its operation.
            Some(Err(_)) => None,
        };
        if let (Some(meant), true) = (meant, offer.takes.field("attempt").is_some()) {
            let attempt = Value::from(meant.attempt.to_string());
            arguments.entry("attempt").or_insert(attempt);
        }
        Ok(())
    }

    /// Notes what an answer tells: a claim adds a run, and a run that is held no longer is forgotten.
    pub fn note(&self, offer: &Offer, answer: &Value) {
        if offer.entry.answer.is_called(CLAIMED) {
            claimed(answer).into_iter().for_each(|claimed| self.add(claimed));
            return;
        }
        let run = answer["id"].as_str().and_then(|id| id.parse::<RunId>().ok());
        let attempt = answer["attempt"].as_str().and_then(|id| id.parse::<AttemptId>().ok());
        let over = |held: &Held| Some(held.run) == run && attempt != Some(held.attempt);
        if offer.entry.answer.field("lease").is_some() {
            self.lock().retain(|held| !over(held));
        }
    }

    fn add(&self, claimed: Held) {
        let mut held = self.lock();
        held.retain(|one| one.run.task != claimed.run.task);
        if held.len() < HELD_MAX {
            held.push(claimed);
        }
        self.changed.notify_one();
    }

    /// Forgets a run whose lease is lost.
    pub fn forget(&self, attempt: AttemptId) {
        self.lock().retain(|held| held.attempt != attempt);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempt that arguments speak for.
pub fn attempt_in(arguments: &Map<String, Value>) -> Option<AttemptId> {
    arguments.get("attempt").and_then(Value::as_str)?.parse().ok()
}

fn newest(held: &[Held], task: TaskId) -> Option<Held> {
    held.iter().rfind(|held| held.run.task == task).copied()
}

fn only(held: &[Held]) -> Result<Held, Refused> {
    let rule = match held {
        [only] => return Ok(*only),
        [] => "is missing: nothing was claimed over this connection, so name a run like R-128.2, \
               or your attempt like A-128.3"
            .to_owned(),
        several => {
            let names: Vec<_> = several.iter().map(|held| held.run.to_string()).collect();
            format!("is missing: this connection holds several, {}", names.join(", "))
        }
    };
    let problem = Problem::invalid(vec![Violation { field: "run".into(), rule }]);
    Err(if held.is_empty() { problem.next("baton run claim") } else { problem }.into())
}

fn claimed(answer: &Value) -> Option<Held> {
    let run = answer["run"]["id"].as_str()?.parse().ok()?;
    let attempt = answer["attempt"].as_str()?.parse().ok()?;
    let every: Span = answer["renew_every"].as_str()?.parse().ok()?;
    Some(Held { run, attempt, renew_every: Duration::from_millis(every.0.0) })
}
