//! Attempts, live and ended.

use baton_domain::history::Past;
use baton_domain::ids::{AttemptId, RunId, TaskId};
use baton_domain::task::Flow;
use baton_store::PastId;

use super::history::{self, Bookmark};
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, record};
use crate::views::AttemptView;

record! {
    /// Which attempts.
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

    /// Part of the attempts of a task.
    pub struct Attempts {
        /// Those that ended, oldest first.
        items: Vec<AttemptView>,
        /// The one that holds the run now.
        live: Option<AttemptView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<Bookmark>,
    }

    /// Which attempt.
    pub struct Show {
        /// Which attempt.
        attempt: AttemptId,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("attempt", "list"),
        "/v1/tasks/{task}/attempts",
        &["id", "holder", "outcome", "code"],
        "List the attempts of a task",
    );

    type Answer = Attempts;

    async fn perform(self, call: &Call) -> Result<Answered<Attempts>, Problem> {
        let (row, as_of) = call.told(self.task).await?;
        let wanted = |run: RunId| self.run.is_none_or(|own| own == run);
        let pick = |record: &Past| match record {
            Past::Attempt(own) if wanted(RunId { task: self.task, number: own.run }) => {
                Some(AttemptView::ended(self.task, own))
            }
            Past::Attempt(_) | Past::Checkpoint(_) | Past::Run(_) => None,
        };
        let count_max = PageSize::or_usual(self.limit);
        let picked = history::pick(call, self.task, self.after, count_max, pick).await?;
        let live = live(&row.flow).filter(|live| wanted(live.run));
        Ok(Answered::read(Attempts { items: picked.items, live, next: picked.next }, as_of))
    }
}

impl Operation for Show {
    const ABOUT: Declaration = Declaration::look(
        ("attempt", "show"),
        "/v1/attempts/{attempt}",
        &["id", "holder", "outcome", "code"],
        "Show an attempt",
    );

    type Answer = AttemptView;

    async fn perform(self, call: &Call) -> Result<Answered<AttemptView>, Problem> {
        let id = self.attempt;
        let (row, as_of) = call.told(id.task).await?;
        if let Some(live) = live(&row.flow).filter(|live| live.id == id) {
            return Ok(Answered::read(live, as_of));
        }
        let found = match call.past(id.task, PastId::Attempt(id.number)).await? {
            Past::Attempt(own) => AttemptView::ended(id.task, &own),
            Past::Checkpoint(_) | Past::Run(_) => return Err(Problem::not_found()),
        };
        Ok(Answered::read(found, as_of))
    }
}

fn live(flow: &Flow) -> Option<AttemptView> {
    let run = flow.run.as_ref()?;
    let id = RunId { task: flow.id, number: run.number };
    run.held().map(|held| AttemptView::live(id, held))
}
