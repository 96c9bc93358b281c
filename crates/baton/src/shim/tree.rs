//! A tree of processes: how it is told to end, made to, and known to have.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use baton_domain::run::Death;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process_group, pidfd_open,
    pidfd_send_signal, set_child_subreaper, wait,
};

use crate::points::{self, Point};

use super::birth::{self, Failed, Ours};
use super::cgroup::Cgroup;
use super::inside::{Bidding, Word};
use super::kernel::Born;
use super::place::Place;
use super::processes;
use super::spec::{Spec, Want};
use super::told::{Exit, Launch};

/// The tree of one agent.
#[derive(Debug)]
pub(super) struct Tree {
    /// The init of the namespace, or the agent.
    root: Born,
    root_is_gone: bool,
    /// Whether the last look found no child at all.
    is_childless: bool,
    /// Whether the root is the init of a namespace.
    is_apart: bool,
    /// The line to the init, as long as it hears.
    link: Option<OwnedFd>,
    cgroup: Option<Cgroup>,
    is_subreaper: bool,
    exit: Option<Exit>,
}

impl Tree {
    /// Starts an agent, in as much of a room of its own as is wanted and to be had.
    pub(super) fn start(
        spec: &Spec,
        place: &Place,
        launch: &mut Launch,
        signals: &OwnedFd,
    ) -> io::Result<(Self, Ours)> {
        let is_subreaper = set_child_subreaper(Some(getpid())).is_ok();
        launch.isolation.subreaper = is_subreaper;
        let cgroup = group(spec, launch)?;
        place.write_launch(launch)?;
        points::pass(Point::LaunchWritten);
        let enter = |born: &Born| match &cgroup {
            None => Ok(()),
            Some(group) => group.enter(born.pid),
        };
        let made = match spec.isolation.namespace {
            Want::Skip => birth::plain(spec, place, launch, enter),
            Want::Require => birth::apart(spec, place, launch, signals, enter),
            Want::Try => match birth::apart(spec, place, launch, signals, enter) {
                Err(Failed::Denied(error)) => {
                    launch.isolation.denied.push(format!("namespace: {error}"));
                    birth::plain(spec, place, launch, enter)
                }
                made => made,
            },
        };
        let (root, mut ends) = made.map_err(|failed| {
            if let Some(group) = &cgroup {
                group.remove();
            }
            match failed {
                Failed::Denied(error) => {
                    io::Error::new(error.kind(), format!("namespace: {error}"))
                }
                Failed::NotStarted(error) => {
                    let program = &spec.argv[0];
                    io::Error::new(error.kind(), format!("cannot start {program}: {error}"))
                }
            }
        })?;
        let link = ends.link.take();
        let tree = Self {
            root,
            root_is_gone: false,
            is_childless: false,
            is_apart: link.is_some(),
            link,
            cgroup,
            is_subreaper,
            exit: None,
        };
        Ok((tree, ends))
    }

    /// How the agent ended, if it has.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Whether the tree has a namespace of its own, whose end is one event.
    pub(super) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// What becomes readable when something happened to the tree.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let root = (!self.root_is_gone).then_some(self.root.pidfd.as_fd());
        root.into_iter().chain(self.link.as_ref().map(|link| link.as_fd()))
    }

    /// Takes in whatever ended.
    pub(super) fn look(&mut self) {
        if let Some(link) = self.link.as_ref().filter(|link| is_readable(link)) {
            match birth::heard(link) {
                Ok(Word::Exited(exit)) => self.exit = Some(exit),
                Ok(Word::Ready(_)) => {}
                // It is about to end, and says no more.
                Err(_) => self.link = None,
            }
        }
        self.is_childless = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.root.pid => {
                    self.root_is_gone = true;
                    if !self.is_apart {
                        self.exit = Some(Exit::of(status));
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(Errno::CHILD) => break true,
                Ok(None) | Err(_) => break false,
            }
        };
    }

    /// The proof that nothing is left, as of the last look.
    pub(super) fn proof(&self) -> Option<Death> {
        if self.is_apart() {
            // The kernel ends an init only after everybody else in its namespace.
            return self.root_is_gone.then_some(Death::PidNamespace);
        }
        if !self.is_subreaper {
            return self.root_is_gone.then_some(Death::None);
        }
        // A group alone proves nothing: its members may have moved to another one. Whoever moved is
        // still a child.
        match &self.cgroup {
            _ if !self.is_childless => None,
            None => Some(Death::SubreaperEchild),
            Some(group) => matches!(group.is_empty(), Ok(true)).then_some(Death::Cgroup),
        }
    }

    /// Asks the agent to look up.
    pub(super) fn interrupt(&self) {
        self.ask(Bidding::Interrupt, Signal::INT);
    }

    /// Asks the agent to end, or whatever it left behind.
    pub(super) fn terminate(&self) {
        self.ask(Bidding::Terminate, Signal::TERM);
    }

    fn ask(&self, bidding: Bidding, signal: Signal) {
        if self.is_apart {
            let say = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            // An init that does not hear any more is about to end.
            let _ = self.link.as_ref().map(|link| send(link, &[bidding.byte()], say));
        } else if self.root_is_gone {
            to_children(signal);
        } else {
            // Nobody has reaped the leader, so that the number of its group is its own.
            let _ = kill_process_group(self.root.pid, signal);
        }
    }

    /// Stops the time of the tree, or lets it go on.
    pub(super) fn freeze(&self, frozen: bool) {
        if let Some(group) = &self.cgroup
            && group.freeze(frozen).is_ok()
        {
            return;
        }
        match frozen {
            true => self.ask(Bidding::Freeze, Signal::STOP),
            false => self.ask(Bidding::Thaw, Signal::CONT),
        }
    }

    /// Kills everything that can be reached now. Without a namespace this has to be said until the proof is there.
    pub(super) fn kill(&self) {
        if let Some(group) = &self.cgroup {
            drop(group.kill());
        }
        if !self.root_is_gone {
            if !self.is_apart() {
                let _ = kill_process_group(self.root.pid, Signal::KILL);
            }
            let _ = pidfd_send_signal(&self.root.pidfd, Signal::KILL);
        }
        if !self.is_apart() {
            to_children(Signal::KILL);
        }
    }

    /// Clears away what the kernel keeps for it.
    pub(super) fn clear(&self) {
        if let Some(group) = &self.cgroup {
            group.remove();
        }
    }
}

impl Exit {
    pub(super) fn of(status: rustix::process::WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// A control group, as far as it is wanted and to be had.
fn group(spec: &Spec, launch: &mut Launch) -> io::Result<Option<Cgroup>> {
    if spec.isolation.cgroup == Want::Skip {
        return Ok(None);
    }
    let name = format!("baton-{}-{}-{}", spec.deployment, spec.tenant, spec.attempt);
    match Cgroup::make(&name) {
        Ok(group) => {
            launch.isolation.cgroup = Some(group.path().to_owned());
            Ok(Some(group))
        }
        Err(error) if spec.isolation.cgroup == Want::Require => {
            Err(io::Error::new(error.kind(), format!("cgroup: {error}")))
        }
        Err(error) => {
            launch.isolation.denied.push(format!("cgroup: {error}"));
            Ok(None)
        }
    }
}

/// Signals every child of ours. A child that nobody has reaped keeps its number.
fn to_children(signal: Signal) {
    let children: Vec<Pid> = processes::children(getpid()).unwrap_or_default();
    for child in children {
        if let Ok(pidfd) = pidfd_open(child, PidfdFlags::empty()) {
            let _ = pidfd_send_signal(&pidfd, signal);
        }
    }
}

fn is_readable(link: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ready = [PollFd::new(link, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut ready, Some(&now)), Ok(1..))
}
