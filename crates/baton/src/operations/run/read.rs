//! Looking at runs.

use baton_domain::ids::{PrincipalId, ProjectId, RunId, StageName, TaskId};
use baton_store::RunFilter;
use baton_store::read::RunWord;

use super::{handoff, words};
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, RunRef, Violation, record};
use crate::views::RunView;

record! {
    /// Which run.
    pub struct Show {
        /// Which run; of a task the live one, or else the one that finished last.
        run: RunRef,
        /// With what the next holder gets.
        handoff: Option<bool>,
    }

    /// Which runs.
    pub struct List {
        /// Of this project.
        project: Option<ProjectId>,
        /// Of this task, live and finished.
        task: Option<TaskId>,
        /// In this stage.
        stage: Option<StageName>,
        /// In this state.
        state: Option<RunWord>,
        /// Held by this principal.
        holder: Option<PrincipalId>,
        /// Held by the caller.
        mine: Option<bool>,
        /// Only live ones (true), or only finished ones (false).
        live: Option<bool>,
        /// The highest number first.
        newest: Option<bool>,
        /// After this one, in the order of the list.
        after: Option<RunId>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of a list of runs.
    pub struct Runs {
        /// In the order of their numbers.
        items: Vec<RunView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<RunId>,
    }
}

impl Operation for Show {
    const ABOUT: Declaration = Declaration::look(
        ("run", "show"),
        "/v1/runs/{run}",
        &["id", "state", "stage", "holder"],
        "Show a run, with its question, its answer and why it is parked",
    );

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        // What is read after the task may be newer than it, never older.
        let (row, as_of) = call.told(call.task_of(self.run)?).await?;
        let id = call.run_of(self.run, &row.flow)?;
        let live = RunView::live(&row.flow, row.lease.as_ref()).filter(|live| live.id == id);
        let mut view = match live {
            Some(view) => view,
            None => {
                let found = RunView::of_row(&call.run(id).await?.row);
                RunView { version: Some(row.flow.version), ..found }
            }
        };
        words::fill(call, &row.flow, &mut view).await?;
        if self.handoff.unwrap_or(false) {
            view.handoff = Some(handoff::packet(call, &row, id).await?);
        }
        Ok(Answered::read(view, as_of))
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("run", "list"),
        "/v1/runs",
        &["id", "state", "stage", "holder"],
        "List runs, live and finished",
    );

    type Answer = Runs;

    async fn perform(self, call: &Call) -> Result<Answered<Runs>, Problem> {
        let holder = match (self.mine.unwrap_or(false), self.holder) {
            (true, Some(_)) => {
                let rule = "must be absent when `mine` is given".to_owned();
                return Err(Problem::invalid(vec![Violation { field: "holder".into(), rule }]));
            }
            (true, None) => Some(call.caller().principal.clone()),
            (false, holder) => holder,
        };
        let filter = RunFilter {
            project: self.project,
            task: self.task,
            stage: self.stage,
            state: self.state,
            holder,
            live: self.live,
            newest_first: self.newest.unwrap_or(false),
            after: self.after,
            count_max: PageSize::or_usual(self.limit),
        };
        let list = call.engine().runs(&call.caller().tenant, filter).await?;
        let items = list.rows.iter().map(RunView::of_row).collect();
        Ok(Answered::read(Runs { items, next: list.next }, call.cursor(list.as_of)))
    }
}
