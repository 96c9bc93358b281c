//! What a person lets happen to a task.

use baton_domain::command::Person;
use baton_domain::ids::{StageName, TaskId};
use baton_domain::task::Ending;
use baton_domain::text::Reason;

use crate::operation::{Declaration, Hints, Method};
use crate::operations::saying::{Said, Saying};
use crate::problem::Problem;
use crate::shape::{Violation, When, record, words};
use crate::views::TaskView;

use super::TASK_COLUMNS;

record! {
    /// A draft to let happen.
    pub struct Publish {
        /// Which task.
        task: TaskId,
    }

    /// A task to agree to.
    pub struct Approve {
        /// Which task.
        task: TaskId,
    }

    /// A task to say no to.
    pub struct Reject {
        /// Which task.
        task: TaskId,
        /// Why it shall not be done.
        reason: Reason,
    }

    /// A task to put into another column.
    pub struct Move {
        /// Which task.
        task: TaskId,
        /// A working stage, which opens a run there, or `backlog`.
        stage: StageName,
        /// Not before this time.
        start_at: Option<When>,
    }

    /// A task to take off the board.
    pub struct Close {
        /// Which task.
        task: TaskId,
        /// As what; abandoned if nothing is said.
        ending: Option<EndingWord>,
        /// The task that takes its place, if it is superseded.
        by: Option<TaskId>,
        /// Why.
        reason: Reason,
    }

    /// A task that ended, to put away.
    pub struct Archive {
        /// Which task.
        task: TaskId,
    }

    /// A task to let wait for another.
    pub struct Depend {
        /// Which task.
        task: TaskId,
        /// The one that must be done first.
        on: TaskId,
    }

    /// A task that shall no longer wait for another.
    pub struct Undepend {
        /// Which task.
        task: TaskId,
        /// The one that need not be done first.
        on: TaskId,
    }
}

words! {
    /// How a person may end a task; only a passed run makes it done.
    pub enum EndingWord {
        /// Nobody wants it any more.
        Abandoned = "abandoned",
        /// Another task takes its place.
        Superseded = "superseded",
        /// It shall not be done.
        Rejected = "rejected",
    }
}

/// A word of a person on one task.
pub(super) const fn step(
    verb: &'static str,
    path: &'static str,
    hints: Hints,
    summary: &'static str,
) -> Declaration {
    let (what, columns) = (("task", verb), TASK_COLUMNS);
    Declaration::of_person(what, (Method::Post, path), hints, columns, summary)
}

/// The same for the edge between two tasks.
const fn edge(
    verb: &'static str,
    method: Method,
    hints: Hints,
    summary: &'static str,
) -> Declaration {
    let (what, place) = (("task", verb), (method, "/v1/tasks/{task}/dependencies/{on}"));
    Declaration::of_person(what, place, hints, TASK_COLUMNS, summary)
}

impl Saying for Publish {
    const DECLARED: Declaration =
        step("publish", "/v1/tasks/{task}/publish", Hints::SETS, "Publish a draft");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfTask(self.task, Person::Publish))
    }
}

impl Saying for Approve {
    const DECLARED: Declaration =
        step("approve", "/v1/tasks/{task}/approve", Hints::SETS, "Agree that a task is executed");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfTask(self.task, Person::Approve))
    }
}

impl Saying for Reject {
    const DECLARED: Declaration = step(
        "reject",
        "/v1/tasks/{task}/reject",
        Hints::ENDS,
        "Say no to a task: it is closed as rejected",
    );

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        let ending = Ending::Rejected { reason: self.reason };
        Ok(Said::OfTask(self.task, Person::Close(ending)))
    }
}

impl Saying for Move {
    const DECLARED: Declaration = step(
        "move",
        "/v1/tasks/{task}/move",
        Hints::ENDS,
        "Put a task into a working stage, or back into the backlog",
    );

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        let says = Person::Move { to: self.column()?, start_at: self.start_at.map(|at| at.0) };
        Ok(Said::OfTask(self.task, says))
    }
}

impl Saying for Close {
    const DECLARED: Declaration =
        step("close", "/v1/tasks/{task}/close", Hints::ENDS, "Take a task off the board");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfTask(self.task, Person::Close(self.ending()?)))
    }
}

impl Saying for Archive {
    const DECLARED: Declaration =
        step("archive", "/v1/tasks/{task}/archive", Hints::SETS, "Put a task that ended away");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfTask(self.task, Person::Archive))
    }
}

impl Saying for Depend {
    const DECLARED: Declaration =
        edge("depend", Method::Put, Hints::SETS, "Let a task wait for another");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        if self.on == self.task {
            let rule = "must be another task: none waits for itself".to_owned();
            return Err(Problem::invalid(vec![Violation { field: "on".to_owned(), rule }]));
        }
        Ok(Said::OfTask(self.task, Person::Depend { on: self.on, wait: true }))
    }
}

impl Saying for Undepend {
    const DECLARED: Declaration =
        edge("undepend", Method::Delete, Hints::ENDS, "Let a task no longer wait for another");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::OfTask(self.task, Person::Depend { on: self.on, wait: false }))
    }
}

impl Move {
    fn column(&self) -> Result<Option<StageName>, Problem> {
        let refused = |rule: &str, next: &str| {
            let violation = Violation { field: "stage".into(), rule: rule.into() };
            Err(Problem::invalid(vec![violation]).next(format!("baton task {next} {}", self.task)))
        };
        match self.stage.as_str() {
            "backlog" if self.start_at.is_some() => {
                let violation = Violation {
                    field: "start_at".into(),
                    rule: "must not be given: nothing starts in the backlog".into(),
                };
                Err(Problem::invalid(vec![violation]))
            }
            "backlog" => Ok(None),
            "done" => refused("must not be `done`: only a run that passed does that", "explain"),
            "closed" => refused("must not be `closed`: closing needs a reason", "close"),
            "archived" => refused("must not be `archived`: archive it instead", "archive"),
            _ => Ok(Some(self.stage.clone())),
        }
    }
}

impl Close {
    fn ending(self) -> Result<Ending, Problem> {
        let wrong = |rule: &str| {
            Problem::invalid(vec![Violation { field: "by".into(), rule: rule.into() }])
        };
        let reason = self.reason;
        match (self.ending.unwrap_or(EndingWord::Abandoned), self.by) {
            (EndingWord::Superseded, Some(by)) => Ok(Ending::Superseded { by, reason }),
            (EndingWord::Superseded, None) => {
                Err(wrong("is missing: say which task takes its place"))
            }
            (EndingWord::Abandoned | EndingWord::Rejected, Some(_)) => {
                Err(wrong("must not be given unless `ending` is superseded"))
            }
            (EndingWord::Abandoned, None) => Ok(Ending::Abandoned { reason }),
            (EndingWord::Rejected, None) => Ok(Ending::Rejected { reason }),
        }
    }
}
