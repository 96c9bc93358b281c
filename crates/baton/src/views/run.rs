//! A run as callers see it.

use baton_domain::ids::{AttemptId, Capability, PrincipalId, RunId, StageName, TaskId};
use baton_domain::run::{
    Block, BlockKind, Finish, Idle, Mark, Mode, Purpose, RunResult, RunState, Why,
};
use baton_domain::task::Flow;
use baton_store::read::LeaseRow;

use crate::shape::choices::Word as _;
use crate::shape::{When, record};

record! {
    /// One pass of a task through one stage.
    pub struct RunView {
        /// Which run.
        id: RunId,
        /// Of which task.
        task: TaskId,
        /// In which stage.
        stage: StageName,
        /// queued, delayed, blocked, submitted, leased, working, waiting_input, verifying, stopping, completed, failed or cancelled.
        state: String,
        /// The stable word for why it failed.
        code: Option<String>,
        /// verified, unverified or rejected, once it is finished.
        result: Option<String>,
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
        /// Why it is parked.
        block: Option<BlockView>,
        /// How far the last answer of a person got.
        answer: Option<Mark>,
        /// Items done so far.
        items_done: Option<u32>,
        /// Items failed so far.
        items_failed: Option<u32>,
        /// Attempts so far.
        tries: Option<u16>,
        /// Why nobody verifies it, if so.
        waits_for: Option<String>,
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
        knob: Option<String>,
        /// Whether only a person may unpark it.
        needs_person: bool,
    }
}

impl RunView {
    /// The live run of a task.
    #[must_use]
    pub fn live(flow: &Flow, lease: Option<&LeaseRow>) -> Option<Self> {
        let run = flow.run.as_ref()?;
        let id = RunId { task: flow.id, number: run.number };
        let mut view = Self::bare(id, &run.stage, run.word());
        view.ready_at = Some(When(run.ready_at));
        view.answer = run.answer.map(|answer| answer.mark);
        view.items_done = Some(run.progress.done);
        view.items_failed = Some(run.progress.failed);
        view.tries = Some(run.tally.tries);
        match &run.state {
            RunState::Idle(Idle::Queued) => {}
            RunState::Idle(Idle::Delayed { due_at, .. }) => view.due_at = Some(When(*due_at)),
            RunState::Idle(Idle::Blocked(block)) => view.block = Some(BlockView::of(block)),
            // No worker can verify yet.
            RunState::Idle(Idle::Submitted(_)) => view.waits_for = Some("no_verifier".to_owned()),
            RunState::Held(held) => {
                view.attempt = Some(AttemptId { task: flow.id, number: held.attempt });
                view.holder = Some(held.holder.clone());
                view.purpose = Some(held.purpose);
                view.mode = Some(held.mode);
                view.lease = lease.map(|lease| LeaseView { expires_at: When(lease.expires_at) });
                view.block = held.picked.as_ref().map(BlockView::of);
            }
        }
        Some(view)
    }

    /// The last finished run of a task.
    #[must_use]
    pub fn last(flow: &Flow) -> Option<Self> {
        let last = flow.last.as_ref()?;
        let id = RunId { task: flow.id, number: last.number };
        Some(Self::finished(id, &last.stage, &last.finish, last.result))
    }

    /// A run that finished.
    #[must_use]
    pub fn finished(
        id: RunId,
        stage: &StageName,
        finish: &Finish,
        result: Option<RunResult>,
    ) -> Self {
        let (state, code) = match finish {
            Finish::Completed => ("completed", None),
            Finish::Failed { code } => ("failed", Some(code.to_string())),
            Finish::Cancelled => ("cancelled", None),
        };
        let result = result.map(|result| result.word().to_owned());
        Self { code, result, ..Self::bare(id, stage, state) }
    }

    fn bare(id: RunId, stage: &StageName, state: &str) -> Self {
        Self {
            id,
            task: id.task,
            stage: stage.clone(),
            state: state.to_owned(),
            code: None,
            result: None,
            ready_at: None,
            due_at: None,
            attempt: None,
            holder: None,
            purpose: None,
            mode: None,
            lease: None,
            block: None,
            answer: None,
            items_done: None,
            items_failed: None,
            tries: None,
            waits_for: None,
        }
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
        };
        match &block.why {
            Why::NeedsInput => view.needs_person = true,
            Why::Capability { needs } => view.capability = Some(needs.clone()),
            Why::Transient { until } => view.until = Some(When(*until)),
            Why::Dependency { on } => view.on = Some(*on),
            Why::Limit { cap } => {
                view.needs_person = true;
                view.knob = Some(cap.knob().to_owned());
            }
        }
        view
    }
}
