//! Tasks.

use std::collections::BTreeSet;

use baton_domain::command::{Command, NewTask};
use baton_domain::ids::{
    Capability, ConcurrencyKey, Label, PrincipalId, ProjectId, StageName, TaskId,
};
use baton_domain::limits::{CAPABILITIES_MAX, DEPENDENCIES_MAX, LABELS_MAX, LINES_MAX};
use baton_domain::policy::Policy;
use baton_domain::task::{Kind, Priority};
use baton_domain::text::{Body, Title};
use baton_domain::view::Badge;
use baton_store::read::Column;
use baton_store::{Aim, Filter, Told};

use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::shape::{PageSize, When, record};
use crate::views::{ContractLine, PolicyView, TaskView};

pub use edit::Edit;
pub use explain::Explain;
pub use holds::{Freeze, Hold, Unfreeze, Unhold};
pub use steps::{Approve, Archive, Close, Depend, Move, Publish, Reject, Undepend};
pub use tree::Tree;

mod edit;
mod explain;
mod holds;
mod steps;
mod tree;

/// What a person sees first of a task.
const TASK_COLUMNS: &[&str] = &["id", "badge", "stage", "title"];

record! {
    /// A task to be.
    pub struct Create {
        /// Of which project.
        project: ProjectId,
        /// A line that names it.
        #[is_line(true)]
        title: Title,
        /// What should be achieved, at length.
        body: Option<Body>,
        /// What sort of work it is.
        kind: Option<Kind>,
        /// How urgent it is.
        priority: Option<Priority>,
        /// Free tags.
        #[at_most(LABELS_MAX)]
        labels: Option<BTreeSet<Label>>,
        /// The task that it is part of.
        parent: Option<TaskId>,
        /// Tasks that must be done first.
        #[at_most(DEPENDENCIES_MAX)]
        depends_on: Option<BTreeSet<TaskId>>,
        /// The only one who may work on it.
        assignee: Option<PrincipalId>,
        /// What a holder must be able to do.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: Option<BTreeSet<Capability>>,
        /// Tasks with the same key share a limit.
        key: Option<ConcurrencyKey>,
        /// Make it, but let nothing happen to it.
        draft: Option<bool>,
        /// Somebody must agree before anything is executed.
        needs_approval: Option<bool>,
        /// Start in this stage right away; without it the task waits in the backlog.
        stage: Option<StageName>,
        /// Not before this time.
        start_at: Option<When>,
        /// How it is tried; what is absent is the default.
        policy: Option<PolicyView>,
        /// What must be true before a run counts.
        #[at_most(LINES_MAX)]
        contract: Option<Vec<ContractLine>>,
    }

    /// Which task.
    pub struct Show {
        /// Which task.
        task: TaskId,
    }

    /// Which tasks.
    pub struct List {
        /// Of this project.
        project: Option<ProjectId>,
        /// In this column: backlog, a working stage, done, closed or archived.
        stage: Option<StageName>,
        /// With this badge.
        badge: Option<Badge>,
        /// Of this sort.
        kind: Option<Kind>,
        /// With this label.
        label: Option<Label>,
        /// For this principal.
        assignee: Option<PrincipalId>,
        /// Held by this principal.
        holder: Option<PrincipalId>,
        /// Children of this task.
        parent: Option<TaskId>,
        /// Waiting for this task.
        waits_for: Option<TaskId>,
        /// With these words in title or body, in any case.
        text: Option<Title>,
        /// Ended ones too.
        ended: Option<bool>,
        /// The highest number first.
        newest: Option<bool>,
        /// After this one, in the order of the list.
        after: Option<TaskId>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of a list of tasks.
    pub struct Tasks {
        /// In the order of their numbers.
        items: Vec<TaskView>,
        /// Where to go on: give it as `after`. Absent at the end; a page may be short and have it.
        next: Option<TaskId>,
    }
}

impl Operation for Create {
    const ABOUT: Declaration = Declaration {
        noun: "task",
        verb: "create",
        summary: "Create a task",
        method: Method::Post,
        path: "/v1/tasks",
        permit: Permit::Scope(Level::Write),
        audience: Audience::Anyone,
        hints: Hints::ADDS,
        columns: TASK_COLUMNS,
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let project = self.project.clone();
        let task = self.new_task(call)?;
        let aim = Aim::Birth(project, vec![Command::Create(Box::new(task))]);
        let done = call.submit(aim).await?;
        call.task_view(&done).await
    }
}

impl Create {
    fn new_task(self, call: &Call) -> Result<NewTask, Problem> {
        let contract = self.contract.map(ContractLine::contract).transpose();
        let contract = contract.map_err(|wrong| Problem::invalid(vec![wrong]))?;
        Ok(NewTask {
            project: self.project,
            creator: call.caller().principal.clone(),
            creator_task: call.envelope().pass.as_ref().map(|pass| pass.task),
            title: self.title,
            body: self.body,
            kind: self.kind.unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            labels: self.labels.unwrap_or_default(),
            parent: self.parent,
            depends_on: self.depends_on.unwrap_or_default(),
            assignee: self.assignee,
            capabilities: self.capabilities.unwrap_or_default(),
            key: self.key,
            policy: self.policy.map_or_else(Policy::default, PolicyView::policy),
            contract,
            draft: self.draft.unwrap_or(false),
            needs_approval: self.needs_approval.unwrap_or(false),
            start_in: self.stage,
            start_at: self.start_at.map(|at| at.0),
        })
    }
}

impl Operation for Show {
    const ABOUT: Declaration =
        Declaration::look(("task", "show"), "/v1/tasks/{task}", TASK_COLUMNS, "Show a task");

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let Told { what: row, as_of } = call.look_at(self.task).await?;
        Ok(Answered::read(TaskView::of(&row, call.engine().now()), call.cursor(as_of)))
    }
}

impl Operation for List {
    const ABOUT: Declaration =
        Declaration::look(("task", "list"), "/v1/tasks", TASK_COLUMNS, "List tasks");

    type Answer = Tasks;

    async fn perform(self, call: &Call) -> Result<Answered<Tasks>, Problem> {
        Tasks::read(call, self.filter()).await
    }
}

impl List {
    fn filter(self) -> Filter {
        Filter {
            project: self.project,
            stage: self.stage.map(column),
            badge: self.badge,
            kind: self.kind,
            label: self.label,
            assignee: self.assignee,
            holder: self.holder,
            parent: self.parent,
            waits_for: self.waits_for,
            text: self.text.map(|text| text.to_string()),
            ended: self.ended.unwrap_or(false),
            newest_first: self.newest.unwrap_or(false),
            after: self.after,
            count_max: PageSize::or_usual(self.limit),
            ..Filter::default()
        }
    }
}

/// The column of that name; no project may call a working stage like one of ours.
fn column(name: StageName) -> Column {
    match name.as_str() {
        "backlog" => Column::Backlog,
        "done" => Column::Done,
        "closed" => Column::Closed,
        "archived" => Column::Archived,
        _ => Column::Working(name),
    }
}

impl Tasks {
    /// A page of tasks as callers see them now.
    pub(super) async fn read(call: &Call, filter: Filter) -> Result<Answered<Self>, Problem> {
        let page = call.engine().tasks(&call.caller().tenant, filter).await?;
        let now = call.engine().now();
        let items = page.rows.iter().map(|row| TaskView::of(row, now)).collect();
        Ok(Answered::read(Self { items, next: page.next }, call.cursor(page.as_of)))
    }
}
