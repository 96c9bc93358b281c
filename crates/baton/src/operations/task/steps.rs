//! What a person lets happen to a task.

use baton_domain::command::Person;
use baton_domain::ids::{StageName, TaskId};
use baton_domain::task::Ending;
use baton_domain::text::Reason;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::{Shape, Shaped, Violation, When, record};
use crate::views::TaskView;

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

/// How a person may end a task; only a passed run makes it done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndingWord {
    /// Nobody wants it any more.
    #[default]
    Abandoned,
    /// Another task takes its place.
    Superseded,
    /// It shall not be done.
    Rejected,
}

impl Shaped for EndingWord {
    fn shape() -> Shape {
        Shape::Choice(&["abandoned", "superseded", "rejected"])
    }
}

impl Operation for Publish {
    const ABOUT: About = About {
        noun: "task",
        verb: "publish",
        summary: "Publish a draft",
        method: Method::Post,
        path: "/v1/tasks/{task}/publish",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let done = call.say(self.task, Person::Publish).await?;
        call.task_view(&done).await
    }
}

impl Operation for Approve {
    const ABOUT: About = About {
        noun: "task",
        verb: "approve",
        summary: "Agree that a task is executed",
        method: Method::Post,
        path: "/v1/tasks/{task}/approve",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let done = call.say(self.task, Person::Approve).await?;
        call.task_view(&done).await
    }
}

impl Operation for Reject {
    const ABOUT: About = About {
        noun: "task",
        verb: "reject",
        summary: "Say no to a task: it is closed as rejected",
        method: Method::Post,
        path: "/v1/tasks/{task}/reject",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::ENDS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let ending = Ending::Rejected { reason: self.reason };
        let done = call.say(self.task, Person::Close(ending)).await?;
        call.task_view(&done).await
    }
}

impl Operation for Move {
    const ABOUT: About = About {
        noun: "task",
        verb: "move",
        summary: "Put a task into a working stage, or back into the backlog",
        method: Method::Post,
        path: "/v1/tasks/{task}/move",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::ENDS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let says = Person::Move { to: self.column()?, start_at: self.start_at.map(|at| at.0) };
        let done = call.say(self.task, says).await?;
        call.task_view(&done).await
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

impl Operation for Close {
    const ABOUT: About = About {
        noun: "task",
        verb: "close",
        summary: "Take a task off the board",
        method: Method::Post,
        path: "/v1/tasks/{task}/close",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::ENDS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let task = self.task;
        let done = call.say(task, Person::Close(self.ending()?)).await?;
        call.task_view(&done).await
    }
}

impl Close {
    fn ending(self) -> Result<Ending, Problem> {
        let wrong = |rule: &str| {
            Problem::invalid(vec![Violation { field: "by".into(), rule: rule.into() }])
        };
        let reason = self.reason;
        match (self.ending.unwrap_or_default(), self.by) {
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

impl Operation for Archive {
    const ABOUT: About = About {
        noun: "task",
        verb: "archive",
        summary: "Put a task that ended away",
        method: Method::Post,
        path: "/v1/tasks/{task}/archive",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let done = call.say(self.task, Person::Archive).await?;
        call.task_view(&done).await
    }
}

impl Operation for Depend {
    const ABOUT: About = About {
        noun: "task",
        verb: "depend",
        summary: "Let a task wait for another",
        method: Method::Put,
        path: "/v1/tasks/{task}/dependencies/{on}",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let done = call.say(self.task, Person::Depend { on: self.on, wait: true }).await?;
        call.task_view(&done).await
    }
}

impl Operation for Undepend {
    const ABOUT: About = About {
        noun: "task",
        verb: "undepend",
        summary: "Let a task no longer wait for another",
        method: Method::Delete,
        path: "/v1/tasks/{task}/dependencies/{on}",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::ENDS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let done = call.say(self.task, Person::Depend { on: self.on, wait: false }).await?;
        call.task_view(&done).await
    }
}
