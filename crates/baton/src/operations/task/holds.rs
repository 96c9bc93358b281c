//! The two holds: nothing is claimed and nothing goes on while one of them is on.

use baton_domain::command::Person;
use baton_domain::ids::TaskId;
use baton_domain::task::Hold as Flag;
use baton_domain::text::Reason;

use crate::call::Call;
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::record;
use crate::views::TaskView;

record! {
    /// A task to put on ice.
    pub struct Freeze {
        /// Which task.
        task: TaskId,
        /// Why.
        reason: Reason,
    }

    /// A task to take off the ice.
    pub struct Unfreeze {
        /// Which task.
        task: TaskId,
        /// Why it may go on.
        reason: Reason,
    }

    /// A task to hold until somebody has looked.
    pub struct Hold {
        /// Which task.
        task: TaskId,
        /// What to look at.
        reason: Reason,
    }

    /// A task that was looked at.
    pub struct Unhold {
        /// Which task.
        task: TaskId,
        /// What was found.
        reason: Reason,
    }
}

impl Operation for Freeze {
    const ABOUT: About = About {
        noun: "task",
        verb: "freeze",
        summary: "Put a task on ice",
        method: Method::Post,
        path: "/v1/tasks/{task}/freeze",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let says = Person::Hold { hold: Flag::Frozen, on: true, reason: self.reason };
        let done = call.say(self.task, says).await?;
        call.task_view(&done).await
    }
}

impl Operation for Unfreeze {
    const ABOUT: About = About {
        noun: "task",
        verb: "unfreeze",
        summary: "Take a task off the ice",
        method: Method::Post,
        path: "/v1/tasks/{task}/unfreeze",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let says = Person::Hold { hold: Flag::Frozen, on: false, reason: self.reason };
        let done = call.say(self.task, says).await?;
        call.task_view(&done).await
    }
}

impl Operation for Hold {
    const ABOUT: About = About {
        noun: "task",
        verb: "hold",
        summary: "Hold a task until somebody has looked",
        method: Method::Post,
        path: "/v1/tasks/{task}/hold",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let says = Person::Hold { hold: Flag::Review, on: true, reason: self.reason };
        let done = call.say(self.task, says).await?;
        call.task_view(&done).await
    }
}

impl Operation for Unhold {
    const ABOUT: About = About {
        noun: "task",
        verb: "unhold",
        summary: "Let a task that was looked at go on",
        method: Method::Post,
        path: "/v1/tasks/{task}/unhold",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "badge", "stage", "title"],
    };

    type Answer = TaskView;

    async fn perform(self, call: &Call) -> Result<Answered<TaskView>, Problem> {
        let says = Person::Hold { hold: Flag::Review, on: false, reason: self.reason };
        let done = call.say(self.task, says).await?;
        call.task_view(&done).await
    }
}
