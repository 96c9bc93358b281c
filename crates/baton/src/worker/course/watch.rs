//! What is seen of an agent that works: life, progress, use, and the end of its turns.

use baton_domain::deadline::{Deadline, Sight};
use baton_domain::run::{Cap, Purpose};
use baton_domain::time::Millis;

use crate::adapters::{Class, End, Fault, Limit, Seen, Usage};
use crate::protocol::Phase;

use super::ending::{Latch, sentence};
use super::turn::Ask;
use super::{Act, At, Course, Report, Until, Why};

/// Life and progress are told at most so often; the server's backstop is three times as patient.
pub(super) const LIFE_EVERY_MS: u64 = 10_000;
/// What was used is told at most so often. A budget that many share is overdrawn by what they spend in two of
/// these: one until the books know, one until the last of them is heard.
pub(super) const USAGE_EVERY_MS: u64 = 1_000;
/// That tools begin and end is told at most so often: some agents use many in a second.
const TOOL_EVERY_MS: u64 = 1_000;
/// The same for what was used while nobody hears it.
const USAGE_UNHEARD_MS: u64 = 60_000;
/// Files that an agent is remembered to have read; whoever reads more reads nothing new.
const READ_MAX: usize = 10_000;
/// Processor time by which the processes of an agent show that they do something.
pub(super) const BUSY_MS: u64 = 1_000;
/// How often whoever drives a course looks what its processes use.
pub const BUSY_EVERY_MS: u64 = 10_000;
/// How long a worker that came back looks at processes that were silent too long: what they did meanwhile stands in no
/// spool, and it takes two looks to see that they do something.
pub(super) const LOOK_MS: u64 = 2 * BUSY_EVERY_MS + 1_000;
/// Tools that may run side by side; those beyond are counted, and not waited for.
const TOOLS_MAX: usize = 256;
/// How long a run rests after a limit of which neither the account nor the end is known.
const REST: Millis = Millis::minutes(5);

impl Course {
    /// Something was seen of the agent.
    pub(super) fn seen(&mut self, seen: Seen, at: At) {
        let is_fact = matches!(seen, Seen::Session(_) | Seen::Used(_) | Seen::Limited(_));
        if self.latch.is_some() && !is_fact {
            return;
        }
        match seen {
            Seen::Session(id) => self.session = Some(id),
            Seen::Used(usage) => self.used(usage, at),
            Seen::Limited(limit) => self.limited(&limit, at),
            Seen::Started => {
                self.turns = self.turns.saturating_add(1);
                self.turn.begin();
                self.life(false, at);
                if self.turns > self.terms.caps.turns {
                    self.close(Latch::Exceeded(Cap::Turns), at);
                }
            }
            Seen::Spoke { visible } => self.life(visible, at),
            Seen::ToolStarted { id, .. } => self.tool_started(id, at),
            Seen::ToolEnded { id } => self.tool_ended(&id, at),
            Seen::Read(path) => {
                if self.read.len() < READ_MAX && self.read.insert(path) {
                    self.progressed(at);
                }
            }
            Seen::Permission { .. } | Seen::Asked { .. } => self.wishes(&seen, at),
            Seen::Settled { id } => self.settled(&id, at),
            Seen::Retrying { .. } => self.retrying(at),
            Seen::Ended { reason, error } => self.ended(reason, error.as_ref(), at),
        }
    }

    /// What it was told is written to it.
    pub(super) fn prompt_written(&mut self, at: At) {
        self.milestone(Phase::PromptWritten);
        self.clocks.see(Sight::PromptWritten, at);
    }

    /// The agent showed life.
    fn life(&mut self, visible: bool, at: At) {
        let sight = if !self.milestones.contains(&Phase::FirstEvent) {
            self.milestone(Phase::FirstEvent);
            Sight::FirstEvent
        } else if visible && !self.milestones.contains(&Phase::FirstVisibleEvent) {
            Sight::FirstVisibleEvent
        } else {
            Sight::Streaming
        };
        if visible {
            self.milestone(Phase::FirstVisibleEvent);
        }
        if !self.waits() {
            self.clocks.see(if visible { Sight::FirstVisibleEvent } else { sight }, at);
            self.renew_tool(at);
        }
        if sight == Sight::Streaming {
            self.tell_life(false, at);
        }
    }

    /// Whatever shows life while a tool runs shows that it is not the tool that hangs.
    fn renew_tool(&mut self, at: At) {
        if !self.tools.is_empty() {
            self.clocks.see(Sight::ToolStarted, at);
        }
    }

    /// Lets the server's own clocks run anew, now and then; also those of what was never seen, if that is nobody's
    /// fault.
    fn tell_life(&mut self, anew: bool, at: At) {
        let just_did = self.beats.life.is_some_and(|last| at.since(last) < LIFE_EVERY_MS);
        if just_did || self.waits() || !self.is_linked {
            return;
        }
        self.beats.life = Some(at);
        if !self.tools.is_empty() {
            return self.tell(Report::Phase(Phase::ToolStarted));
        }
        // Those clocks begin with the prompt.
        let has = |phase| self.milestones.contains(&phase);
        let (spoke, showed) = (has(Phase::FirstEvent), has(Phase::FirstVisibleEvent));
        if anew && !showed && !has(Phase::ToolStarted) {
            self.tell(Report::Phase(Phase::PromptWritten));
        }
        if spoke {
            self.tell(Report::Phase(Phase::Streaming));
        }
    }

    fn tool_started(&mut self, id: String, at: At) {
        self.tool_calls = self.tool_calls.saturating_add(1);
        if self.tools.len() < TOOLS_MAX {
            self.tools.insert(id);
        }
        self.milestone(Phase::FirstEvent);
        if !self.waits() {
            self.clocks.see(Sight::ToolStarted, at);
        }
        // That a tool was ever used says whether it is safe to try again, so it is told at once.
        if self.milestone(Phase::ToolStarted) {
            self.beats.tool = Some(at);
        }
        self.tell_tool(at);
        if self.tool_calls > self.terms.caps.tool_calls {
            self.close(Latch::Exceeded(Cap::ToolCalls), at);
        }
    }

    fn tool_ended(&mut self, id: &str, at: At) {
        if !self.tools.remove(id) {
            return self.life(false, at);
        }
        if !self.tools.is_empty() {
            return self.renew_tool(at);
        }
        if !self.waits() {
            self.clocks.see(Sight::ToolFinished, at);
        }
        self.tell_tool(at);
    }

    /// Tells that a tool runs, or that none does, unless that is known or was just told.
    pub(super) fn tell_tool(&mut self, at: At) {
        if self.tool_due().is_none_or(|due| due > at) {
            return;
        }
        self.beats.tool = Some(at);
        let runs = !self.tools.is_empty();
        self.tell(Report::Phase(if runs { Phase::ToolStarted } else { Phase::ToolFinished }));
    }

    /// When that is to be told, if it is.
    pub(super) fn tool_due(&self) -> Option<At> {
        let known = self.told.tool() != self.tools.is_empty();
        let next = self.beats.tool.map_or(At(0), |last| last.plus(TOOL_EVERY_MS));
        (!known && self.is_linked).then_some(next)
    }

    /// Its provider lets it wait: that is life, and what it has not said yet is not its fault.
    fn retrying(&mut self, at: At) {
        if !self.waits() {
            let waiting = [Deadline::FirstEvent, Deadline::FirstVisibleEvent, Deadline::StreamIdle];
            self.clocks.renew(&waiting, at);
            self.renew_tool(at);
        }
        self.tell_life(true, at);
    }

    /// The work moved.
    pub(super) fn progressed(&mut self, at: At) {
        if self.milestone(Phase::Progressed) {
            self.beats.progress = Some(at);
            return;
        }
        let just_did = self.beats.progress.is_some_and(|last| at.since(last) < LIFE_EVERY_MS);
        if !just_did && self.is_linked {
            self.beats.progress = Some(at);
            self.tell(Report::Phase(Phase::Progressed));
        }
    }

    /// The work looks like this now. The first look is what others are compared with.
    pub(super) fn moved(&mut self, tree: String, at: At) {
        let before = self.tree.replace(tree);
        if before.is_some() && before != self.tree {
            self.progressed(at);
        }
    }

    /// Its processes have used so much. A tool that says nothing for long is not hung while it computes.
    pub(super) fn busy(&mut self, cpu_ms: u64, at: At) {
        let known = *self.cpu_ms.get_or_insert(cpu_ms);
        if cpu_ms < known.saturating_add(BUSY_MS) {
            // Whoever ended took its time along.
            self.cpu_ms = Some(known.min(cpu_ms));
            return;
        }
        self.cpu_ms = Some(cpu_ms);
        self.progressed(at);
        if !self.waits() {
            self.clocks.renew(&[Deadline::StreamIdle, Deadline::ToolIdle], at);
            self.tell_life(false, at);
        }
    }

    fn used(&mut self, usage: Usage, at: At) {
        self.used = self.used.plus(usage);
        self.tell_usage(at);
        let fresh = self.used.input.saturating_sub(self.used.cached);
        if fresh.saturating_add(self.used.output) > self.terms.caps.tokens {
            self.close(Latch::Exceeded(Cap::Tokens), at);
        }
    }

    /// Tells what was used, unless it just did.
    pub(super) fn tell_usage(&mut self, at: At) {
        if self.usage_due().is_some_and(|due| due <= at) {
            self.tell_usage_now(at);
        }
    }

    /// Tells what was used, if that is not known.
    pub(super) fn tell_usage_now(&mut self, at: At) {
        if !self.used.beyond(self.told.used()).is_nothing() {
            self.beats.usage = Some(at);
            self.tell(Report::Used(self.used));
        }
    }

    /// When what was used may be told, if something is to be.
    pub(super) fn usage_due(&self) -> Option<At> {
        let owed = !self.used.beyond(self.told.used()).is_nothing();
        let every = if self.is_linked { USAGE_EVERY_MS } else { USAGE_UNHEARD_MS };
        owed.then(|| self.beats.usage.map_or(At(0), |last| last.plus(every)))
    }

    /// Its account is limited. A hard limit ends the attempt, and nobody is to blame.
    fn limited(&mut self, limit: &Limit, at: At) {
        if limit.hard || !self.told.limited(false) {
            self.tell_limit(limit);
        }
        if limit.hard || self.limit.is_none() {
            self.limit = Some(limit.clone());
        }
        if !limit.hard {
            if self.latch.is_none() {
                self.retrying(at);
            }
            return;
        }
        let until = match (&self.terms.account, limit.resets_at) {
            // The account itself is shut for so long, and another one may be open.
            (Some(_), _) => Until::Now,
            (None, Some(resets_at)) => Until::At(resets_at),
            (None, None) => Until::After(REST),
        };
        let reason = sentence("the account of the agent is at its limit");
        self.close(Latch::Released { reason, until }, at);
    }

    pub(super) fn tell_limit(&mut self, limit: &Limit) {
        if let Some(account) = self.terms.account.clone() {
            let (hard, resets_at) = (limit.hard, limit.resets_at);
            self.tell(Report::Limited { account, hard, resets_at });
        }
    }

    /// A turn is over, which never means that the work is.
    fn ended(&mut self, reason: End, error: Option<&Fault>, at: At) {
        self.tools.clear();
        if self.terms.purpose == Purpose::Probe {
            // Its exit says whether the condition is met.
            return;
        }
        let Some(fault) = error else {
            return match reason {
                End::Turns => self.close(Latch::Exceeded(Cap::Turns), at),
                End::Budget => self.close(Latch::Exited(None), at),
                End::Finished | End::Interrupted | End::Failed | End::Gone => self.turn_over(at),
            };
        };
        if fault.failure.code == crate::adapters::failure::SESSION_LOST.code {
            self.session_is_lost = true;
        }
        match (fault.failure.class, reason) {
            (Class::Limit, _) => {
                let limit = Limit { window: String::new(), hard: true, resets_at: None };
                self.limited(&limit, at);
            }
            (Class::Agent, End::Turns) => self.close(Latch::Exceeded(Cap::Turns), at),
            (Class::Agent, _) => self.close(Latch::Exited(None), at),
            (Class::Infrastructure | Class::Config | Class::Unknown, _) => {
                self.close(Latch::lost(fault.failure.code, &why(fault)), at);
            }
        }
    }

    fn turn_over(&mut self, at: At) {
        self.turn.end(at);
        self.clocks.only(None, at);
        self.keep(Why::Phase, at);
    }

    /// Asks the agent how it stands, or takes its silence for its last word.
    pub(super) fn nudge(&mut self, at: At) {
        if self.waits() || self.latch.is_some() {
            return;
        }
        let Some(ask) = self.turn.next(at, self.is_linked) else { return };
        match ask {
            Ask::Prompt(text) if self.terms.purpose == Purpose::Work => {
                self.write(Act::Prompt(text.to_owned()));
                self.clocks.arm(Deadline::FirstEvent, at);
            }
            Ask::Prompt(_) => self.turn.deaf(at),
            Ask::Enough => self.close(Latch::Exited(None), at),
        }
    }

    /// Notes how far it is; whether that is new.
    pub(super) fn milestone(&mut self, phase: Phase) -> bool {
        let is_new = self.milestones.insert(phase);
        if is_new {
            self.tell(Report::Phase(phase));
        }
        is_new
    }
}

/// What to do about a fault, and what the program said about it.
fn why(fault: &Fault) -> String {
    format!("{}: {}", fault.failure.operator, fault.detail)
}
