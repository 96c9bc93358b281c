//! How an agent comes into the world: pipes, a process of its own in a room of its own, and a gate that
//! opens once everything that finds it again is on disk.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, write};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::points::{self, Point};

use super::apart::{self, Room};
use super::inside::{self, Bidding, WORD_BYTES_MAX, Word};
use super::kernel::{self, Born, Side};
use super::place::Place;
use super::processes;
use super::spec::Spec;
use super::told::{Isolation, Launch};

/// How long the child's side of a birth may take: mounts and an exec, on a machine that is busy.
const BIRTH: Timespec = Timespec { tv_sec: 15, tv_nsec: 0 };

/// What a new agent needs of its shim.
pub(super) struct AgentEnds {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// A byte comes out when it may go.
    pub(super) gate: OwnedFd,
    /// Why it could not become its program; ends silently when it has.
    pub(super) verdict: OwnedFd,
}

/// The child's ends.
pub(super) struct Theirs {
    pub(super) agent: AgentEnds,
    pub(super) link: Option<OwnedFd>,
}

/// The shim's ends.
pub(super) struct Ours {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    gate: OwnedFd,
    verdict: OwnedFd,
    pub(super) link: Option<OwnedFd>,
}

/// Why nobody was born.
pub(super) enum Failed {
    /// The machine denies such a room.
    Denied(io::Error),
    /// The program cannot be started.
    NotStarted(io::Error),
}

/// Starts an agent in namespaces of its own. `enter` puts the newborn where it is to live; what finds it again is
/// written before it may go.
pub(super) fn apart(
    spec: &Spec,
    place: &Place,
    launch: &mut Launch,
    signals: &OwnedFd,
    enter: impl FnOnce(&Born) -> io::Result<()>,
) -> Result<(Born, Ours), Failed> {
    let (ours, theirs) = ends(true).map_err(Failed::Denied)?;
    let born = match kernel::fork_apart().map_err(Failed::Denied)? {
        Side::Child => {
            drop(ours);
            inside::init(spec, place.folder(), theirs, signals)
        }
        Side::Parent(born) => born,
    };
    drop(theirs);
    let settled = (|| {
        apart::name_users(born.pid)?;
        // Before it hides from everybody but root.
        let namespace = Some(processes::namespace(born.pid)?);
        enter(&born)?;
        let link = ours.link.as_ref().ok_or_else(|| io::Error::other("no link"))?;
        send(link, &[Bidding::Go.byte()], SendFlags::NOSIGNAL)?;
        let Word::Ready(Room { own_proc, own_tmp, hidden, fixed }) = heard(link)? else {
            return Err(io::Error::other("the init said something else first"));
        };
        let known = launch.isolation.clone();
        launch.isolation = Isolation { namespace, own_proc, own_tmp, hidden, fixed, ..known };
        launch.root = Some(processes::by_pid(born.pid)?);
        // Some kernels do not list children; the init is enough to find the tree.
        let children = processes::children(born.pid).unwrap_or_default();
        launch.agent = children.first().and_then(|agent| processes::by_pid(*agent).ok());
        place.write_launch(launch)
    })();
    if let Err(error) = settled {
        bury(&born);
        launch.root = None;
        launch.agent = None;
        return Err(Failed::Denied(error));
    }
    open(born, ours)
}

/// Starts an agent as a plain child.
pub(super) fn plain(
    spec: &Spec,
    place: &Place,
    launch: &mut Launch,
    enter: impl FnOnce(&Born) -> io::Result<()>,
) -> Result<(Born, Ours), Failed> {
    let (ours, theirs) = ends(false).map_err(Failed::NotStarted)?;
    let born = match kernel::fork().map_err(Failed::NotStarted)? {
        Side::Child => {
            drop(ours);
            inside::agent(spec, theirs.agent, None)
        }
        Side::Parent(born) => born,
    };
    drop(theirs);
    let settled = (|| {
        enter(&born)?;
        launch.root = Some(processes::by_pid(born.pid)?);
        launch.agent = launch.root;
        place.write_launch(launch)
    })();
    if let Err(error) = settled {
        bury(&born);
        return Err(Failed::NotStarted(error));
    }
    open(born, ours)
}

/// Opens the gate, and waits until the agent has become its program.
fn open(born: Born, ours: Ours) -> Result<(Born, Ours), Failed> {
    points::pass(Point::RootWritten);
    let mut code = [0; 4];
    let opened = write(&ours.gate, b"g")
        .map_err(io::Error::from)
        .and_then(|_| within(&ours.verdict))
        .and_then(|()| Ok(read(&ours.verdict, &mut code)?));
    let error = match opened {
        Ok(0) => return Ok((born, ours)),
        Ok(_) => io::Error::from_raw_os_error(i32::from_le_bytes(code)),
        Err(error) => error,
    };
    bury(&born);
    Err(Failed::NotStarted(error))
}

/// Ends a child that must not be, with all that hangs on it.
fn bury(born: &Born) {
    let _ = pidfd_send_signal(&born.pidfd, Signal::KILL);
    let _ = waitid(WaitId::Pid(born.pid), WaitIdOptions::EXITED);
}

/// The next word of an init.
pub(super) fn heard(link: &OwnedFd) -> io::Result<Word> {
    within(link)?;
    let mut bytes = vec![0; WORD_BYTES_MAX];
    let (length, _) = recv(link, &mut bytes[..], RecvFlags::DONTWAIT)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes[..length])?)
}

fn within(from: &OwnedFd) -> io::Result<()> {
    let mut ready = [PollFd::new(from, PollFlags::IN)];
    match poll(&mut ready, Some(&BIRTH))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

fn ends(with_link: bool) -> io::Result<(Ours, Theirs)> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let (stdin, ours_in) = pipe()?;
    let (ours_out, stdout) = pipe()?;
    let (ours_err, stderr) = pipe()?;
    let (gate, ours_gate) = pipe()?;
    let (ours_verdict, verdict) = pipe()?;
    let mut links = (None, None);
    if with_link {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        links = (Some(ours), Some(theirs));
    }
    let ours = Ours {
        stdin: ours_in,
        stdout: ours_out,
        stderr: ours_err,
        gate: ours_gate,
        verdict: ours_verdict,
        link: links.0,
    };
    let agent = AgentEnds { stdin, stdout, stderr, gate, verdict };
    Ok((ours, Theirs { agent, link: links.1 }))
}
