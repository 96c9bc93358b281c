//! A run as callers see it.

use baton_domain::deadline::Deadline;
use baton_domain::ids::{AttemptId, Capability, PrincipalId, RunId, StageName, TaskId};
use baton_domain::run::{
    Block, BlockKind, Cap, Finish, Held, Idle, Mark, Mode, Outcome, Phase, Purpose, Run, RunResult,
    RunState, Why,
};
use baton_domain::task::Flow;
use baton_domain::text::{Code, Line, Message, Reason};
use baton_domain::trail::Ended;
use baton_store::RunRow;
use baton_store::read::{LeaseRow, RunNow, RunWord};

use crate::shape::{When, record, words};

use super::HandoffView;

words! {
    /// Why a run that was submitted does not go on.
    pub enum Lacking {
        /// Nobody verifies.
        NoVerifier = "no_verifier",
    }

    /// The setting that raises a limit of a run.
    pub enum Knob {
        /// Endings without a result.
        Continuations = "policy.continuations_max",
        /// Losses of infrastructure.
        Losses = "policy.losses_max",
        /// Attempts of any ending.
        Tries = "policy.tries_max",
        /// Endings without a result in a row, with the work as it was.
        Stalls = "policy.stalls_max",
        /// Turns of one attempt.
        Turns = "policy.turns_max",
        /// Calls of tools in one attempt.
        ToolCalls = "policy.tool_calls_max",
        /// Tokens of one attempt.
        Tokens = "policy.tokens_max",
        /// What the tree of the task may spend.
        Budget = "pool.limit",
        /// How often in a row it may be sent back from a stage that Baton works.
        Setbacks = "policy.setbacks_max",
    }
}

record! {
    /// One pass of a task through one stage.
    pub struct RunView {
        /// Which run.
        id: RunId,
        /// Of which task.
        task: TaskId,
        /// In which stage.
        stage: StageName,
        /// How it stands, or stood in the end.
        state: RunWord,
        /// The stable word for why it failed.
        code: Option<Code>,
        /// What its proof came to, once it is finished.
        result: Option<RunResult>,
        /// Since when it may be claimed.
        ready_at: Option<When>,
        /// When it goes on by itself.
        due_at: Option<When>,
        /// Who holds it.
        attempt: Option<AttemptId>,
        /// The one who holds it.
        holder: Option<PrincipalId>,
        /// What it is held for.
        purpose: Option<Purpose>,
        /// Whether a worker watches the agent.
        mode: Option<Mode>,
        /// The right to act as the attempt.
        lease: Option<LeaseView>,
        /// Since when it is held.
        claimed_at: Option<When>,
        /// When its holder last did something; renewals are nothing.
        active_at: Option<When>,
        /// When its wall clock ends the attempt.
        ends_at: Option<When>,
        /// Millionths of a currency unit that the attempt cost so far.
        spent_micros: Option<u64>,
        /// Why it is parked.
        block: Option<BlockView>,
        /// What its agent must know, and waits for.
        question: Option<QuestionView>,
        /// The last answer of a person.
        answer: Option<AnswerView>,
        /// What counts once the death of the agent is proved.
        verdict: Option<Ended>,
        /// Items done so far.
        items_done: Option<u32>,
        /// Items failed so far.
        items_failed: Option<u32>,
        /// Attempts so far.
        tries: Option<u16>,
        /// Why nobody verifies it, if so.
        waits_for: Option<Lacking>,
        /// The run that it tries again.
        previous: Option<RunId>,
        /// When it began to wait for a holder for the first time.
        opened_at: Option<When>,
        /// When it finished.
        finished_at: Option<When>,
        /// The version of the task: name it as `since` to wait for the next change.
        version: Option<u64>,
        /// What the next holder gets, if it was asked for.
        handoff: Option<HandoffView>,
    }

    /// What an agent must know, and waits for.
    pub struct QuestionView {
        /// Since when.
        asked_at: When,
        /// The question, where runs are shown one by one.
        text: Option<Message>,
    }

    /// The last word of a person to whoever holds the run.
    pub struct AnswerView {
        /// How far it got.
        mark: Mark,
        /// Whether it is leave to go on, and not the answer to a question.
        unblock: bool,
        /// The answer, where runs are shown one by one.
        text: Option<Message>,
        /// Who gave it.
        by: Option<PrincipalId>,
        /// When.
        at: Option<When>,
    }

    /// The right to act as an attempt.
    pub struct LeaseView {
        /// When it ends without renewal.
        expires_at: When,
    }

    /// Why a run is parked.
    pub struct BlockView {
        /// What would unpark it.
        kind: BlockKind,
        /// Since when.
        since: When,
        /// What a holder must be able to do.
        capability: Option<Capability>,
        /// When it goes on by itself.
        until: Option<When>,
        /// The task that it waits for.
        on: Option<TaskId>,
        /// The setting that names the limit.
        knob: Option<Knob>,
        /// Whether only a person may unpark it.
        needs_person: bool,
        /// The words of whoever parked it, where runs are shown one by one.
        reason: Option<Reason>,
        /// A command that succeeds once the block is gone.
        condition: Option<Line>,
    }
}

impl RunView {
    /// The live run of a task.
    #[must_use]
    pub fn live(flow: &Flow, lease: Option<&LeaseRow>) -> Option<Self> {
        let run = flow.run.as_ref()?;
        let id = RunId { task: flow.id, number: run.number };
        Some(Self { version: Some(flow.version), ..Self::of(id, run, lease) })
    }

    /// A run that is live.
    #[must_use]
    pub fn of(id: RunId, run: &Run, lease: Option<&LeaseRow>) -> Self {
        let mut view = Self::bare(id, &run.stage, RunWord::of(run));
        view.ready_at = Some(When(run.ready_at));
        view.opened_at = Some(When(run.opened_at));
        view.previous = run.previous.map(|number| RunId { number, ..id });
        view.answer = run.answer.map(|answer| AnswerView::bare(answer.mark));
        view.items_done = Some(run.progress.done);
        view.items_failed = Some(run.progress.failed);
        view.tries = Some(run.tally.tries);
        match &run.state {
            RunState::Idle(Idle::Queued) => {}
            RunState::Idle(Idle::Delayed { due_at, .. }) => view.due_at = Some(When(*due_at)),
            RunState::Idle(Idle::Blocked(block)) => view.block = Some(BlockView::of(block)),
            // No worker can verify yet.
            RunState::Idle(Idle::Submitted(_)) => view.waits_for = Some(Lacking::NoVerifier),
            RunState::Held(held) => view.put_held(held, lease),
        }
        view
    }

    fn put_held(&mut self, held: &Held, lease: Option<&LeaseRow>) {
        self.attempt = Some(AttemptId { task: self.task, number: held.attempt });
        self.holder = Some(held.holder.clone());
        self.purpose = Some(held.purpose);
        self.mode = Some(held.mode);
        self.lease = lease.map(|lease| LeaseView { expires_at: When(lease.expires_at) });
        self.claimed_at = Some(When(held.claimed_at));
        self.active_at = Some(When(held.active_at));
        let mut armed = held.armed.iter();
        let wall = armed.find(|(deadline, _)| *deadline == Deadline::WallClock);
        self.ends_at = wall.map(|(_, at)| When(at));
        self.spent_micros = Some(held.spent_micros);
        self.block = held.picked.as_ref().map(BlockView::of);
        match &held.phase {
            Phase::Leased | Phase::Working => {}
            Phase::WaitingInput(question) => {
                let asked_at = When(question.asked_at);
                self.question = Some(QuestionView { asked_at, text: None });
            }
            // The same as for one that is submitted.
            Phase::Verifying { .. } => self.waits_for = Some(Lacking::NoVerifier),
            Phase::Stopping { verdict, .. } => {
                self.verdict = Some(verdict.ended());
                self.result = match verdict {
                    Outcome::Completed { result } => Some(*result),
                    Outcome::Blocked { block, .. } => {
                        self.block = Some(BlockView::of(block));
                        None
                    }
                    Outcome::Failed { .. }
                    | Outcome::Released { .. }
                    | Outcome::TimedOut { .. }
                    | Outcome::Lost
                    | Outcome::Cancelled
                    | Outcome::EndedWithoutResult => None,
                };
            }
        }
    }

    /// The last finished run of a task.
    #[must_use]
    pub fn last(flow: &Flow) -> Option<Self> {
        let last = flow.last.as_ref()?;
        let id = RunId { task: flow.id, number: last.number };
        let view = Self::finished(id, &last.stage, &last.finish, last.result);
        Some(Self { version: Some(flow.version), ..view })
    }

    /// A run of a list.
    #[must_use]
    pub fn of_row(row: &RunRow) -> Self {
        match &row.run {
            RunNow::Live(run, lease) => Self::of(row.id, run, lease.as_ref()),
            RunNow::Finished(run) => Self {
                previous: run.previous.map(|number| RunId { number, ..row.id }),
                opened_at: Some(When(run.opened_at)),
                finished_at: Some(When(run.finished_at)),
                items_done: Some(run.progress.done),
                items_failed: Some(run.progress.failed),
                tries: Some(run.tally.tries),
                ..Self::finished(row.id, &run.stage, &run.finish, run.result)
            },
        }
    }

    /// A run that finished.
    #[must_use]
    pub fn finished(
        id: RunId,
        stage: &StageName,
        finish: &Finish,
        result: Option<RunResult>,
    ) -> Self {
        let code = match finish {
            Finish::Failed { code } => Some(code.clone()),
            Finish::Completed | Finish::Cancelled => None,
        };
        Self { code, result, ..Self::bare(id, stage, RunWord::of_finished(finish)) }
    }

    fn bare(id: RunId, stage: &StageName, state: RunWord) -> Self {
        Self {
            id,
            task: id.task,
            stage: stage.clone(),
            state,
            code: None,
            result: None,
            ready_at: None,
            due_at: None,
            attempt: None,
            holder: None,
            purpose: None,
            mode: None,
            lease: None,
            claimed_at: None,
            active_at: None,
            ends_at: None,
            spent_micros: None,
            block: None,
            question: None,
            answer: None,
            verdict: None,
            items_done: None,
            items_failed: None,
            tries: None,
            waits_for: None,
            previous: None,
            opened_at: None,
            finished_at: None,
            version: None,
            handoff: None,
        }
    }
}

impl AnswerView {
    fn bare(mark: Mark) -> Self {
        Self { mark, unblock: false, text: None, by: None, at: None }
    }
}

impl BlockView {
    /// A block as callers see it.
    #[must_use]
    pub fn of(block: &Block) -> Self {
        let mut view = Self {
            kind: block.why.kind(),
            since: When(block.at),
            capability: None,
            until: None,
            on: None,
            knob: None,
            needs_person: block.sticky,
            reason: None,
            condition: None,
        };
        match &block.why {
            Why::NeedsInput => view.needs_person = true,
            Why::Capability { needs } => view.capability = Some(needs.clone()),
            Why::Transient { until } => view.until = Some(When(*until)),
            Why::Dependency { on } => view.on = Some(*on),
            Why::Limit { cap } => {
                view.needs_person = true;
                view.knob = Some(knob(*cap));
            }
        }
        view
    }
}

fn knob(cap: Cap) -> Knob {
    match cap {
        Cap::Continuations => Knob::Continuations,
        Cap::Losses => Knob::Losses,
        Cap::Tries => Knob::Tries,
        Cap::Stalls => Knob::Stalls,
        Cap::Turns => Knob::Turns,
        Cap::ToolCalls => Knob::ToolCalls,
        Cap::Tokens => Knob::Tokens,
        Cap::Budget => Knob::Budget,
        Cap::Setbacks => Knob::Setbacks,
    }
}
