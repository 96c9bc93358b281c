//! Checkpoints that were left.

use baton_domain::history::Past;
use baton_domain::ids::{RunId, TaskId};
use baton_store::PastId;

use super::history::{self, Bookmark};
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, record};
use crate::views::CheckpointView;

record! {
    /// Which checkpoints.
    pub struct List {
        /// Of which task.
        task: TaskId,
        /// Only of this run of it.
        run: Option<RunId>,
        /// After this bookmark: the `next` of an earlier answer.
        after: Option<Bookmark>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of the checkpoints of a task.
    pub struct Checkpoints {
        /// Oldest first.
        items: Vec<CheckpointView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<Bookmark>,
    }

    /// Which checkpoint.
    pub struct Show {
        /// Of which task.
        task: TaskId,
        /// Which one.
        number: u32,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("checkpoint", "list"),
        "/v1/tasks/{task}/checkpoints",
        &["number", "attempt", "at", "summary"],
        "List the checkpoints of a task",
    );

    type Answer = Checkpoints;

    async fn perform(self, call: &Call) -> Result<Answered<Checkpoints>, Problem> {
        let (_, as_of) = call.told(self.task).await?;
        let wanted =
            |number: u32| self.run.is_none_or(|run| run == RunId { task: self.task, number });
        let pick = |record: &Past| match record {
            Past::Checkpoint(own) if wanted(own.run) => Some(CheckpointView::of(self.task, own)),
            Past::Checkpoint(_) | Past::Attempt(_) | Past::Run(_) => None,
        };
        let count_max = PageSize::or_usual(self.limit);
        let picked = history::pick(call, self.task, self.after, count_max, pick).await?;
        Ok(Answered::read(Checkpoints { items: picked.items, next: picked.next }, as_of))
    }
}

impl Operation for Show {
    const ABOUT: Declaration = Declaration::look(
        ("checkpoint", "show"),
        "/v1/tasks/{task}/checkpoints/{number}",
        &["number", "attempt", "at", "summary"],
        "Show a checkpoint",
    );

    type Answer = CheckpointView;

    async fn perform(self, call: &Call) -> Result<Answered<CheckpointView>, Problem> {
        let (_, as_of) = call.told(self.task).await?;
        let found = match call.past(self.task, PastId::Checkpoint(self.number)).await? {
            Past::Checkpoint(own) => CheckpointView::of(self.task, &own),
            Past::Attempt(_) | Past::Run(_) => return Err(Problem::not_found()),
        };
        Ok(Answered::read(found, as_of))
    }
}
