//! The two holds: nothing is claimed and nothing goes on while one of them is on.

use baton_domain::command::Person;
use baton_domain::ids::TaskId;
use baton_domain::task::Hold as Flag;
use baton_domain::text::Reason;

use super::steps::step;
use crate::operation::{Declaration, Hints};
use crate::operations::saying::{Said, Saying};
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

impl Saying for Freeze {
    const DECLARED: Declaration =
        step("freeze", "/v1/tasks/{task}/freeze", Hints::SETS, "Put a task on ice");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(hold(self.task, Flag::Frozen, true, self.reason))
    }
}

impl Saying for Unfreeze {
    const DECLARED: Declaration =
        step("unfreeze", "/v1/tasks/{task}/unfreeze", Hints::SETS, "Take a task off the ice");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(hold(self.task, Flag::Frozen, false, self.reason))
    }
}

impl Saying for Hold {
    const DECLARED: Declaration =
        step("hold", "/v1/tasks/{task}/hold", Hints::SETS, "Hold a task until somebody has looked");

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(hold(self.task, Flag::Review, true, self.reason))
    }
}

impl Saying for Unhold {
    const DECLARED: Declaration = step(
        "unhold",
        "/v1/tasks/{task}/unhold",
        Hints::SETS,
        "Let a task that was looked at go on",
    );

    type Shown = TaskView;

    fn said(self) -> Result<Said, Problem> {
        Ok(hold(self.task, Flag::Review, false, self.reason))
    }
}

fn hold(task: TaskId, hold: Flag, on: bool, reason: Reason) -> Said {
    Said::OfTask(task, Person::Hold { hold, on, reason })
}
