//! The one way git is called: with nobody's settings but ours, a limit of time, and a bound on what it says.
//!
//! Settings can name programs in many places (hooks, monitors, filters, drivers, helpers, transports), and
//! a repository can bring settings along. Two walls stand between them and us. The first: whatever looks at
//! files or objects runs in a depot, whose settings are ours, so that a repository's are never read. The
//! second is here, for the few calls that must name a repository to reach its refs: every setting that
//! runs something is overruled on the command line, no transport is allowed, and nothing is inherited.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{AtLeast, Error};

/// The oldest git that everything here was written for: what the oldest supported systems have.
const OLDEST: AtLeast = AtLeast(2, 34);
/// How long a call may take that touches names and single objects.
const QUICK: Duration = Duration::from_secs(60);
/// How long a call may take that touches every file or every object: a large repository on a slow disk.
pub(super) const LONG: Duration = Duration::from_secs(900);
/// Bytes that a call may print: the names of all files of a large repository.
const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Bytes that are kept of what it complains about.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;

/// Settings that overrule those of a repository.
const SETTINGS: &[&str] = &[
    // Programs that settings can name.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.alternateRefsCommand=false",
    "sequence.editor=false",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "interactive.diffFilter=cat",
    "protocol.allow=never",
    // Other repositories than the one that is meant.
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "safe.bareRepository=all",
    "safe.directory=*",
    // What would make bytes other bytes, or hide some.
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.sparseCheckout=false",
    "core.precomposeUnicode=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    // Files that could contradict the objects.
    "core.commitGraph=false",
    "core.multiPackIndex=false",
    "core.useReplaceRefs=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    // Work that nobody asked for.
    "gc.auto=0",
    "maintenance.auto=false",
    "core.logAllRefUpdates=false",
    // What was answered is on disk.
    "core.fsync=committed,reference",
];

/// The whole environment, besides `PATH` and what a call adds.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("HOME", "/dev/null"),
    ("XDG_CONFIG_HOME", "/dev/null"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// A git program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Git {
    program: PathBuf,
    path: OsString,
    version: AtLeast,
}

/// Bytes that a call reads, written by whoever knows them while it runs.
type Feed<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'a>;

enum Input<'a> {
    Nothing,
    File(File),
    Feed(Feed<'a>),
}

/// One call.
pub(super) struct Call<'a> {
    what: String,
    command: Command,
    input: Input<'a>,
    output: Option<File>,
    limit: Duration,
    bytes_max: usize,
}

/// How a call ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) out: Vec<u8>,
    pub(super) said: String,
}

impl Git {
    /// Finds it in these folders. A relative folder is none: it would be looked for in an agent's.
    ///
    /// # Errors
    /// If there is none, or if it is too old.
    pub fn find(folders: &[PathBuf]) -> Result<Self, Error> {
        let folders: Vec<_> = folders.iter().filter(|folder| folder.is_absolute()).collect();
        let program = folders.iter().map(|folder| folder.join("git")).find(|path| path.is_file());
        let path = std::env::join_paths(folders).map_err(|_| Error::NoGit)?;
        let mut git = Self { program: program.ok_or(Error::NoGit)?, path, version: OLDEST };
        let said = git.call(Path::new("/dev/null"), "version").run()?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        match version(&said) {
            Some(found) if found >= OLDEST => {
                git.version = found;
                Ok(git)
            }
            Some(_) | None => Err(Error::OldGit { found: said, needed: OLDEST }),
        }
    }

    /// Refuses if it is older than this.
    pub(super) fn is_at_least(&self, needed: AtLeast) -> Result<(), Error> {
        let AtLeast(major, minor) = self.version;
        let found = format!("git {major}.{minor}");
        if self.version >= needed { Ok(()) } else { Err(Error::OldGit { found, needed }) }
    }

    /// Calls a command of git in a repository.
    pub(super) fn call<'a>(&self, git_dir: &Path, what: &str) -> Call<'a> {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", &self.path).envs(ENVIRONMENT.iter().copied());
        command.env("GIT_DIR", git_dir).process_group(0).current_dir("/");
        command.arg("--no-pager");
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        command.arg(what);
        Call {
            what: what.to_owned(),
            command,
            input: Input::Nothing,
            output: None,
            limit: QUICK,
            bytes_max: OUTPUT_BYTES_MAX,
        }
    }
}

/// The first two numbers of what `git version` says.
fn version(said: &str) -> Option<AtLeast> {
    let mut numbers = said.strip_prefix("git version ")?.split('.');
    Some(AtLeast(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

impl<'a> Call<'a> {
    pub(super) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    pub(super) fn args<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.command.args(words);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Files that the call is about.
    pub(super) fn tree(mut self, folder: &Path) -> Self {
        self.command.env("GIT_WORK_TREE", folder).current_dir(folder);
        self
    }

    /// The index that it uses, instead of the repository's.
    pub(super) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    pub(super) fn reads(mut self, bytes: Vec<u8>) -> Self {
        self.input = Input::Feed(Box::new(move |to| to.write_all(&bytes)));
        self
    }

    pub(super) fn reads_file(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    pub(super) fn feeds(
        mut self,
        feed: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'a,
    ) -> Self {
        self.input = Input::Feed(Box::new(feed));
        self
    }

    /// Where what it prints goes, however much that is.
    pub(super) fn writes(mut self, file: File) -> Self {
        self.output = Some(file);
        self
    }

    pub(super) fn long(self) -> Self {
        self.within(LONG)
    }

    pub(super) fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(super) fn at_most(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// What it printed; anything but success is an error.
    pub(super) fn run(self) -> Result<Vec<u8>, Error> {
        let what = self.what.clone();
        let ended = self.ends()?;
        match ended.code {
            Some(0) => Ok(ended.out),
            code => Err(Error::Git { what, code, said: ended.said }),
        }
    }

    /// How it ended, where a failure is an answer, too.
    pub(super) fn ends(mut self) -> Result<Ended, Error> {
        let broke = |what: &str, error: io::Error| Error::Git {
            what: what.to_owned(),
            code: None,
            said: error.to_string(),
        };
        let feed = match self.input {
            Input::Nothing => {
                self.command.stdin(Stdio::null());
                None
            }
            Input::File(file) => {
                self.command.stdin(file);
                None
            }
            Input::Feed(feed) => {
                self.command.stdin(Stdio::piped());
                Some(feed)
            }
        };
        self.command.stdout(self.output.map_or_else(Stdio::piped, Stdio::from));
        let spawned = self.command.stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| broke(&self.what, error))?;
        let heard = listen(&mut child, feed, self.limit, self.bytes_max);
        let status = child.wait().map_err(|error| broke(&self.what, error))?;
        if heard.slow {
            return Err(Error::TooSlow { what: self.what, limit: self.limit });
        }
        if let Err(error) = heard.fed
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(broke(&self.what, error));
        }
        let Some(out) = heard.out else {
            return Err(Error::TooMuch { what: self.what, bytes_max: self.bytes_max });
        };
        let said = String::from_utf8_lossy(&heard.said).trim().to_owned();
        Ok(Ended { code: status.code(), out, said })
    }
}

struct Heard {
    out: Option<Vec<u8>>,
    said: Vec<u8>,
    fed: io::Result<()>,
    slow: bool,
}

/// Feeds and hears a process until it ends, and ends it if it does not. Whatever it started goes with it.
fn listen(child: &mut Child, feed: Option<Feed<'_>>, limit: Duration, bytes_max: usize) -> Heard {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let pid = Pid::from_child(child);
    thread::scope(|scope| {
        let fed = scope.spawn(move || match (stdin, feed) {
            (Some(mut stdin), Some(feed)) => feed(&mut stdin),
            (Some(_), None) | (None, _) => Ok(()),
        });
        let out = scope.spawn(move || stdout.map_or(Some(vec![]), |out| bounded(out, bytes_max)));
        let said = scope.spawn(move || stderr.map_or_else(Vec::new, complaint));
        let (tell, told) = mpsc::channel();
        scope.spawn(move || {
            // It is not reaped here, so that its number is nobody else's while it may be signalled.
            let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), how), Err(Errno::INTR)) {}
            // Whoever waited may have gone on without us.
            tell.send(()).unwrap_or_default();
        });
        let slow = told.recv_timeout(limit).is_err();
        // Nobody may be left of it.
        kill_process_group(pid, Signal::KILL).unwrap_or_default();
        let broken = |_| io::Error::other("the thread that fed it broke");
        Heard {
            fed: fed.join().unwrap_or_else(|panic| Err(broken(panic))),
            out: out.join().unwrap_or_default(),
            said: said.join().unwrap_or_default(),
            slow,
        }
    })
}

/// Everything that it says, unless that is too much.
fn bounded(from: impl Read, bytes_max: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    drop(from.take(most.saturating_add(1)).read_to_end(&mut bytes));
    (bytes.len() <= bytes_max).then_some(bytes)
}

/// The beginning of what it complains about; the rest is read so that it does not wait for us.
fn complaint(mut from: impl Read) -> Vec<u8> {
    let mut bytes = vec![];
    let most = u64::try_from(COMPLAINT_BYTES_MAX).unwrap_or(u64::MAX);
    drop(from.by_ref().take(most).read_to_end(&mut bytes));
    drop(io::copy(&mut from, &mut io::sink()));
    bytes
}
