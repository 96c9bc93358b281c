//! How an attempt ends: one cause counts, its processes are ended rung by rung, their death is proved, and only then is
//! it over.

use baton_domain::deadline::Deadline;
use baton_domain::run::{Cap, Death, Purpose};
use baton_domain::text::{Code, Reason, Text};

use crate::shim::{Cause, Exit, Proof};

use super::{Act, At, Broken, Course, Place, Report, Until, Why};

/// How long after its grace a shim that says nothing is asked again to end its tree.
pub(super) const STOP_AGAIN_MS: u64 = 10_000;
/// How long keeping the work, and handing it in, may hold up the proof: the server waits half a minute for that.
pub(super) const KEEP_MS_MAX: u64 = 20_000;

/// The proof of an attempt of which nothing was started.
const NOT_STARTED: Proof = Proof { death: Death::NotStarted, survivor: false };

/// Why an attempt ends. The first cause counts; whatever comes after it is a fact and no cause.
#[derive(Clone, Debug)]
pub(super) enum Latch {
    /// It took too long.
    TimedOut(Deadline),
    /// It used up what it may.
    Exceeded(Cap),
    /// Something broke that is not its agent's fault.
    Lost { code: Code, reason: Reason },
    /// The run is given back.
    Released { reason: Reason, until: Until },
    /// Its agent ended, or has nothing more to say.
    Exited(Option<Exit>),
    /// What it was to try was tried.
    Probed { met: bool },
    /// The server says so, and knows what counts.
    Called,
    /// It holds its run no longer.
    Fenced,
    /// A worker before told why.
    Before,
}

impl Latch {
    /// What breaks on this machine, by a word of our own.
    pub(super) fn lost(code: &'static str, reason: &str) -> Self {
        let code = Text::new("code", code).expect("our own codes are short words");
        Self::Lost { code, reason: sentence(reason) }
    }

    /// What the server has to hear of it.
    fn report(&self) -> Option<Report> {
        Some(match self {
            Self::TimedOut(deadline) => Report::TimedOut(*deadline),
            Self::Exceeded(cap) => Report::Exceeded(*cap),
            Self::Lost { code, reason } => {
                Report::Lost { code: code.clone(), reason: reason.clone() }
            }
            Self::Released { reason, until } => {
                Report::Released { reason: reason.clone(), until: *until }
            }
            Self::Exited(exit) => Report::Exited(*exit),
            Self::Probed { met } => Report::Probed { met: *met },
            Self::Called | Self::Fenced | Self::Before => return None,
        })
    }
}

/// How far the end is.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    /// When its tree is to be ended, for the first time or again.
    stop_at: Option<At>,
    /// Whether that was asked for.
    is_asked: bool,
    /// How its death was proved.
    proof: Option<Proof>,
    /// How long the proof waits for the work to be kept.
    keep_by: Option<At>,
    /// Whether it waits for what was submitted to be checked.
    is_held_up: bool,
}

impl Ladder {
    /// How long the proof waits for the work to be kept, if it does.
    pub(super) fn keep_by(&self) -> Option<At> {
        self.keep_by
    }

    /// When something is to be done.
    pub(super) fn due(&self) -> Option<At> {
        match self.proof {
            None => self.stop_at,
            Some(_) => self.keep_by,
        }
    }
}

impl Course {
    /// Ends the attempt for this reason, unless it ends already.
    pub(super) fn close(&mut self, latch: Latch, at: At) {
        if self.latch.is_some() {
            return;
        }
        self.tell_usage_now(at);
        self.tell_cause(&latch);
        self.latch = Some(latch);
        self.begin_to_end(at);
    }

    /// Tells why it ends, once for all workers that had it.
    fn tell_cause(&mut self, latch: &Latch) {
        if let Some(report) = latch.report()
            && !self.told.ended()
            && !self.told.dead()
        {
            self.tell(report);
        }
    }

    fn begin_to_end(&mut self, at: At) {
        if self.ladder.proof.is_some() {
            return self.finish(at);
        }
        if self.is_running() && !self.is_fenced {
            self.write(Act::Interrupt);
            let half = self.clocks.allows(Deadline::Cleanup) / 2;
            self.ladder.stop_at = Some(at.plus(half));
        } else {
            self.stop(at);
        }
    }

    /// Ends the tree. Whoever holds its run no longer gets no grace: another may work there already.
    pub(super) fn stop(&mut self, at: At) {
        let grace_ms = if self.is_fenced { 0 } else { self.terms.grace_ms };
        self.act(Act::Stop { grace_ms });
        self.ladder.is_asked = true;
        self.ladder.stop_at = Some(at.plus(grace_ms).plus(STOP_AGAIN_MS));
    }

    /// Nothing of it runs, and nothing will.
    pub(super) fn refused(&mut self, broken: Broken, at: At) {
        self.ladder.proof = Some(NOT_STARTED);
        if self.latch.is_some() {
            return self.finish(at);
        }
        self.close(
            match broken {
                Broken::Lost { code, reason } => Latch::Lost { code, reason },
                Broken::Back { reason, until } => {
                    Latch::Released { reason, until: until.map_or(Until::Now, Until::At) }
                }
            },
            at,
        );
    }

    /// Its shim ends it, and says why.
    pub(super) fn shim_ends(&mut self, cause: Cause, at: At) {
        let latch = match cause {
            Cause::Exited => return,
            Cause::Asked => Latch::lost("stopped", "somebody asked its shim to end it"),
            Cause::Fence => Latch::lost("lease_not_renewed", "nobody renewed its lease in time"),
            Cause::Signal => Latch::lost("shim_signalled", "its shim was told to end by a signal"),
        };
        self.close(latch, at);
    }

    /// Its first process ended. What that left behind is ended, too.
    pub(super) fn exited(&mut self, exit: Exit, at: At) {
        self.place = Place::Gone;
        if self.latch.is_some() {
            if self.ladder.proof.is_none() && !self.ladder.is_asked {
                self.stop(at);
            }
            return;
        }
        self.close(
            match self.terms.purpose {
                Purpose::Probe => Latch::Probed { met: exit == Exit::Code(0) },
                Purpose::Work | Purpose::Verify | Purpose::Merge => Latch::Exited(Some(exit)),
            },
            at,
        );
    }

    /// Its tree is dead, or something of it will not die.
    pub(super) fn proved(&mut self, proof: Proof, unasked: Latch, at: At) {
        self.place = Place::Gone;
        if proof.survivor {
            self.close(unasked, at);
            if !self.told.survivor() {
                self.tell(Report::Stopped(proof));
                self.act(Act::Quarantine);
            }
            return;
        }
        if self.ladder.proof.replace(proof).is_some() {
            return;
        }
        if self.latch.is_some() { self.finish(at) } else { self.close(unasked, at) }
    }

    /// It is dead: its work is kept, then all of it is told.
    fn finish(&mut self, at: At) {
        let Some(proof) = self.ladder.proof else { return };
        match (proof.death, self.told.survivor()) {
            (Death::None, false) => self.act(Act::Quarantine),
            (Death::None, true) | (_, false) => {}
            // What would not die has died.
            (_, true) => self.act(Act::Lift),
        }
        let is_known = proof.death == Death::NotStarted || self.told.dead();
        if is_known || !self.keeps_work() {
            return self.conclude(at);
        }
        self.ladder.keep_by = Some(at.plus(KEEP_MS_MAX));
        self.keep(Why::Stop, at);
    }

    /// Whether its agent went by itself, so that what it submitted may still be checked.
    pub(super) fn awaits_checks(&self) -> bool {
        matches!(self.latch, Some(Latch::Exited(_))) && !self.is_fenced
    }

    /// What it submitted was checked, and what was found is told.
    pub(super) fn checked(&mut self, at: At) {
        if std::mem::replace(&mut self.checks, false) && self.ladder.is_held_up {
            self.ladder.is_held_up = false;
            self.conclude(at);
        }
    }

    /// It could not be checked: somebody else will.
    pub(super) fn unchecked(&mut self, why: &str, at: At) {
        let (code, reason) = ("not_verified", sentence(why));
        if self.latch.is_none() {
            self.checks = false;
            return self.close(Latch::lost(code, why), at);
        }
        if self.awaits_checks() && !self.told.dead() {
            let code = Text::new("code", code).expect("our own codes are short words");
            self.tell(Report::Lost { code, reason });
        }
        self.checked(at);
    }

    /// Everything is told.
    pub(super) fn conclude(&mut self, at: At) {
        let Some(proof) = self.ladder.proof else { return };
        if self.checks && self.awaits_checks() {
            (self.ladder.keep_by, self.ladder.is_held_up) = (None, true);
            return;
        }
        self.tell_usage_now(at);
        if !self.told.dead() {
            self.tell(Report::Stopped(proof));
        }
        if !self.replays {
            self.act(Act::Over);
            self.is_over = true;
        }
    }

    /// It holds its run no longer: whatever it does from now on is too late.
    pub(super) fn fenced(&mut self, at: At) {
        if std::mem::replace(&mut self.is_fenced, true) {
            return;
        }
        if self.latch.is_some() {
            if self.ladder.proof.is_none() {
                self.stop(at);
            }
            return;
        }
        self.close(Latch::Fenced, at);
    }

    /// The next rung, if it is time.
    pub(super) fn climb(&mut self, at: At) {
        if self.ladder.due().is_none_or(|due| due > at) {
            return;
        }
        if self.ladder.proof.is_some() { self.conclude(at) } else { self.stop(at) }
    }

    /// A worker came back to an attempt that ends.
    pub(super) fn end_again(&mut self, at: At) {
        let Some(latch) = self.latch.clone() else { return };
        self.tell_cause(&latch);
        if self.ladder.proof.is_some() { self.finish(at) } else { self.stop(at) }
    }
}

/// A sentence that may quote what a program said; never more than a part of it.
pub(super) fn sentence(text: &str) -> Reason {
    let plain: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    let cut = &plain[..plain.floor_char_boundary(2_048)];
    let unshown = || Text::new("reason", "what was said of it cannot be shown");
    Text::new("reason", cut.trim_end())
        .unwrap_or_else(|_| unshown().expect("a plain sentence is a text"))
}
