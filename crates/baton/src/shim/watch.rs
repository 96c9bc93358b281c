//! The life of a shim, from the agent's birth to the proof of its end: one loop, one thread.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::read;
use rustix::process::Signal;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::points::{self, Point};

use super::control::Answer;
use super::doors::Doors;
use super::fence::{Fence, Moment, Order};
use super::place::Place;
use super::spec::Spec;
use super::told::{Cause, Exit, Status};
use super::tree::Tree;
use super::voice::Voice;

mod ending;

/// How often a kill is repeated where it has to be: without a namespace, new children may be born meanwhile.
const KILL_AGAIN_MS: u64 = 2;
/// How often one is looked after whose kill needs no repetition.
const LOOK_AGAIN_MS: u64 = 50;
/// The same once a survivor was told.
const LOOK_LATER_MS: u64 = 250;
/// How soon a disk that took nothing is tried again.
const DISK_AGAIN_MS: u64 = 1_000;
/// How long the last words may take to reach whoever launched it; who comes later finds them on disk.
const GOODBYE_MS: u64 = 10_000;
/// Bytes in which the kernel tells of a signal; its number comes first.
const SIGNAL_BYTES: usize = 128;

/// A shim at work.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) place: Place,
    pub(super) nonce: String,
    pub(super) tree: Tree,
    pub(super) voice: Voice,
    pub(super) doors: Doors,
    pub(super) signals: OwnedFd,
    timer: OwnedFd,
    fence: Fence,
    fence_boot_ms: u64,
    grace_ms: u64,
    proof_ms: u64,
    frozen: bool,
    exit: Option<Exit>,
    phase: Phase,
    status: Status,
    /// What everybody was told; at most an exit, a survivor and a proof.
    happened: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// It was asked to end, and has until then.
    Ending {
        by: Cause,
        kill_at: u64,
    },
    /// It is being killed since then; whether a survivor was told.
    Killing {
        by: Cause,
        since: u64,
        told: bool,
    },
    Over,
}

impl Watch {
    pub(super) fn new(
        spec: &Spec,
        place: Place,
        tree: Tree,
        voice: Voice,
        doors: Doors,
        signals: OwnedFd,
    ) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self {
            place,
            nonce: spec.nonce.clone(),
            tree,
            voice,
            doors,
            signals,
            timer: timerfd_create(TimerfdClockId::Boottime, flags)?,
            fence: Fence::new(spec.fence_boot_ms, Moment::now()),
            fence_boot_ms: spec.fence_boot_ms,
            grace_ms: spec.grace_ms,
            proof_ms: spec.proof_ms,
            frozen: false,
            exit: None,
            phase: Phase::Running,
            status: Status::Running,
            happened: vec![],
        })
    }

    /// Watches until everything is over.
    pub(super) fn run(&mut self) {
        while self.phase != Phase::Over {
            let next = self.next(Moment::now());
            self.arm(next);
            self.wait();
            let at = Moment::now().boot;
            let is_told_to_end = self.hears_its_end();
            let kept = self.voice.end();
            self.voice.listen(at);
            if self.voice.end() > kept {
                points::pass(Point::WordsKept);
            }
            self.tree.look();
            self.serve();
            self.voice.speak(at);
            if is_told_to_end {
                self.stop(Cause::Signal, self.grace_ms, Moment::now().boot);
            }
            self.advance(Moment::now());
            self.doors.tell_spool(self.voice.end());
            self.doors.send();
        }
        points::pass(Point::SaidAll);
        self.say_goodbye();
    }

    /// The next moment at which something is to be done even if nothing happens.
    fn next(&mut self, now: Moment) -> u64 {
        let (order, now) = (self.fence.order(now), now.boot);
        let fence = match order {
            Order::Live { until } | Order::Freeze { until } => until,
            Order::Kill => now,
        };
        let next = match self.phase {
            // What is to stand still does so at once.
            Phase::Running if !self.frozen && matches!(order, Order::Freeze { .. }) => now,
            Phase::Running => fence,
            Phase::Ending { kill_at, .. } => kill_at.min(fence),
            Phase::Killing { told: true, .. } => now + LOOK_LATER_MS,
            Phase::Killing { told: false, .. } if self.tree.is_apart() => now + LOOK_AGAIN_MS,
            Phase::Killing { told: false, .. } => now + KILL_AGAIN_MS,
            Phase::Over => now,
        };
        if self.voice.is_held_up() { next.min(now + DISK_AGAIN_MS) } else { next }
    }

    /// Sets the timer, which counts on while the machine sleeps.
    fn arm(&self, at: u64) {
        // A moment of zero would mean never.
        let at = i64::try_from(at).unwrap_or(i64::MAX).max(1);
        let value = Timespec { tv_sec: at / 1_000, tv_nsec: at % 1_000 * 1_000_000 };
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let when = Itimerspec { it_interval: once, it_value: value };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when);
    }

    /// Waits until there is something to do.
    fn wait(&self) {
        let mut ready = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.timer, PollFlags::IN),
            PollFd::from_borrowed_fd(self.doors.listener(), PollFlags::IN),
        ];
        let heard = self.tree.descriptors().chain(self.voice.heard());
        ready.extend(heard.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)));
        ready.extend(self.voice.spoken().map(|one| PollFd::from_borrowed_fd(one, PollFlags::OUT)));
        for (client, has_post) in self.doors.clients() {
            let post = if has_post { PollFlags::OUT } else { PollFlags::empty() };
            ready.push(PollFd::from_borrowed_fd(client, PollFlags::IN | post));
        }
        // An interrupted wait is one that something ended.
        let _ = poll(&mut ready, None);
    }

    /// Takes in the signals; whether one of them tells the shim to end.
    fn hears_its_end(&self) -> bool {
        let mut bytes = [0_u8; 8 * SIGNAL_BYTES];
        let length = read(&self.signals, &mut bytes[..]).unwrap_or(0);
        let mut numbers = bytes[..length]
            .chunks_exact(SIGNAL_BYTES)
            .filter_map(|one| one.first_chunk::<4>().map(|number| u32::from_ne_bytes(*number)));
        numbers.any(|number| i32::try_from(number) != Ok(Signal::CHILD.as_raw()))
    }

    /// Lets in who may come in, and does what is asked for.
    fn serve(&mut self) {
        self.doors.admit(&self.happened);
        for (number, request) in self.doors.requests() {
            let answer = match request {
                Ok(request) => self.obey(request, Moment::now()),
                Err(why) => Answer::Refused { why },
            };
            self.doors.answer(number, &answer);
        }
    }

    /// Tells everybody what happened, now and later.
    fn tell(&mut self, answer: Answer) {
        self.doors.tell(&answer);
        self.happened.push(answer);
    }

    /// Sends the last words, as far as somebody reads them. An agent may be faster than whoever launched it:
    /// as long as nobody came, somebody may be on the way.
    fn say_goodbye(&mut self) {
        self.arm(Moment::now().boot + GOODBYE_MS);
        loop {
            self.hears_its_end();
            self.serve();
            self.doors.tell_spool(self.voice.end());
            self.doors.send();
            let is_late = read(&self.timer, &mut [0_u8; 8]).is_ok();
            if self.doors.is_done() || is_late {
                return;
            }
            self.wait();
        }
    }
}
