//! The course of one attempt: what is to be done about an agent, given what was seen of it and when.
//!
//! It is pure. Whoever drives it feeds it everything that happens, in the order in which it happened and with the
//! time at which it did, and carries out what it answers. It never reads a clock: it says when it wants to be asked
//! next. A worker that comes back makes a new one, feeds it the whole spool again and says [`Input::Back`]; until
//! then nothing is answered, and from then on only what the one before it had not told.

use std::collections::BTreeSet;

use baton_domain::deadline::{Deadline, Sight};
use baton_domain::ids::{Account, AttemptId};
use baton_domain::run::Purpose;
use baton_domain::text::Text;
use baton_domain::time::Timestamp;

use crate::adapters::{Consent, Limit, Usage};
use crate::protocol::{Caps, Conversation, Deadlines, Phase, Standing};

use asking::Wishes;
use clocks::Clocks;
use ending::{Ladder, Latch, sentence};
use turn::Turn;
use watch::{LIFE_EVERY_MS, LOOK_MS};

pub use act::{Act, Why};
pub use input::{Broken, Input, Said};
pub use report::{Report, Until};
pub use told::Told;
pub use turn::NUDGES_MAX;
pub use watch::BUSY_EVERY_MS;

mod act;
mod asking;
mod clocks;
mod ending;
mod input;
mod report;
mod told;
mod turn;
mod watch;

/// How long making its place may take, setup commands included.
pub const PREPARE_MS_MAX: u64 = 600_000;

/// A moment: milliseconds since the machine was started, time that it slept included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(pub u64);

impl At {
    /// So much later.
    #[must_use]
    pub fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What holds for an attempt from its beginning to its end: of its dispatch, and of the worker's settings.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How long each phase may take.
    pub deadlines: Deadlines,
    /// What it may use.
    pub caps: Caps,
    /// How long its processes get between being asked and being made to end.
    pub grace_ms: u64,
    /// What the agent may do without asking.
    pub consent: Consent,
    /// How often its work is kept.
    pub snapshot_every_ms: u64,
    /// What the run is held for.
    pub purpose: Purpose,
    /// The account that it was claimed under.
    pub account: Option<Account>,
    /// The program, as settings call it, if its conversations can be gone on with.
    pub program: Option<&'static str>,
    /// The conversation that it goes on with.
    pub conversation: Option<Conversation>,
}

/// The machine of one attempt.
#[derive(Clone, Debug)]
pub struct Course {
    attempt: AttemptId,
    terms: Terms,
    /// What the server knows.
    told: Told,
    /// Whether the spool is fed again: then nothing is done and nothing is told.
    replays: bool,
    acts: Vec<Act>,
    since: At,
    place: Place,
    clocks: Clocks,
    /// Whether the server can be heard.
    is_linked: bool,
    standing: Standing,
    beats: Beats,
    milestones: BTreeSet<Phase>,
    turn: Turn,
    turns: u32,
    tool_calls: u32,
    tools: BTreeSet<String>,
    wishes: Wishes,
    used: Usage,
    limit: Option<Limit>,
    session: Option<String>,
    session_is_lost: bool,
    read: BTreeSet<String>,
    tree: Option<String>,
    cpu_ms: Option<u64>,
    /// What the work is being kept for.
    keeps: Option<Why>,
    latch: Option<Latch>,
    is_fenced: bool,
    /// Whether what it submitted is being checked: its end waits for that.
    checks: bool,
    ladder: Ladder,
    is_over: bool,
}

/// How far its process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// There is none.
    Preparing,
    /// There may be one.
    Starting,
    /// There is one.
    Running,
    /// There was one, or never will be.
    Gone,
}

/// When what is told now and then was told last.
#[derive(Clone, Copy, Debug, Default)]
struct Beats {
    accepted: Option<At>,
    life: Option<At>,
    tool: Option<At>,
    progress: Option<At>,
    usage: Option<At>,
    snapshot: Option<At>,
}

impl Course {
    /// An attempt that was dispatched now.
    #[must_use]
    pub fn new(attempt: AttemptId, terms: Terms, at: At) -> Self {
        let clocks = Clocks::new(terms.deadlines.clone(), at);
        Self {
            attempt,
            terms,
            told: Told::default(),
            replays: false,
            acts: vec![],
            since: at,
            place: Place::Preparing,
            clocks,
            is_linked: true,
            standing: Standing::Working,
            beats: Beats::default(),
            milestones: BTreeSet::new(),
            turn: Turn::new(),
            turns: 0,
            tool_calls: 0,
            tools: BTreeSet::new(),
            wishes: Wishes::new(),
            used: Usage::default(),
            limit: None,
            session: None,
            session_is_lost: false,
            read: BTreeSet::new(),
            tree: None,
            cpu_ms: None,
            keeps: None,
            latch: None,
            is_fenced: false,
            checks: false,
            ladder: Ladder::default(),
            is_over: false,
        }
    }

    /// An attempt that was dispatched then and of which a worker before told this much. Feed it what happened since, then
    /// [`Input::Back`].
    #[must_use]
    pub fn returning(attempt: AttemptId, terms: Terms, told: Told, dispatched: At) -> Self {
        Self { told, replays: true, ..Self::new(attempt, terms, dispatched) }
    }

    /// Goes on by one thing that happened, and says what is to be done, in this order.
    pub fn step(&mut self, input: Input, at: At) -> Vec<Act> {
        if self.is_over {
            return vec![];
        }
        self.take(input, at);
        std::mem::take(&mut self.acts)
    }

    fn take(&mut self, input: Input, at: At) {
        match input {
            Input::Prepared if self.place == Place::Preparing => {
                self.place = Place::Starting;
                self.clocks.arm(Deadline::ProcessStart, at);
            }
            Input::Refused(broken) => self.refused(broken, at),
            Input::Launched if self.place == Place::Starting => self.launched(at),
            Input::PromptWritten if self.latch.is_none() => self.prompt_written(at),
            Input::Seen(seen) => self.seen(seen, at),
            Input::Deaf if self.latch.is_none() => {
                self.clocks.only(None, at);
                self.turn.deaf(at);
            }
            Input::Unheard if self.latch.is_none() => self.turn.unheard(at),
            Input::Ending(cause) => self.shim_ends(cause, at),
            Input::Exited(exit) => self.exited(exit, at),
            Input::Stopped(proof) => {
                let latch = Latch::lost("stopped", "its shim ended it, and did not say why");
                self.proved(proof, latch, at);
            }
            Input::ShimGone(proof) => {
                self.proved(proof, Latch::lost("shim_gone", "its shim was killed"), at);
            }
            Input::Said(said) => self.said(said, at),
            Input::Renewed { until } => self.renewed(until),
            Input::Cut => self.is_linked = false,
            Input::Moved { tree } => self.moved(tree, at),
            Input::Busy { cpu_ms } if self.latch.is_none() => self.busy(cpu_ms, at),
            Input::Kept => self.kept(at),
            Input::Checked => self.checked(at),
            Input::Unchecked(why) => self.unchecked(&why, at),
            Input::Slept { millis } => self.clocks.slept(millis),
            Input::Drain => {
                let reason = sentence("the worker ends");
                self.close(Latch::Released { reason, until: Until::Now }, at);
            }
            Input::Tick => self.tick(at),
            Input::Back => self.back(at),
            // What is over does not begin, and nothing is expected of what ends.
            Input::Prepared
            | Input::Launched
            | Input::PromptWritten
            | Input::Deaf
            | Input::Unheard
            | Input::Busy { .. } => {}
        }
    }

    fn said(&mut self, said: Said, at: At) {
        self.is_linked = true;
        let ends = self.latch.is_some();
        match said {
            Said::Fenced(_) => self.fenced(at),
            // Its agent is gone; what it submitted is not.
            Said::Stands(Standing::Verifying) if self.awaits_checks() => self.checks = true,
            // What ends is told nothing more.
            Said::Answer { .. } | Said::Cancel(_) | Said::Stands(_) | Said::Checkpointed
                if ends => {}
            Said::Answer { id, text } => self.answered(&id, text, at),
            Said::Cancel(_) => self.close(Latch::Called, at),
            Said::Stands(standing) => self.stands(standing, at),
            Said::Checkpointed => self.keep(Why::Phase, at),
        }
    }

    fn launched(&mut self, at: At) {
        self.place = Place::Running;
        if self.latch.is_some() {
            // It was to be stopped before there was anything to stop.
            return self.stop(at);
        }
        self.milestone(Phase::ProcessStarted);
        self.clocks.see(Sight::ProcessStarted, at);
        self.beats.snapshot = Some(at);
    }

    /// Its lease lives on, and so may its processes.
    fn renewed(&mut self, until: At) {
        self.is_linked = true;
        if self.is_running() && !self.is_fenced {
            self.act(Act::Renew { until });
        }
    }

    /// Time has passed: whatever is due is done.
    fn tick(&mut self, at: At) {
        if self.latch.is_some() {
            return self.climb(at);
        }
        self.prepare(at);
        self.tell_usage(at);
        self.tell_tool(at);
        if self.snapshot_due().is_some_and(|due| due <= at) {
            self.keep(Why::Timer, at);
        }
        let overdue = self.deadlines().filter(|(_, ends)| *ends <= at);
        if let Some((deadline, _)) = overdue.min_by_key(|(_, ends)| *ends) {
            return self.close(Latch::TimedOut(deadline), at);
        }
        self.nudge(at);
    }

    /// Says that its place is being made, as long as that may take.
    fn prepare(&mut self, at: At) {
        if self.prepare_due().is_none_or(|due| due > at) {
            return;
        }
        if at.since(self.since) >= PREPARE_MS_MAX {
            let reason = "its place was not made in time";
            return self.close(Latch::lost("prepare_timeout", reason), at);
        }
        self.beats.accepted = Some(at);
        self.tell(Report::Phase(Phase::Accepted));
    }

    fn prepare_due(&self) -> Option<At> {
        let next = self.beats.accepted.map_or(self.since, |last| last.plus(LIFE_EVERY_MS));
        let is_in_time = next.min(self.since.plus(PREPARE_MS_MAX));
        (self.place == Place::Preparing).then_some(is_in_time)
    }

    /// Deadlines that may pass. Whether a person has answered only the server knows.
    fn deadlines(&self) -> impl Iterator<Item = (Deadline, At)> + '_ {
        let counts = |deadline| deadline != Deadline::UserInput || self.is_linked;
        self.clocks.iter().filter(move |(deadline, _)| counts(*deadline))
    }

    /// When [`Input::Tick`] is wanted next.
    #[must_use]
    pub fn due(&self) -> Option<At> {
        if self.is_over || self.replays {
            return None;
        }
        if self.latch.is_some() {
            return self.ladder.due();
        }
        let nudge = if self.waits() { None } else { self.turn.due(self.is_linked) };
        let others = [self.prepare_due(), self.usage_due(), self.tool_due(), self.snapshot_due()];
        let deadlines = self.deadlines().map(|(_, ends)| ends);
        deadlines.chain(others.into_iter().flatten()).chain(nudge).min()
    }

    /// Everything of the spool was fed again: tells what the worker before did not, and goes on.
    fn back(&mut self, at: At) {
        if !std::mem::replace(&mut self.replays, false) {
            return;
        }
        self.is_linked = false;
        // Of a spool whose beginning was dropped less is seen than was told.
        self.used = self.told.used().plus(self.used.beyond(self.told.used()));
        self.beats = Beats { snapshot: self.beats.snapshot, ..Beats::default() };
        self.keeps = None;
        if self.latch.is_none() && (self.told.ended() || self.told.dead()) {
            self.latch = Some(Latch::Before);
        }
        // What it may have done is told before its end is: that says whether it is safe to try again.
        for phase in self.milestones.clone() {
            if !self.told.has(phase) && !self.told.ended() {
                self.tell(Report::Phase(phase));
            }
        }
        if let Some(limit) = self.limit.take().filter(|limit| !self.told.limited(limit.hard)) {
            self.tell_limit(&limit);
        }
        self.tell_usage_now(at);
        if self.latch.is_some() {
            return self.end_again(at);
        }
        let idle = [Deadline::StreamIdle, Deadline::ToolIdle];
        self.clocks.not_before(&idle, at.plus(LOOK_MS));
        self.ask_again(at);
        self.turn.back(self.turns, at);
        self.tick(at);
    }

    /// Keeps the work, unless it is being kept.
    fn keep(&mut self, why: Why, at: At) {
        if !self.keeps_work() || self.replays {
            return;
        }
        self.beats.snapshot = Some(at);
        if self.keeps.is_none() {
            self.keeps = Some(why);
            self.act(Act::Snapshot(why));
        }
    }

    /// The work was kept, or could not be.
    fn kept(&mut self, at: At) {
        let why = self.keeps.take();
        if self.ladder.keep_by().is_none() {
            return;
        }
        match why {
            Some(Why::Stop) => self.conclude(at),
            // What was kept while it still ran is not the last of it.
            Some(Why::Timer | Why::Phase) | None => self.keep(Why::Stop, at),
        }
    }

    /// Whether there is work to keep.
    #[must_use]
    pub fn keeps_work(&self) -> bool {
        self.terms.purpose == Purpose::Work && self.terms.snapshot_every_ms > 0
    }

    fn snapshot_due(&self) -> Option<At> {
        let next = self.beats.snapshot?.plus(self.terms.snapshot_every_ms);
        (self.is_running() && self.keeps.is_none() && self.keeps_work()).then_some(next)
    }

    fn is_running(&self) -> bool {
        self.place == Place::Running
    }

    /// Tells something; whoever holds its run no longer is heard only about what it cost and that it is dead.
    fn tell(&mut self, report: Report) {
        let late = matches!(report, Report::Used(_) | Report::Stopped(_));
        if self.replays || (self.is_fenced && !late) {
            return;
        }
        self.told.take(&report.clone().frame(self.attempt, Timestamp(0)));
        self.acts.push(Act::Tell(report));
    }

    /// Does something to the agent itself, which only who holds the run may.
    fn write(&mut self, act: Act) {
        if !self.is_fenced {
            self.act(act);
        }
    }

    fn act(&mut self, act: Act) {
        if !self.replays {
            self.acts.push(act);
        }
    }

    /// How far it is, in one word: preparing, starting, working, asking, stopping, over.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        if self.is_over {
            return "over";
        }
        if self.latch.is_some() {
            return "stopping";
        }
        match self.place {
            Place::Preparing => "preparing",
            Place::Starting => "starting",
            Place::Running | Place::Gone if self.waits() => "asking",
            Place::Running | Place::Gone => "working",
        }
    }

    /// Which attempt it is.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// It goes on with this conversation, as it turned out before it began.
    pub fn goes_on_with(&mut self, conversation: Option<Conversation>) {
        self.terms.conversation = conversation;
    }

    /// The conversation of its agent, as far as it can be gone on with, for the frame that tells a snapshot.
    #[must_use]
    pub fn conversation(&self) -> Option<Conversation> {
        let before = self.terms.conversation.as_ref();
        let id = self.session.as_deref().or(before.map(|before| before.id.as_str()));
        let id = id.filter(|_| !self.session_is_lost)?;
        let mut booked = self.used;
        if let Some(before) = before.filter(|before| before.id.as_str() == id) {
            booked = booked.plus(Usage {
                input: before.input_tokens,
                output: before.output_tokens,
                cached: before.cached_tokens,
                cost_micros: before.cost_micros,
            });
        }
        Some(Conversation {
            program: Text::new("program", self.terms.program?).ok()?,
            id: Text::new("id", id).ok()?,
            input_tokens: booked.input,
            output_tokens: booked.output,
            cached_tokens: booked.cached,
            cost_micros: booked.cost_micros,
        })
    }
}

#[cfg(test)]
mod tests;
