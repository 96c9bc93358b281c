//! A task, its run and its lease in one step, for an agent that brings its own goal.

use std::collections::BTreeSet;

use baton_domain::command::NewTask;
use baton_domain::ids::{Account, Capability, Label, ProjectId, StageName, TaskId};
use baton_domain::limits::{CAPABILITIES_MAX, LABELS_MAX, LINES_MAX};
use baton_domain::policy::Policy;
use baton_domain::project::{Project, WorkedBy};
use baton_domain::task::{Kind, Priority};
use baton_domain::text::{Body, Title};

use super::claim::{self, ClaimedView};
use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Operation};
use crate::problem::Problem;
use crate::shape::{Span, Violation, record};
use crate::views::{ContractLine, PolicyView};

/// The most projects that a refusal names.
const NAMED_MAX: usize = 10;

record! {
    /// A goal that the caller works on itself, from now on.
    pub struct Start {
        /// A line that names it.
        #[is_line(true)]
        title: Title,
        /// What should be achieved, at length.
        body: Option<Body>,
        /// Of which project; without it the only one there is.
        project: Option<ProjectId>,
        /// What sort of work it is.
        kind: Option<Kind>,
        /// How urgent it is.
        priority: Option<Priority>,
        /// Free tags.
        #[at_most(LABELS_MAX)]
        labels: Option<BTreeSet<Label>>,
        /// The task that it is part of.
        parent: Option<TaskId>,
        /// What a later holder must be able to do; the caller is taken at its word.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: Option<BTreeSet<Capability>>,
        /// What must be true before the run counts.
        #[at_most(LINES_MAX)]
        contract: Option<Vec<ContractLine>>,
        /// How it is tried; what is absent is the default.
        policy: Option<PolicyView>,
        /// The account whose rate limit it will use.
        account: Option<Account>,
        /// How long the lease lives without renewal.
        lease: Option<Span>,
    }
}

impl Operation for Start {
    const ABOUT: Declaration = Declaration::of_holder(
        Audience::Anyone,
        ("start", "/v1/runs/start"),
        Hints::ADDS,
        &["task", "run", "attempt", "lease"],
        "Start work on a goal of your own: a task, its run and its lease at once",
    );

    type Answer = ClaimedView;

    async fn perform(self, call: &Call) -> Result<Answered<ClaimedView>, Problem> {
        let (project, stage) = match place(call, self.project.as_ref()).await {
            // The first answer stands, whatever projects there are by now; nothing is asked of these.
            Err(_) if call.is_repeated().await? => nowhere(),
            found => found?,
        };
        let wish = claim::wish(call, self.capabilities.clone(), self.account, self.lease);
        let contract = self.contract.map(ContractLine::contract).transpose();
        let creator = call.caller().principal.clone();
        let task = NewTask {
            creator_task: call.envelope().pass.as_ref().map(|pass| pass.task),
            body: self.body,
            kind: self.kind.unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            labels: self.labels.unwrap_or_default(),
            parent: self.parent,
            capabilities: self.capabilities.unwrap_or_default(),
            policy: self.policy.map_or_else(Policy::default, PolicyView::policy),
            contract: contract.map_err(|wrong| Problem::invalid(vec![wrong]))?,
            start_in: Some(stage),
            ..NewTask::new(project, creator, self.title)
        };
        let claimed = call.engine().start(wish, task).await?;
        call.note_commit();
        claim::answered(call, &claimed).await
    }
}

/// Where a task can be started at once: a project, and the first stage of it that agents work.
async fn place(call: &Call, name: Option<&ProjectId>) -> Result<(ProjectId, StageName), Problem> {
    let project = find(call, name).await?;
    let stage = project.pipeline.iter().find(|spec| spec.worked_by == WorkedBy::Agent);
    let Some(stage) = stage.map(|spec| spec.name.clone()) else {
        let rule = format!("has no stage that agents work: {}", project.id);
        return Err(Problem::invalid(vec![Violation { field: "project".into(), rule }]));
    };
    Ok((project.id, stage))
}

/// A place that nobody looks for.
fn nowhere() -> (ProjectId, StageName) {
    let plain = "a plain word is a name";
    (ProjectId::new("nowhere").expect(plain), StageName::new("nowhere").expect(plain))
}

/// The project of that name, or the only one.
async fn find(call: &Call, name: Option<&ProjectId>) -> Result<Project, Problem> {
    let tenant = &call.caller().tenant;
    let list = call.engine().projects(tenant, None, baton_store::read::PAGE_MAX).await?;
    let projects = list.rows;
    match (name, &projects[..]) {
        (Some(name), _) => {
            let found = projects.iter().find(|project| project.id == *name);
            found.map(|project| (**project).clone()).ok_or_else(Problem::not_found)
        }
        (None, [only]) => Ok((**only).clone()),
        (None, []) => {
            let rule = "must be named, and there is none yet".to_owned();
            let problem = Problem::invalid(vec![Violation { field: "project".into(), rule }]);
            Err(problem.next("baton project add"))
        }
        (None, several) => {
            let names = several.iter().take(NAMED_MAX).map(|project| project.id.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            let rule = format!("must be named, since there are several: {names}");
            Err(Problem::invalid(vec![Violation { field: "project".into(), rule }]))
        }
    }
}
