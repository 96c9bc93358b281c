//! Checks what was submitted: once the server has the commit, the commands of the contract are run on exactly that. What
//! was found is told in one frame.

use std::path::Path;
use std::sync::Arc;

use baton_domain::ids::{Commit, Digest};
use baton_domain::limits::GUARDED_MAX;
use baton_domain::text::{Line, Reason};
use baton_domain::time::Millis;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::client::{Client, Failure, digest_of};
use crate::contract::Whole;
use crate::gates::{Check, Checked, Ended, Findings, Job};
use crate::protocol::{Ask, Dispatch, GateEnd, GateResult, Gates};
use crate::worktree::{Depot, Oid};

use super::bind;
use super::courier::Courier;
use super::prepare::{Premises, Whose};

/// Bytes of what a command said last that are told at once.
const TAIL_BYTES_MAX: usize = 1_000;

/// What is checked.
pub struct Subject {
    pub whose: Whose,
    pub dispatch: Dispatch,
    pub asks: Vec<Ask>,
}

/// A check that is under way. Forgotten, it is called off.
#[derive(Debug)]
pub struct Checking {
    done: JoinHandle<Result<Gates, String>>,
    off: watch::Sender<bool>,
}

/// The commit that is checked, and where it is.
pub struct Pinned {
    pub depot: Depot,
    pub base: Oid,
    pub commit: Oid,
}

impl Checking {
    /// Begins, once the server has the work.
    #[must_use]
    pub fn begin(
        premises: &Arc<Premises>,
        courier: &Courier,
        subject: Subject,
        pinned: Pinned,
    ) -> Self {
        let (off, is_off) = watch::channel(false);
        let (premises, courier) = (Arc::clone(premises), courier.clone());
        let done = tokio::spawn(async move {
            tokio::select! {
                () = courier.settled(subject.dispatch.attempt) => {}
                () = called_off(is_off.clone()) => {
                    return Err("the checks were called off".to_owned());
                }
            }
            run(&premises, &subject, &pinned, is_off).await
        });
        Self { done, off }
    }

    /// Tells at once that there is nothing that could be checked.
    #[must_use]
    pub fn of_nothing(premises: &Premises, subject: Subject) -> Self {
        let found = nothing(&subject, premises);
        Self { done: tokio::spawn(async move { Ok(found) }), off: watch::Sender::new(false) }
    }

    /// Resolves once it is done.
    pub async fn done(&mut self) -> Result<Gates, String> {
        (&mut self.done).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Nobody wants to know any more.
    pub fn call_off(&self) {
        self.off.send_replace(true);
    }
}

/// Resolves once it is called off, also by being forgotten.
async fn called_off(mut off: watch::Receiver<bool>) {
    drop(off.wait_for(|off| *off).await);
}

/// Runs what is asked for on a commit.
pub async fn run(
    premises: &Premises,
    subject: &Subject,
    pinned: &Pinned,
    off: watch::Receiver<bool>,
) -> Result<Gates, String> {
    let dispatch = &subject.dispatch;
    let check = |ask: &Ask| Check {
        line: ask.line.clone(),
        command: ask.command.clone(),
        timeout: Millis(ask.timeout_ms),
    };
    let job = Job {
        tenant: subject.whose.tenant.clone(),
        run: dispatch.run,
        attempt: dispatch.attempt,
        commit: pinned.commit.clone(),
        checks: subject.asks.iter().map(check).collect(),
    };
    let rooms = premises.rooms(&subject.whose, &subject.dispatch);
    let found = rooms.check(&pinned.depot, job, called_off(off)).await;
    let found = found.map_err(|error| error.to_string())?;
    let guarded = guarded(subject, pinned).await?;
    let results = handed_in(premises, &found).await?;
    Ok(Gates {
        attempt: dispatch.attempt,
        seq: 0,
        commit: Commit::new(found.commit.as_str()).ok(),
        environment: found.environment,
        results,
        guarded: (!guarded.is_empty()).then_some(guarded),
    })
}

/// Protected paths that are not as they were when the task began.
async fn guarded(subject: &Subject, pinned: &Pinned) -> Result<Vec<Line>, String> {
    let (depot, base, commit) = (pinned.depot.clone(), pinned.base.clone(), pinned.commit.clone());
    let stage = subject.dispatch.stage.clone();
    let looked = spawn_blocking(move || -> Result<Vec<Line>, String> {
        let terms = bind::of_files(&depot.files(&base), &stage, None);
        let Some(terms) = terms.map_err(|error| error.to_string())? else { return Ok(vec![]) };
        let changed = depot.changed_between(&base, &commit).map_err(|error| error.to_string())?;
        let whole: &Whole = &terms.whole;
        let line = |path: &str| Line::new("path", path).ok();
        Ok(whole.guarded(&changed).filter_map(line).take(GUARDED_MAX).collect())
    });
    looked.await.map_err(|error| error.to_string())?
}

/// Has the server have what the commands said.
async fn handed_in(premises: &Premises, found: &Findings) -> Result<Vec<GateResult>, String> {
    let told =
        |failure: Failure| failure.body["detail"].as_str().unwrap_or(failure.code()).to_owned();
    let client: Client = premises.client().map_err(told)?;
    let mut results = vec![];
    for one in &found.checked {
        let log = match one.log.bytes {
            0 => None,
            _ => Some(blob(&client, &one.log.path).await?),
        };
        results.push(result(one, log));
    }
    Ok(results)
}

async fn blob(client: &Client, path: &Path) -> Result<Digest, String> {
    let file = path.to_owned();
    let digest = spawn_blocking(move || digest_of(&file)).await;
    let (digest, _) =
        digest.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let told =
        |failure: Failure| failure.body["detail"].as_str().unwrap_or(failure.code()).to_owned();
    client.put_blob(path, &digest).await.map_err(told)?;
    Digest::new(&digest.to_string()).map_err(|refusal| refusal.to_string())
}

fn result(one: &Checked, log: Option<Digest>) -> GateResult {
    let (ended, code, why) = match &one.ended {
        Ended::Exited(code) => (GateEnd::Exited, u32::try_from(*code).ok(), None),
        Ended::Signalled(signal) => (GateEnd::Signalled, u32::try_from(*signal).ok(), None),
        Ended::TimedOut => (GateEnd::TimedOut, None, None),
        Ended::NotStarted(why) => {
            let cut = &why[..why.floor_char_boundary(1_000)];
            (GateEnd::NotStarted, None, Reason::new("why", cut).ok())
        }
    };
    GateResult {
        line: one.line.clone(),
        ended,
        code,
        why,
        took_ms: u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX),
        log,
        dropped_bytes: (one.log.dropped > 0).then_some(one.log.dropped),
        tail: tail(&one.log.path),
    }
}

/// The last lines that a command said, without what would change how they are shown.
fn tail(log: &Path) -> Option<Line> {
    let bytes = std::fs::read(log).ok()?;
    let end = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
    let shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = String::from_utf8_lossy(end).chars().filter(shown).collect();
    let cut = &text[text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES_MAX))..];
    Line::new("tail", cut.trim()).ok()
}

/// Of a plain folder nobody can say which state of it was checked, so nothing of it is.
fn nothing(subject: &Subject, premises: &Premises) -> Gates {
    let why = "the project's folder is not under git, so that there is no commit to check";
    let result = |ask: &Ask| GateResult {
        line: ask.line.clone(),
        ended: GateEnd::NotStarted,
        code: None,
        why: Reason::new("why", why).ok(),
        took_ms: 0,
        log: None,
        dropped_bytes: None,
        tail: None,
    };
    Gates {
        attempt: subject.dispatch.attempt,
        seq: 0,
        commit: None,
        environment: premises.rooms(&subject.whose, &subject.dispatch).environment_digest(),
        results: subject.asks.iter().map(result).collect(),
        guarded: None,
    }
}
