//! Changing what a task is.

use std::collections::BTreeSet;

use baton_domain::command::{Clear, Patch, Person};
use baton_domain::ids::{Capability, Label, PrincipalId, TaskId};
use baton_domain::limits::{CAPABILITIES_MAX, LABELS_MAX, LINES_MAX};
use baton_domain::task::Priority;
use baton_domain::text::{Body, Title};

use crate::call::Call;
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
        let done = call.say(task, Person::Edit(Box::new(self.patch()?))).await?;
        call.task_view(&done).await
    }
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
