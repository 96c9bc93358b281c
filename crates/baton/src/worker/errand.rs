//! Commands of a project that Baton itself runs in a folder: in the sandbox of the agents, under a shim, and with
//! nothing of what signs an agent in.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Handle as Runtime;

use crate::clock::boot_ms;
use crate::files::make_folder;
use crate::protocol::Dispatch;
use crate::shim::spool::{Reader, Stream};
use crate::shim::{self, Cause, Change, Exit, Found, Limits, Place, Spec, Status};
use crate::worktree::{Held, Ran, plain};

use super::prepare::{Premises, Whose, with_own};

/// How long all commands that set a worktree up may take together: less than its place may take, so that what
/// took too long is named.
pub const SETUP_MAX: Duration = Duration::from_secs(9 * 60);
/// How long a command has to end when it is asked to.
const GRACE_MS: u64 = 2_000;
/// How long its death is waited for.
const PROOF_MS: u64 = 10_000;
/// Bytes of what it says that are kept; of these only the last words are told.
const SAID_BYTES_MAX: u64 = 8 << 20;
/// Bytes of the last words.
const TAIL_BYTES_MAX: usize = 16 << 10;

/// Who runs commands for an attempt, and until when.
pub struct Errand<'a> {
    premises: &'a Premises,
    whose: &'a Whose,
    dispatch: &'a Dispatch,
    ends_boot_ms: u64,
    runs: u32,
}

impl<'a> Errand<'a> {
    /// Commands of an attempt, which may take so long together.
    #[must_use]
    pub fn new(
        premises: &'a Premises,
        whose: &'a Whose,
        dispatch: &'a Dispatch,
        longest: Duration,
    ) -> Self {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        Self { premises, whose, dispatch, ends_boot_ms: boot_ms().saturating_add(longest), runs: 0 }
    }

    /// Runs a command in a folder to its end. Whoever comes after this worker knows by the lock of the folder
    /// that it may still be at work.
    ///
    /// # Errors
    /// If it cannot be run, or if something of it may still be at work.
    pub fn run(&mut self, command: &str, folder: &Path, held: &mut Held) -> io::Result<Ran> {
        self.runs += 1;
        let own = self.premises.folder().join("errands");
        let own = own.join(format!("{}-{}", self.dispatch.attempt, self.runs));
        clear(&own)?;
        let (home, tmp) = (own.join("home"), own.join("tmp"));
        make_folder(&home)?;
        make_folder(&tmp)?;
        let place = Place::at(own.join("shim"));
        make_folder(place.folder())?;
        let spec = self.spec(command, folder, &home, tmp);
        let keeps = held.lend()?;
        let status = Runtime::current().block_on(finish(&place, &spec, keeps))?;
        let Status::Stopped { by, exit, proof, .. } = status else {
            return Err(io::Error::other(format!("`{command}` cannot be run: {status:?}")));
        };
        if proof.survivor || proof.death == baton_domain::run::Death::None {
            return Err(io::Error::other(format!("something of `{command}` may still run")));
        }
        held.take_back();
        let code = match exit {
            Some(Exit::Code(code)) => Some(code),
            Some(Exit::Signal(_)) | None => None,
        };
        let mut tail = tail(&place)?;
        if by == Cause::Fence {
            tail.push_str("\n(it was stopped: it took too long)");
        }
        clear(&own)?;
        Ok(Ran { command: command.to_owned(), code, tail })
    }

    fn spec(&self, command: &str, folder: &Path, home: &Path, tmp: PathBuf) -> Spec {
        let Self { premises, whose, dispatch, .. } = self;
        let mut nonce = [0; 16];
        premises.chance.fill(&mut nonce);
        Spec {
            deployment: plain(whose.deployment.as_str()),
            tenant: whose.tenant.clone(),
            run: dispatch.run,
            attempt: dispatch.attempt,
            nonce: format!("{:032x}", u128::from_be_bytes(nonce)),
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), command.to_owned()],
            env: self.environment(home),
            cwd: folder.to_owned(),
            home: home.to_owned(),
            stdin: vec![],
            close_stdin: true,
            limits: Limits::default(),
            fence_boot_ms: self.ends_boot_ms,
            grace_ms: GRACE_MS,
            proof_ms: PROOF_MS,
            spool_bytes_max: SAID_BYTES_MAX,
            isolation: premises.isolation(),
            hidden: [&premises.data].into_iter().chain(&premises.secrets).cloned().collect(),
            shown: borrowed(folder).into_iter().collect(),
            fixed: premises.root(dispatch).into_iter().collect(),
            tmp: Some(tmp),
        }
    }

    /// What the worker passes on to everybody, and nothing of an agent: no account, no token, no way to Baton.
    fn environment(&self, home: &Path) -> BTreeMap<String, String> {
        let premises = self.premises;
        let own = &premises.found.variables;
        let passed = |name: &String| Some((name.clone(), own.get(name)?.clone()));
        let mut env: BTreeMap<_, _> = premises.settings.env.iter().filter_map(passed).collect();
        let path = env.remove("PATH").unwrap_or_else(|| super::prepare::PATH_USUAL.to_owned());
        env.insert("PATH".to_owned(), with_own(&path, &premises.found.own));
        env.insert("HOME".to_owned(), home.display().to_string());
        env.insert("BATON_PROJECT".to_owned(), self.dispatch.project.to_string());
        env
    }
}

/// Starts a command and waits for its end; its fence is what ends it if nothing else does.
async fn finish(place: &Place, spec: &Spec, keeps: File) -> io::Result<Status> {
    let mut handle = shim::launch(place, spec, Some(keeps)).await?;
    loop {
        match handle.changes().recv().await {
            Some(Change::Stopped(proof)) if !proof.survivor => break,
            Some(Change::Spool(_) | Change::Exited(_) | Change::Stopped(_)) => {}
            None => break,
        }
    }
    match place.status()? {
        Some(status @ (Status::Stopped { .. } | Status::NotStarted { .. })) => Ok(status),
        Some(Status::Running | Status::Exited { .. } | Status::Stopping { .. }) | None => {
            match shim::adopt(place).await? {
                Found::Over(status) => Ok(status),
                Found::Alive(_) | Found::Vanished(_) => {
                    Err(io::Error::other("its shim is gone, and nobody knows what became of it"))
                }
            }
        }
    }
}

/// The last that a command said, on both of its streams.
fn tail(place: &Place) -> io::Result<String> {
    let mut said = vec![];
    for record in Reader::open(&place.spool(), 0)? {
        let record = record?;
        match record.stream {
            Stream::Out | Stream::Err => said.extend(record.bytes),
            Stream::In | Stream::Note => {}
        }
        let skip = said.len().saturating_sub(TAIL_BYTES_MAX);
        said.drain(..skip);
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The objects that the repository of a worktree borrows, which lie where nothing else is to be seen.
fn borrowed(folder: &Path) -> Option<PathBuf> {
    let lent = fs::read_to_string(folder.join(".git/objects/info/alternates")).ok()?;
    lent.lines().next().map(PathBuf::from)
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
