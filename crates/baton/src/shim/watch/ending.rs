//! What a shim is asked for, and how it comes to an end.

use baton_domain::run::Death;

use crate::points::{self, Point};

use super::super::control::{Answer, Nudge, Request};
use super::super::fence::{Moment, Order};
use super::super::spec::GRACE_MS_MAX;
use super::super::told::{Cause, Note, Proof, Status};
use super::{Phase, Watch};

/// How long what an agent left behind has to end after it was asked to: the deadline of every clean-up.
const LEFTOVER_MS: u64 = 2_000;
/// How often a kill is repeated in one go before everything else has its turn.
const KILL_ROUNDS: u32 = 64;

impl Watch {
    /// Does what it is asked, or says why not.
    pub(super) fn obey(&mut self, request: Request, now: Moment) -> Answer {
        let done = match request {
            Request::Renew { until_boot_ms } if until_boot_ms <= now.boot => {
                Err(format!("until_boot_ms must be after {}", now.boot))
            }
            Request::Renew { until_boot_ms } => {
                self.fence_boot_ms = self.fence_boot_ms.max(until_boot_ms);
                if self.fence.renew(until_boot_ms, now) {
                    self.thaw(now.boot);
                }
                Ok(())
            }
            Request::Write { b64 } => self.voice.give(&b64),
            Request::CloseStdin {} => {
                self.voice.close();
                Ok(())
            }
            Request::Signal(nudge) => {
                self.nudge(nudge);
                Ok(())
            }
            Request::Stop { grace_ms: Some(grace) } if grace > GRACE_MS_MAX => {
                Err(format!("grace_ms must be at most {GRACE_MS_MAX}"))
            }
            Request::Stop { grace_ms } => {
                self.stop(Cause::Asked, grace_ms.unwrap_or(self.grace_ms), now.boot);
                Ok(())
            }
            Request::Status {} => {
                return Answer::State {
                    nonce: self.nonce.clone(),
                    status: self.status.clone(),
                    spool: self.voice.end(),
                    fence_boot_ms: self.fence_boot_ms,
                };
            }
        };
        match done {
            Ok(()) => Answer::Done {},
            Err(why) => Answer::Refused { why },
        }
    }

    fn nudge(&self, nudge: Nudge) {
        match nudge {
            Nudge::Interrupt => self.tree.interrupt(),
            Nudge::Freeze => self.tree.freeze(true),
            // What stands still because of the fence goes on when that is renewed.
            Nudge::Thaw if self.frozen => {}
            Nudge::Thaw => self.tree.freeze(false),
        }
    }

    /// Asks the tree to end; by force after the grace. Asked again, the shorter one counts.
    pub(super) fn stop(&mut self, by: Cause, grace_ms: u64, now: u64) {
        let until = now.saturating_add(grace_ms);
        match &mut self.phase {
            // What stands still cannot answer.
            Phase::Running if self.frozen => self.kill(by, now),
            Phase::Running => {
                self.begin(by, now);
                self.tree.terminate();
                self.phase = Phase::Ending { by, kill_at: until };
            }
            Phase::Ending { kill_at, .. } => *kill_at = until.min(*kill_at),
            Phase::Killing { .. } | Phase::Over => {}
        }
    }

    /// Takes the next step, if it is time for one.
    pub(super) fn advance(&mut self, now: Moment) {
        self.note_exit(now.boot);
        match self.phase {
            // The agent went with its init, and nobody said how.
            Phase::Running if self.tree.proof().is_some() => self.kill(Cause::Exited, now.boot),
            Phase::Running => match self.fence.order(now) {
                Order::Live { .. } => {}
                Order::Freeze { until } => self.stand_still(until, now.boot),
                Order::Kill => self.kill(Cause::Fence, now.boot),
            },
            Phase::Ending { by, kill_at } => {
                let is_fenced = self.fence.order(now) == Order::Kill;
                if now.boot >= kill_at || is_fenced || self.tree.proof().is_some() {
                    self.kill(by, now.boot);
                }
            }
            Phase::Killing { .. } | Phase::Over => {}
        }
        if let Phase::Killing { by, since, told } = self.phase {
            self.prove(by, since, told, now.boot);
        }
    }

    /// The agent ended: that is told, and what it left behind is asked to end as well.
    fn note_exit(&mut self, now: u64) {
        let Some(exit) = self.tree.exit().filter(|_| self.exit.is_none()) else { return };
        points::pass(Point::ExitSeen);
        self.exit = Some(exit);
        self.voice.drain(now);
        self.voice.note(now, &Note::Exited(exit));
        self.tell(Answer::Exited(exit));
        let until = now.saturating_add(LEFTOVER_MS);
        match &mut self.phase {
            Phase::Running => {
                self.become_so(Status::Exited { exit, at: now });
                points::pass(Point::ExitNoted);
                self.tree.terminate();
                self.phase = Phase::Ending { by: Cause::Exited, kill_at: until };
            }
            Phase::Ending { kill_at, .. } => {
                *kill_at = until.min(*kill_at);
                self.tree.terminate();
            }
            Phase::Killing { .. } | Phase::Over => {}
        }
    }

    fn begin(&mut self, by: Cause, now: u64) {
        self.voice.note(now, &Note::Stopping { by });
        self.become_so(Status::Stopping { by, exit: self.exit, survivor: false, at: now });
    }

    fn kill(&mut self, by: Cause, now: u64) {
        if self.phase == Phase::Running && by != Cause::Exited {
            self.begin(by, now);
        }
        points::pass(Point::Killing);
        self.phase = Phase::Killing { by, since: now, told: false };
    }

    /// Kills until it is proved, and tells of a survivor if it takes too long.
    fn prove(&mut self, by: Cause, since: u64, told: bool, now: u64) {
        self.tree.look();
        for _ in 0..KILL_ROUNDS {
            if let Some(death) = self.tree.proof() {
                return self.finish(by, Proof { death, survivor: false }, now);
            }
            self.tree.kill();
            self.tree.look();
            if self.tree.is_apart() {
                break;
            }
        }
        if !told && now.saturating_sub(since) >= self.proof_ms {
            let unproved = Proof { death: Death::None, survivor: true };
            self.phase = Phase::Killing { by, since, told: true };
            self.voice.note(now, &Note::Stopped(unproved));
            self.become_so(Status::Stopping { by, exit: self.exit, survivor: true, at: now });
            self.tell(Answer::Stopped(unproved));
        }
    }

    fn finish(&mut self, by: Cause, proof: Proof, now: u64) {
        points::pass(Point::Proved);
        self.note_exit(now);
        self.voice.drain(now);
        self.voice.note(now, &Note::Stopped(proof));
        self.voice.sync();
        points::pass(Point::ProofNoted);
        self.tree.clear();
        self.become_so(Status::Stopped { by, exit: self.exit, proof, at: now });
        points::pass(Point::ProofWritten);
        self.doors.tell_spool(self.voice.end());
        self.tell(Answer::Stopped(proof));
        self.phase = Phase::Over;
    }

    fn stand_still(&mut self, until: u64, now: u64) {
        if !self.frozen {
            self.frozen = true;
            self.tree.freeze(true);
            self.voice.note(now, &Note::Frozen { until });
        }
    }

    fn thaw(&mut self, now: u64) {
        if self.frozen {
            self.frozen = false;
            self.tree.freeze(false);
            self.voice.note(now, &Note::Thawed);
        }
    }

    fn become_so(&mut self, status: Status) {
        // On a disk that takes nothing the last status stays, which says less and nothing wrong.
        drop(self.place.write_status(&status));
        self.status = status;
    }
}
