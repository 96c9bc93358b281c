//! A task as callers see it.

use std::collections::BTreeSet;

use baton_domain::ids::{
    Capability, ConcurrencyKey, Label, PrincipalId, ProjectId, StageName, TaskId,
};
use baton_domain::limits::{CAPABILITIES_MAX, DEPENDENCIES_MAX, LABELS_MAX, LINES_MAX};
use baton_domain::task::{Approval, Ending, Flow, Hold, Kind, Priority, Stage};
use baton_domain::text::{Body, Reason, Title};
use baton_domain::time::Timestamp;
use baton_domain::view::{Badge, Need};
use baton_store::TaskRow;

use crate::shape::{When, record, words};

use super::{ContractLine, PolicyView, RunView};

words! {
    /// How a task ended.
    pub enum EndedWord {
        /// A run passed the last stage.
        Done = "done",
        /// Nobody wants it any more.
        Abandoned = "abandoned",
        /// Another task takes its place.
        Superseded = "superseded",
        /// It shall not be done.
        Rejected = "rejected",
    }
}

record! {
    /// What should be achieved, and where it stands.
    pub struct TaskView {
        /// Which task.
        id: TaskId,
        /// The one word for how it is.
        badge: Badge,
        /// backlog, a working stage, done, closed or archived.
        stage: StageName,
        /// A line that names it.
        title: Title,
        /// What should be achieved, at length.
        body: Option<Body>,
        /// Of which project.
        project: ProjectId,
        /// What sort of work it is.
        kind: Kind,
        /// How urgent it is.
        priority: Priority,
        /// Free tags.
        #[at_most(LABELS_MAX)]
        labels: BTreeSet<Label>,
        /// Everything for which it waits for a person.
        needs: BTreeSet<Need>,
        /// The only one who may work on it.
        assignee: Option<PrincipalId>,
        /// What a holder must be able to do.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: BTreeSet<Capability>,
        /// Tasks with the same key share a limit.
        key: Option<ConcurrencyKey>,
        /// The task that it is part of.
        parent: Option<TaskId>,
        /// Tasks that must be done first and are not.
        #[at_most(DEPENDENCIES_MAX)]
        waits_for: BTreeSet<TaskId>,
        /// Who made it.
        creator: PrincipalId,
        /// Nothing happens to a draft.
        draft: bool,
        /// Whether somebody must agree before anything is executed, and has.
        approval: Approval,
        /// What keeps it from going on until a person lifts it.
        #[at_most(2)]
        holds: Vec<Hold>,
        /// Why it cannot be put into another column now.
        fixed: Option<String>,
        /// What must be true before a run counts.
        #[at_most(LINES_MAX)]
        contract: Vec<ContractLine>,
        /// How it is tried.
        policy: PolicyView,
        /// The live run.
        run: Option<RunView>,
        /// The last finished run.
        last_run: Option<RunView>,
        /// How it ended.
        ending: Option<EndedWord>,
        /// Why it ended, or how that begins.
        ending_reason: Option<Reason>,
        /// The task that takes its place.
        superseded_by: Option<TaskId>,
        /// Grows by one with every change; edits may name it in `If-Match`.
        version: u64,
        /// When it was made.
        created_at: When,
        /// When it ended.
        ended_at: Option<When>,
    }
}

impl TaskView {
    /// A task as callers see it now.
    #[must_use]
    pub fn of(row: &TaskRow, now: Timestamp) -> Self {
        let (flow, brief) = (&*row.flow, &row.brief);
        let mut view = Self::of_flow(flow, brief.title.clone(), now);
        view.body.clone_from(&brief.body);
        view.labels.clone_from(&brief.labels);
        view.contract = ContractLine::all(&brief.contract);
        Self { run: RunView::live(flow, row.lease.as_ref()), ..view }
    }

    fn of_flow(flow: &Flow, title: Title, now: Timestamp) -> Self {
        let mut view = Self {
            id: flow.id,
            badge: flow.badge(now),
            stage: stage_word(&flow.stage),
            title,
            body: None,
            project: flow.project.clone(),
            kind: flow.kind,
            priority: flow.priority,
            labels: BTreeSet::new(),
            needs: flow.needs(now).into_iter().collect(),
            assignee: flow.assignee.clone(),
            capabilities: flow.capabilities.clone(),
            key: flow.key.clone(),
            parent: flow.parent(),
            waits_for: flow.waits_for.keys().copied().collect(),
            creator: flow.creator.clone(),
            draft: flow.draft,
            approval: flow.approval,
            holds: holds(flow),
            fixed: flow.fixed().map(|refusal| refusal.to_string()),
            contract: vec![],
            policy: PolicyView::of(&flow.policy),
            run: None,
            last_run: RunView::last(flow),
            ending: None,
            ending_reason: None,
            superseded_by: None,
            version: flow.version,
            created_at: When(flow.created_at),
            ended_at: flow.ended_at.map(When),
        };
        if let Some(ending) = flow.ending() {
            view.put_ending(ending);
        }
        view
    }

    fn put_ending(&mut self, ending: &Ending) {
        let (word, reason) = match ending {
            Ending::Done { .. } => (EndedWord::Done, None),
            Ending::Abandoned { reason } => (EndedWord::Abandoned, Some(reason)),
            Ending::Superseded { by, reason } => {
                self.superseded_by = Some(*by);
                (EndedWord::Superseded, Some(reason))
            }
            Ending::Rejected { reason } => (EndedWord::Rejected, Some(reason)),
        };
        self.ending = Some(word);
        self.ending_reason = reason.cloned();
    }
}

/// The column that a task is in, as people call it.
#[must_use]
pub fn stage_word(stage: &Stage) -> StageName {
    let ours = |word| StageName::new(word).expect("a plain word is a name");
    match stage {
        Stage::Backlog => ours("backlog"),
        Stage::Working(name) => name.clone(),
        Stage::Ended(Ending::Done { .. }) => ours("done"),
        Stage::Ended(_) => ours("closed"),
        Stage::Archived(_) => ours("archived"),
    }
}

fn holds(flow: &Flow) -> Vec<Hold> {
    [Hold::Frozen, Hold::Review].into_iter().filter(|hold| flow.holds.has(*hold)).collect()
}
