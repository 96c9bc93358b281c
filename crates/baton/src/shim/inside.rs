//! The child's side of a birth: the init of a namespace, and the agent until it becomes its program.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio, exit};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::{Errno, read, write};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process_group,
    set_dumpable_behavior, set_parent_process_death_signal, setrlimit, setsid, umask, wait,
};
use rustix::thread::set_no_new_privs;
use serde::{Deserialize, Serialize};

use super::apart::{self, Room};
use super::birth;
use super::kernel::{self, Side};
use super::spec::Spec;
use super::told::Exit;

/// What an init exits with when its shim is gone or something cannot be.
const FAILED: i32 = 125;
/// What an agent exits with that never became its program, as in shells.
const NOT_STARTED: i32 = 127;
/// How much sooner than others an agent is chosen when memory runs out; 1000 is for sure.
const OOM_FIRST: &str = "500";
/// Bytes of a word from the init: a list of paths at most.
pub(super) const WORD_BYTES_MAX: usize = 64 << 10;

/// What an init tells its shim.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The room is ready and the agent waits at the gate.
    Ready(Room),
    /// The agent ended.
    Exited(Exit),
}

/// What a shim tells its init, one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bidding {
    /// The users have names: go on.
    Go,
    /// The agent's group should look up.
    Interrupt,
    /// The agent's group should end, or whatever it left behind.
    Terminate,
    /// Everything stands still.
    Freeze,
    /// Everything goes on.
    Thaw,
}

impl Bidding {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Go => b'g',
            Self::Interrupt => b'i',
            Self::Terminate => b't',
            Self::Freeze => b'f',
            Self::Thaw => b'c',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        let all = [Self::Go, Self::Interrupt, Self::Terminate, Self::Freeze, Self::Thaw];
        all.into_iter().find(|one| one.byte() == byte)
    }
}

/// The life of an init: prepares the room, starts the agent, reaps, and ends with the last process.
pub(super) fn init(spec: &Spec, folder: &Path, ends: birth::Theirs, signals: &OwnedFd) -> ! {
    let Some(link) = ends.link else { exit(FAILED) };
    let mut byte = [0];
    match recv(&link, &mut byte, RecvFlags::empty()) {
        Ok((1, _)) if Bidding::of(byte[0]) == Some(Bidding::Go) => {}
        Ok(_) | Err(_) => exit(FAILED),
    }
    // If the shim died before this line, the link has ended, and the loop below sees it.
    let prepared = set_parent_process_death_signal(Some(Signal::KILL))
        .and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .and_then(|()| setsid().map(drop));
    if prepared.is_err() {
        exit(FAILED);
    }
    let room = apart::furnish(spec, folder);
    let agent = match kernel::fork() {
        Ok(Side::Child) => {
            drop(link);
            agent(spec, ends.agent, Some(&room))
        }
        Ok(Side::Parent(born)) => born.pid,
        Err(_) => exit(FAILED),
    };
    drop(ends.agent);
    if kernel::silence().and_then(|()| kernel::close_but(&[&link, signals])).is_err() {
        exit(FAILED);
    }
    say(&link, &Word::Ready(room));
    reap(&link, signals, agent)
}

/// Reaps whatever ends and does what it is told, until nothing is left or the shim is gone.
fn reap(link: &OwnedFd, signals: &OwnedFd, agent: Pid) -> ! {
    let mut alive = true;
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == agent && alive => {
                    alive = false;
                    say(link, &Word::Exited(Exit::of(status)));
                }
                Ok(Some(_)) => {}
                // Orphans of a namespace come to its init: without children it is empty.
                Err(Errno::CHILD) => exit(0),
                Ok(None) | Err(_) => break,
            }
        }
        let mut ready = [PollFd::new(link, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        // What the signals were does not matter: only that somebody ended.
        let _ = read(signals, &mut [0_u8; 512]);
        if ready[0].revents().is_empty() {
            continue;
        }
        let mut byte = [0];
        match recv(link, &mut byte, RecvFlags::DONTWAIT) {
            Ok((0, _)) => exit(FAILED),
            Ok(_) => obey(Bidding::of(byte[0]), agent, alive),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => exit(FAILED),
        }
    }
}

fn obey(command: Option<Bidding>, agent: Pid, alive: bool) {
    // The number of a group is safe as long as nobody has reaped its leader; to the init itself the number
    // 1 means everybody else.
    let group = if alive { agent } else { Pid::INIT };
    let sent = match command {
        Some(Bidding::Interrupt) => kill_process_group(group, Signal::INT),
        Some(Bidding::Terminate) => kill_process_group(group, Signal::TERM),
        Some(Bidding::Freeze) => kill_process_group(Pid::INIT, Signal::STOP),
        Some(Bidding::Thaw) => kill_process_group(Pid::INIT, Signal::CONT),
        Some(Bidding::Go) | None => Ok(()),
    };
    // Nobody there is what the reaping will find, too.
    let _ = sent;
}

fn say(link: &OwnedFd, word: &Word) {
    let mut bytes = serde_json::to_vec(word).unwrap_or_default();
    if let Word::Ready(room) = word
        && bytes.len() > WORD_BYTES_MAX
    {
        let fewer = Word::Ready(Room { hidden: vec![], fixed: vec![], ..room.clone() });
        bytes = serde_json::to_vec(&fewer).unwrap_or_default();
    }
    // A shim that does not hear is gone, which ends the loop.
    let _ = send(link, &bytes, SendFlags::NOSIGNAL);
}

/// Waits at the gate, and becomes the agent's program: in a room of its own, or among everybody else.
pub(super) fn agent(spec: &Spec, ends: birth::AgentEnds, room: Option<&Room>) -> ! {
    let birth::AgentEnds { stdin, stdout, stderr, gate, verdict } = ends;
    let tmp = match room {
        Some(room) if room.own_tmp => None,
        Some(_) | None => spec.tmp.as_ref(),
    };
    let error = match prepared(spec, &gate, room.is_some()) {
        Err(error) => error,
        Ok(()) => Command::new(&spec.argv[0])
            .args(&spec.argv[1..])
            .env_clear()
            .envs(&spec.env)
            .envs(tmp.map(|tmp| ("TMPDIR", tmp)))
            .current_dir(&spec.cwd)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr))
            .exec(),
    };
    let code = error.raw_os_error().unwrap_or(0);
    let _ = write(&verdict, &code.to_le_bytes());
    exit(NOT_STARTED)
}

fn prepared(spec: &Spec, gate: &OwnedFd, apart: bool) -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the shim died before the line above, nobody holds the other end of the gate.
    if read(gate, &mut [0_u8; 1])? != 1 {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    umask(Mode::RWXG | Mode::RWXO);
    // When memory runs out, an agent goes before whoever has to tell of it.
    drop(fs::write("/proc/self/oom_score_adj", OOM_FIRST));
    limit(Resource::Core, Some(0))?;
    limit(Resource::Nproc, spec.limits.processes)?;
    limit(Resource::Nofile, spec.limits.files)?;
    limit(Resource::As, spec.limits.memory)?;
    set_no_new_privs(true)?;
    if apart {
        apart::give_up_powers()?;
    }
    kernel::close_at_exec()
}

/// Bounds a resource, for good.
fn limit(resource: Resource, wanted: Option<u64>) -> io::Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let highest = getrlimit(resource).maximum;
    let bound = Some(highest.map_or(wanted, |highest| highest.min(wanted)));
    Ok(setrlimit(resource, Rlimit { current: bound, maximum: bound })?)
}
