//! A task as callers see it.

use std::collections::BTreeSet;

use baton_domain::ids::{Capability, ConcurrencyKey, Label, PrincipalId, ProjectId, TaskId};
use baton_domain::task::{Approval, Ending, Flow, Hold, Kind, Priority, Stage};
use baton_domain::text::{Body, Title};
use baton_domain::time::Timestamp;
use baton_domain::view::{Badge, Need};
use baton_store::TaskRow;

use crate::shape::{When, record};

use super::{ContractLine, PolicyView, RunView};

record! {
    /// What should be achieved, and where it stands.
    pub struct TaskView {
        /// Which task.
        id: TaskId,
        /// The one word for how it is.
        badge: Badge,
        /// backlog, a working stage, done, closed or archived.
        stage: String,
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
        labels: BTreeSet<Label>,
        /// Everything for which it waits for a person.
        needs: BTreeSet<Need>,
        /// The only one who may work on it.
        assignee: Option<PrincipalId>,
        /// What a holder must be able to do.
        capabilities: BTreeSet<Capability>,
        /// Tasks with the same key share a limit.
        key: Option<ConcurrencyKey>,
        /// The task that it is part of.
        parent: Option<TaskId>,
        /// Tasks that must be done first and are not.
        waits_for: BTreeSet<TaskId>,
        /// Who made it.
        creator: PrincipalId,
        /// Nothing happens to a draft.
        draft: bool,
        /// Whether somebody must agree before anything is executed, and has: not_required, pending or approved.
        approval: String,
        /// frozen, review, or both.
        holds: Vec<String>,
        /// What must be true before a run counts.
        contract: Vec<ContractLine>,
        /// How it is tried.
        policy: PolicyView,
        /// The live run.
        run: Option<RunView>,
        /// The last finished run.
        last_run: Option<RunView>,
        /// done, abandoned, superseded or rejected, once it has ended.
        ending: Option<String>,
        /// Why it ended.
        ending_reason: Option<String>,
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
            approval: match flow.approval {
                Approval::NotRequired => "not_required",
                Approval::Pending => "pending",
                Approval::Approved => "approved",
            }
            .to_owned(),
            holds: holds(flow),
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
            Ending::Done { .. } => ("done", None),
            Ending::Abandoned { reason } => ("abandoned", Some(reason)),
            Ending::Superseded { by, reason } => {
                self.superseded_by = Some(*by);
                ("superseded", Some(reason))
            }
            Ending::Rejected { reason } => ("rejected", Some(reason)),
        };
        self.ending = Some(word.to_owned());
        self.ending_reason = reason.map(ToString::to_string);
    }
}

/// The column that a task is in, as people call it.
#[must_use]
pub fn stage_word(stage: &Stage) -> String {
    match stage {
        Stage::Backlog => "backlog".to_owned(),
        Stage::Working(name) => name.to_string(),
        Stage::Ended(Ending::Done { .. }) => "done".to_owned(),
        Stage::Ended(_) => "closed".to_owned(),
        Stage::Archived(_) => "archived".to_owned(),
    }
}

fn holds(flow: &Flow) -> Vec<String> {
    [(Hold::Frozen, "frozen"), (Hold::Review, "review")]
        .into_iter()
        .filter(|(hold, _)| flow.holds.has(*hold))
        .map(|(_, word)| word.to_owned())
        .collect()
}
