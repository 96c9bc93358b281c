//! Changing what a task is.

use std::collections::BTreeSet;

use baton_domain::command::{Clear, Command, Expect, Patch, Person};
use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{Capability, Digest, Label, LineId, PrincipalId, TaskId};
use baton_domain::limits::{CAPABILITIES_MAX, LABELS_MAX, LINES_MAX};
use baton_domain::task::Priority;
use baton_domain::text::{Body, Title};

use crate::call::Call;
use crate::contract;
use crate::operation::{Answered, Declaration, Hints, Method, Operation};
use crate::problem::Problem;
use crate::shape::{Violation, record};
use crate::views::{ContractLine, PolicyView, TaskView};

record! {
    /// What to change of a task; what is absent stays.
    pub struct Edit {
        /// Which task.
        task: TaskId,
        /// A line that names it.
        #[is_line(true)]
        title: Option<Title>,
        /// What should be achieved, at length.
        body: Option<Body>,
        /// How urgent it is.
        priority: Option<Priority>,
        /// Free tags; all of them, or an empty list for none.
        #[at_most(LABELS_MAX)]
        labels: Option<BTreeSet<Label>>,
        /// The only one who may work on it.
        assignee: Option<PrincipalId>,
        /// What a holder must be able to do; all of it, or an empty list for nothing.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: Option<BTreeSet<Capability>>,
        /// How it is tried; what is absent in it stays.
        policy: Option<PolicyView>,
        /// What must be true before a run counts; all lines, or an empty list for none.
        #[at_most(LINES_MAX)]
        contract: Option<Vec<ContractLine>>,
        /// What to empty.
        #[at_most(2)]
        clear: Option<BTreeSet<Clear>>,
    }
}

impl Operation for Edit {
    const ABOUT: Declaration = Declaration::of_person(
        ("task", "edit"),
        (Method::Patch, "/v1/tasks/{task}"),
        Hints::ENDS,
        super::TASK_COLUMNS,
        "Change what a task is",
    );

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        self.check()?;
        let task = self.task;
        let mut patch = self.patch()?;
        let version = match &mut patch.contract {
            Some(own) => beside_the_project(call, task, own).await?,
            None => None,
        };
        let says = Person::Edit(Box::new(patch));
        let done = match version {
            // The hash is of all that is asked for, so it is about the task as it was read.
            Some(version) => {
                let version = Some(call.envelope().if_match.unwrap_or(version));
                let expect = Expect { version, run: None };
                call.on_task(task, vec![Command::Expect(expect), Command::Person(says)]).await?
            }
            None => call.say(task, says).await?,
        };
        call.task_view(&done).await
    }
}

/// The task's own lines go beside those of its project, which are left out of them: the hash is of both. The version of
/// the task that this is about; none if its project asks for nothing.
async fn beside_the_project(
    call: &Call,
    task: TaskId,
    (own, hash): &mut (Contract, Digest),
) -> Result<Option<u64>, Problem> {
    let row = call.task(task).await?;
    let Some(bound) = &row.brief.bound else { return Ok(None) };
    let is_bound = |line: &LineId, term: &Term| {
        bound.lines.contains(line) && row.brief.contract.lines.get(line) == Some(term)
    };
    own.lines.retain(|line, term| !is_bound(line, term));
    *hash = contract::hash(&row.brief.with_own(own)?, &bound.protected);
    Ok(Some(row.flow.version))
}

impl Edit {
    /// Nothing can be set and emptied at once.
    fn check(&self) -> Result<(), Problem> {
        let clear = self.clear.iter().flatten();
        let twice = clear.filter_map(|field| match field {
            Clear::Body => self.body.is_some().then_some("body"),
            Clear::Assignee => self.assignee.is_some().then_some("assignee"),
        });
        let violations: Vec<_> = twice
            .map(|field| {
                let rule = "must not be given and cleared at once".to_owned();
                Violation { field: field.to_owned(), rule }
            })
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(Problem::invalid(violations)) }
    }

    fn patch(self) -> Result<Patch, Problem> {
        let contract = self.contract.map(ContractLine::contract).transpose();
        Ok(Patch {
            title: self.title,
            body: self.body,
            priority: self.priority,
            labels: self.labels,
            assignee: self.assignee,
            capabilities: self.capabilities,
            policy: self.policy.map(PolicyView::choice),
            contract: contract.map_err(|wrong| Problem::invalid(vec![wrong]))?,
            clear: self.clear.unwrap_or_default(),
        })
    }
}
