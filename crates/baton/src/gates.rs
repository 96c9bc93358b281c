//! The gate room: where the commands of a contract are run on exactly one commit.
//!
//! A room is a folder of its own with a clean checkout, an empty home and an empty `/tmp`. It shares nothing
//! with any worktree. Commands run one after the other in the sandbox of agents, each under a shim that
//! kills everything of it and proves that; their environment is cleared, they get no token, no account and
//! no way to Baton's data. What is told of them is what the kernel said, never what they printed. The room is gone afterwards.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::time::Duration;

use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{AttemptId, Digest, LineId, RunId, TenantId};
use baton_domain::text::Line;
use baton_domain::time::Millis;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::clock::{awake_ms, boot_ms};
use crate::contract::digest;
use crate::files::make_folder;
use crate::shim::spool::SPOOL_BYTES_MIN;
use crate::shim::{self, Cause, Change, Exit, Found, Handle, Limits, Place, Spec, Status, Wanted};
use crate::worktree::{self, Depot, Oid, take_away};

use log::keep;

pub use log::{LOG_BYTES_MAX, Log};

mod log;

/// How long a command of a room lives on after the last sign of whoever runs it.
const FENCE_MS: u64 = 20_000;
/// How often that sign is given.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// How long a command has to end when its time is up, before it is ended by force.
const GRACE_MS: u64 = 2_000;
/// How long its death may take to be proved: then the room is left as it is, and nothing is told of it.
const PROOF_MAX: Duration = Duration::from_secs(30);
/// What is looked for in the worker's own environment: how texts and times are written, and nothing else.
const PASSED: [&str; 4] = ["LANG", "LC_ALL", "TZ", "TERM"];

/// What all rooms of a worker have in common.
#[derive(Clone, Debug)]
pub struct Rooms {
    /// Where they are made; each has a folder in there.
    pub folder: PathBuf,
    /// Which Baton this belongs to.
    pub deployment: String,
    /// The worker's own variables, of which few are passed on.
    pub variables: BTreeMap<String, String>,
    /// What no command is to see: Baton's data, and what signs agents in.
    pub hidden: Vec<PathBuf>,
    /// What no command may change: the checkout of whoever owns the project.
    pub fixed: Vec<PathBuf>,
    pub isolation: Wanted,
    /// Which program is the shim; this one if it is not said.
    pub shim: Option<PathBuf>,
}

/// What is checked, and for whom.
#[derive(Clone, Debug)]
pub struct Job {
    pub tenant: TenantId,
    pub run: RunId,
    pub attempt: AttemptId,
    pub commit: Oid,
    pub checks: Vec<Check>,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub line: LineId,
    pub command: Line,
    pub timeout: Millis,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// It never began.
    NotStarted(String),
}

/// What became of one command.
#[derive(Debug)]
pub struct Checked {
    pub line: LineId,
    pub ended: Ended,
    pub took: Duration,
    pub log: Log,
}

/// What became of all of them, in their order.
#[derive(Debug)]
pub struct Findings {
    pub commit: Oid,
    /// What they were run in: equal digests are equal surroundings.
    pub environment: Digest,
    pub checked: Vec<Checked>,
    /// Where the logs are, for as long as this is kept.
    _logs: TempDir,
}

/// Why nothing was found: no word about the commit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody called it off.
    #[error("the checks were called off")]
    CalledOff,
    /// The checkout cannot be made.
    #[error("{error}; next: {}", error.next())]
    Worktree {
        #[from]
        error: worktree::Error,
    },
    /// Something is not to be had on this machine.
    #[error("the gate room: {0}")]
    File(#[from] io::Error),
    /// Something of a command may still run, so that nothing of what it did counts.
    #[error("what gate {0} started is not proved to be dead")]
    Unproved(LineId),
    /// Whoever ran it was away for too long.
    #[error("gate {0} was stopped because its worker did not say that it lives")]
    Fenced(LineId),
}

impl Ended {
    /// Whether the line holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        *self == Self::Exited(0)
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signalled(signal) => write!(f, "ended by signal {signal}"),
            Self::TimedOut => f.write_str("its time was up"),
            Self::NotStarted(why) => write!(f, "could not start: {why}"),
        }
    }
}

/// The commands that a contract has, in the order of their names. A criterion without a command is for a reviewer.
#[must_use]
pub fn checks(contract: &Contract) -> Vec<Check> {
    let check = |(line, term): (&LineId, &Term)| {
        let (command, timeout) = match term {
            Term::Gate { command, timeout } => (command.clone(), *timeout),
            Term::Criterion { check: Some(check), .. } => {
                (check.clone(), crate::contract::GATE_TIMEOUT)
            }
            Term::Criterion { check: None, .. } | Term::Artifact { .. } | Term::Review => {
                return None;
            }
        };
        Some(Check { line: line.clone(), command, timeout })
    };
    contract.lines.iter().filter_map(check).collect()
}

impl Rooms {
    /// Runs commands on a commit of a depot, each to its end, and tells what became of every one. Whoever no longer
    /// wants to know lets `called_off` end: then nothing of it runs any more when this answers.
    ///
    /// # Errors
    /// If nothing can be told.
    pub async fn check(
        &self,
        depot: &Depot,
        job: Job,
        called_off: impl Future<Output = ()>,
    ) -> Result<Findings, Error> {
        make_folder(&self.folder)?;
        let logs = tempfile::Builder::new().prefix("logs-").tempdir_in(&self.folder)?;
        let room = tempfile::Builder::new().prefix("room-").tempdir_in(&self.folder)?;
        // What may still be used is not taken away by being forgotten.
        let room = room.keep();
        let checked = self.check_in(depot, &job, (&room, logs.path()), pin!(called_off)).await;
        if !matches!(checked, Err(Error::Unproved(_))) {
            let away = room.clone();
            match spawn_blocking(move || take_away(&away)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a gate room could not be taken away"),
                Err(error) => tracing::warn!(%error, "a gate room was not taken away"),
            }
        }
        let (commit, environment) = (job.commit, self.environment_digest());
        Ok(Findings { commit, environment, checked: checked?, _logs: logs })
    }

    async fn check_in(
        &self,
        depot: &Depot,
        job: &Job,
        (room, logs): (&Path, &Path),
        mut called_off: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Vec<Checked>, Error> {
        let (own, commit, tree) = (depot.clone(), job.commit.clone(), room.join("tree"));
        let made = spawn_blocking(move || own.check_out(&commit, &tree)).await;
        made.map_err(io::Error::other)??;
        let mut checked = vec![];
        for (nth, check) in job.checks.iter().enumerate() {
            let place = self.place(room.join(format!("gate-{nth}")));
            for name in ["home", "tmp"] {
                // The next command finds nothing that the one before left outside of the checkout.
                let folder = room.join(name);
                let fresh = spawn_blocking(move || {
                    take_away(&folder).map_err(io::Error::other)?;
                    make_folder(&folder)
                });
                fresh.await.map_err(io::Error::other)??;
            }
            let begun = awake_ms();
            let spec = self.spec(depot, job, (room, nth), check);
            let ended = match shim::launch(&place, &spec, None).await {
                Ok(handle) => self.follow(handle, &place, check, called_off.as_mut()).await?,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    bury(&place, &check.line).await?;
                    Ended::NotStarted(error.to_string())
                }
                Err(error) => Ended::NotStarted(error.to_string()),
            };
            let log = keep(&place.spool(), &logs.join(format!("{nth}.log")))?;
            let took = Duration::from_millis(awake_ms().saturating_sub(begun));
            checked.push(Checked { line: check.line.clone(), ended, took, log });
        }
        Ok(checked)
    }

    /// Waits for the end of a command, which comes by itself, by its time, or by whoever calls it off.
    async fn follow(
        &self,
        mut handle: Handle,
        place: &Place,
        check: &Check,
        mut called_off: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Ended, Error> {
        let mut ends = pin!(sleep(Duration::from_millis(check.timeout.0)));
        let mut renews = pin!(sleep(RENEW_EVERY));
        let (mut late, mut unwanted) = (false, false);
        loop {
            tokio::select! {
                change = handle.changes().recv() => match change {
                    Some(Change::Spool(_) | Change::Exited(_)) => {}
                    Some(Change::Stopped(proof)) if proof.survivor => {
                        bury(place, &check.line).await?;
                        break;
                    }
                    Some(Change::Stopped(_)) => break,
                    // The connection is lost, or the shim is.
                    None => match shim::adopt(place).await? {
                        Found::Alive(again) => handle = again,
                        Found::Over(_) => break,
                        Found::Vanished(_) => {
                            bury(place, &check.line).await?;
                            return Err(Error::Fenced(check.line.clone()));
                        }
                    },
                },
                () = &mut called_off, if !unwanted => {
                    unwanted = true;
                    ends.set(sleep(PROOF_MAX));
                    handle.stop(Some(0)).await?;
                }
                () = &mut ends => {
                    if late || unwanted {
                        bury(place, &check.line).await?;
                        break;
                    }
                    late = true;
                    ends.set(sleep(PROOF_MAX));
                    handle.stop(None).await?;
                }
                () = &mut renews, if !late && !unwanted => {
                    renews.set(sleep(RENEW_EVERY));
                    handle.renew(boot_ms() + FENCE_MS).await?;
                }
            }
        }
        if unwanted {
            return Err(Error::CalledOff);
        }
        ended(place, late, &check.line)
    }

    fn place(&self, folder: PathBuf) -> Place {
        let place = Place::at(folder);
        match &self.shim {
            Some(program) => place.with_program(program),
            None => place,
        }
    }

    fn spec(&self, depot: &Depot, job: &Job, (room, nth): (&Path, usize), check: &Check) -> Spec {
        let nonce = room.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut env = self.environment();
        env.insert("HOME".to_owned(), room.join("home").display().to_string());
        Spec {
            deployment: self.deployment.clone(),
            tenant: job.tenant.clone(),
            run: job.run,
            attempt: job.attempt,
            nonce: format!("{nonce}.{nth}"),
            argv: ["/bin/sh", "-c", check.command.as_str()].map(str::to_owned).to_vec(),
            env,
            cwd: room.join("tree"),
            home: room.join("home"),
            stdin: vec![],
            close_stdin: true,
            limits: Limits::default(),
            fence_boot_ms: boot_ms() + FENCE_MS,
            grace_ms: GRACE_MS,
            proof_ms: 10_000,
            spool_bytes_max: SPOOL_BYTES_MIN,
            isolation: self.isolation,
            hidden: self.hidden.clone(),
            shown: vec![depot.objects()],
            fixed: self.fixed.clone(),
            tmp: Some(room.join("tmp")),
        }
    }

    /// The whole environment of a command, but for its home.
    fn environment(&self) -> BTreeMap<String, String> {
        let passed = |name: &str| Some((name.to_owned(), self.variables.get(name)?.clone()));
        let mut env: BTreeMap<_, _> = PASSED.into_iter().filter_map(passed).collect();
        let usual = || "/usr/local/bin:/usr/bin:/bin".to_owned();
        let path = self.variables.get("PATH").cloned().unwrap_or_else(usual);
        env.insert("PATH".to_owned(), path);
        env.insert("CI".to_owned(), "true".to_owned());
        env
    }

    /// What says in what surroundings commands were run: the machine's kind, this program, and all variables.
    #[must_use]
    pub fn environment_digest(&self) -> Digest {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let isolation = serde_json::to_value(self.isolation).unwrap_or_default();
        let all = json!({
            "os": os, "arch": arch, "baton": env!("CARGO_PKG_VERSION"),
            "isolation": isolation, "environment": self.environment(),
        });
        digest(all.to_string().as_bytes())
    }
}

/// Takes away the rooms that a worker before this one left: whatever still runs in them is ended first.
pub async fn sweep(folder: &Path) {
    let Ok(rooms) = std::fs::read_dir(folder) else { return };
    for room in rooms.flatten().map(|entry| entry.path()) {
        let gates = std::fs::read_dir(&room).into_iter().flatten().flatten();
        let is_gate = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with("gate-");
        let mut is_empty = true;
        for gate in gates.filter(is_gate).map(|entry| Place::at(entry.path())) {
            is_empty &= match gate.launch() {
                Ok(Some(_)) => shim::overpower(&gate).await.is_ok_and(|proof| !proof.survivor),
                Ok(None) => true,
                Err(_) => false,
            };
        }
        let taken =
            is_empty && spawn_blocking(move || take_away(&room).is_ok()).await.unwrap_or(false);
        if !taken {
            tracing::warn!("a gate room of a worker before this one is still there");
        }
    }
}

/// Ends what is left of a command by force.
async fn bury(place: &Place, line: &LineId) -> Result<(), Error> {
    match shim::overpower(place).await {
        Ok(proof) if !proof.survivor => Ok(()),
        Ok(_) => Err(Error::Unproved(line.clone())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How a command ended that is over, by what its shim wrote down.
fn ended(place: &Place, late: bool, line: &LineId) -> Result<Ended, Error> {
    Ok(match place.status()? {
        _ if late => Ended::TimedOut,
        Some(Status::NotStarted { why }) => Ended::NotStarted(why),
        Some(Status::Stopped { by: Cause::Exited, exit: Some(exit), .. }) => match exit {
            Exit::Code(code) => Ended::Exited(code),
            Exit::Signal(signal) => Ended::Signalled(signal),
        },
        Some(
            Status::Stopped { .. }
            | Status::Running
            | Status::Exited { .. }
            | Status::Stopping { .. },
        )
        | None => return Err(Error::Fenced(line.clone())),
    })
}
