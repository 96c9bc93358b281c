//! The backlog: what is not begun. `task move` begins it.

use baton_domain::ids::{Label, PrincipalId, ProjectId, TaskId};
use baton_store::Filter;
use baton_store::read::Column;

use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, record};

use super::task::Tasks;

record! {
    /// Which tasks of the backlog.
    pub struct List {
        /// Of this project.
        project: Option<ProjectId>,
        /// With this label.
        label: Option<Label>,
        /// For this principal.
        assignee: Option<PrincipalId>,
        /// After this one.
        after: Option<TaskId>,
        /// At most so many.
        limit: Option<PageSize>,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("backlog", "list"),
        "/v1/backlog",
        &["id", "badge", "stage", "title"],
        "List tasks that are not begun",
    );

    type Answer = Tasks;

    async fn perform(self, call: &Call) -> Result<Answered<Tasks>, Problem> {
        let filter = Filter {
            project: self.project,
            stage: Some(Column::Backlog),
            label: self.label,
            assignee: self.assignee,
            after: self.after,
            count_max: PageSize::or_usual(self.limit),
            ..Filter::default()
        };
        Tasks::read(call, filter).await
    }
}
