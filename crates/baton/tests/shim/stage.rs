//! One agent under one shim, and the truth about it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use baton::clock::{Stopwatch as _, SystemStopwatch, boot_ms};
use baton::shim::spool::{Reader, Record, Stream};
use baton::shim::{Change, Exit, Handle, Limits, Place, Proof, Spec, Want, Wanted, launch};
use baton_domain::ids::{AttemptId, RunId, TaskId, TenantId};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::time::timeout;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_baton");
const ZOO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/zoo.sh");
/// A machine that builds beside the tests is slow; a test that hangs still ends.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long an agent lives without being renewed, unless that is the point.
const FENCE_MS: u64 = 600_000;

/// How much of what was said last is looked through.
const TAIL_BYTES: usize = 4 << 10;

static ATTEMPTS: AtomicU32 = AtomicU32::new(1);
static SKIPPED: AtomicU32 = AtomicU32::new(0);

/// How an agent is kept apart in a test.
pub const WAYS: [(&str, Wanted); 3] = [
    ("namespace", Wanted { namespace: Want::Require, cgroup: Want::Try }),
    ("cgroup", Wanted { namespace: Want::Skip, cgroup: Want::Require }),
    ("subreaper", Wanted { namespace: Want::Skip, cgroup: Want::Skip }),
];
pub const APART: Wanted = WAYS[0].1;
pub const PLAIN: Wanted = WAYS[2].1;

/// The way that this machine offers, strongest first.
pub fn allowed(wanted: Wanted) -> bool {
    let found = baton::shim::examine(PROGRAM.as_ref()).expect("the program looks");
    (wanted.namespace != Want::Require || found.namespace.is_some())
        && (wanted.cgroup != Want::Require || found.cgroup.is_some())
}

/// Says loudly that something was not tried, and how much it was so far.
pub fn skipped(what: &str) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    eprintln!("NOT TRIED ({count}): {what}: this machine denies it");
}

/// A folder with a pipe in it that tells the truth.
pub struct Stage {
    pub folder: TempDir,
    pub place: Place,
    truth: File,
}

/// A running agent.
pub struct Live {
    pub stage: Stage,
    pub handle: Handle,
    pub spec: Spec,
    pub reader: Reader,
    pub said: Vec<Record>,
}

impl Stage {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["work", "home"] {
            fs::create_dir(folder.path().join(name)).expect("it is new");
        }
        let pipe = folder.path().join("truth");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let quietly = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
        let truth =
            File::options().read(true).custom_flags(quietly).open(&pipe).expect("it is there");
        let place = Place::at(folder.path().join("attempt")).with_program(PROGRAM);
        Self { folder, place, truth }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn spec(&self, member: &str, isolation: Wanted) -> Spec {
        let task = TaskId(u64::from(std::process::id()));
        let number = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        let text = |path: PathBuf| path.to_str().expect("a plain name").to_owned();
        let home = self.path("home");
        Spec {
            deployment: "test".into(),
            tenant: TenantId::new("local").expect("a name"),
            run: RunId { task, number: 1 },
            attempt: AttemptId { task, number },
            nonce: format!("n{number}"),
            argv: vec!["/bin/sh".into(), ZOO.into(), member.into()],
            env: BTreeMap::from([
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("TRUTH".into(), text(self.path("truth"))),
                ("HOME".into(), text(home.clone())),
            ]),
            cwd: self.path("work"),
            home,
            stdin: vec![],
            close_stdin: false,
            limits: Limits::default(),
            fence_boot_ms: boot_ms() + FENCE_MS,
            grace_ms: 200,
            proof_ms: 10_000,
            spool_bytes_max: 64 << 20,
            isolation,
            hidden: vec![],
            shown: vec![],
            fixed: vec![],
            tmp: None,
        }
    }

    /// Whether any process of the zoo lives. Descriptors do not lie.
    pub fn has_survivors(&self) -> bool {
        let mut bytes = [0; 256];
        loop {
            match (&self.truth).read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => panic!("the truth cannot be read: {error}"),
            }
        }
    }

    pub async fn launch(self, spec: Spec) -> Live {
        let handle = launch(&self.place, &spec, None).await.expect("the agent starts");
        let reader = Reader::open(&self.place.spool(), 0).expect("there is a spool");
        Live { stage: self, handle, spec, reader, said: vec![] }
    }

    /// One member of the zoo, when it has done what it is called after.
    pub async fn member(member: &str, isolation: Wanted) -> Live {
        let stage = Self::new();
        let spec = stage.spec(member, isolation);
        let mut live = stage.launch(spec).await;
        live.hears("here").await;
        live
    }
}

impl Live {
    /// Everything that the agent said on a stream so far.
    pub fn text(&mut self, stream: Stream) -> Vec<u8> {
        self.said.extend(self.reader.by_ref().map(|record| record.expect("the spool is whole")));
        let own = self.said.iter().filter(|record| record.stream == stream);
        own.flat_map(|record| record.bytes.clone()).collect()
    }

    pub fn out(&mut self) -> String {
        String::from_utf8_lossy(&self.text(Stream::Out)).into_owned()
    }

    /// Waits until the agent has said something.
    pub async fn hears(&mut self, words: &str) {
        // What was said last is enough: it may be a hundred megabytes.
        let mut tail = self.text(Stream::Out);
        let heard = async {
            loop {
                let known = self.said.len();
                self.said.extend(self.reader.by_ref().map(|one| one.expect("the spool is whole")));
                let new = self.said[known..].iter().filter(|one| one.stream == Stream::Out);
                tail.extend(new.flat_map(|record| record.bytes.clone()));
                tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
                if tail.windows(words.len()).any(|piece| piece == words.as_bytes()) {
                    return;
                }
                match self.handle.changes().recv().await {
                    Some(Change::Spool(_) | Change::Exited(_)) => {}
                    Some(Change::Stopped(proof)) => {
                        let text = self.out();
                        assert!(text.contains(words), "it ended before: {proof:?}, said {text:?}");
                        return;
                    }
                    None => panic!("the shim is gone, and the agent said {:?}", self.out()),
                }
            }
        };
        timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("it never says {words}"));
    }

    /// Waits for the next proof.
    pub async fn proof(&mut self) -> Proof {
        let proved = async {
            loop {
                match self.handle.changes().recv().await {
                    Some(Change::Stopped(proof)) => return proof,
                    Some(Change::Spool(_) | Change::Exited(_)) => {}
                    None => panic!("the shim is gone without a proof"),
                }
            }
        };
        timeout(PATIENCE, proved).await.expect("a proof comes")
    }

    pub async fn exit(&mut self) -> Exit {
        let ended = async {
            loop {
                match self.handle.changes().recv().await {
                    Some(Change::Exited(exit)) => return exit,
                    Some(Change::Spool(_)) => {}
                    other => panic!("{other:?} before the exit"),
                }
            }
        };
        timeout(PATIENCE, ended).await.expect("it ends")
    }

    /// Stops it, and says what was proved, how long it took in microseconds, and whether that was true.
    pub async fn stop(&mut self) -> (Proof, u64, bool) {
        let watch = SystemStopwatch::start();
        let begun = watch.micros();
        self.handle.stop(None).await.expect("it listens");
        let proof = self.proof().await;
        let taken = watch.micros() - begun;
        (proof, taken, !self.stage.has_survivors())
    }
}
