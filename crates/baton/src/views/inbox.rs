//! What waits for a person, as callers see it: since when, what happens if nobody acts, and what
//! to do.

use baton_domain::deadline::Deadline;
use baton_domain::ids::{ProjectId, TaskId};
use baton_domain::limits::SILENT_AFTER;
use baton_domain::run::{Block, Held, Idle, Phase, RunState};
use baton_domain::task::{Flow, Wait};
use baton_domain::text::Title;
use baton_domain::time::Timestamp;
use baton_domain::view::Need;
use baton_store::TaskRow;

use crate::shape::{When, record};

record! {
    /// Something that waits for a person.
    pub struct InboxItem {
        /// Which task.
        task: TaskId,
        /// What it needs.
        need: Need,
        /// The line that names the task.
        title: Title,
        /// Of which project.
        project: ProjectId,
        /// The question or the reason, in the words of whoever raised it.
        words: Option<String>,
        /// Since when it waits.
        since: Option<When>,
        /// What happens if nobody acts.
        otherwise: String,
        /// When that happens.
        otherwise_at: Option<When>,
        /// The command that answers it.
        command: String,
    }
}

/// Where what a task does not remember itself is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The words are in the entry of this version.
    Words(u64),
    /// The time is the end of this run.
    Finish(u32),
    /// The time is the end of this task.
    End(TaskId),
    /// The task remembers everything.
    Nothing,
}

impl InboxItem {
    /// One need of a task as callers see it, and where to find what is not in its row.
    #[must_use]
    pub fn of(row: &TaskRow, need: Need) -> (Self, Lookup) {
        let flow = &*row.flow;
        let (since, lookup) = since(flow, need);
        let (otherwise, otherwise_at) = otherwise(flow, need);
        let item = Self {
            task: flow.id,
            need,
            title: row.brief.title.clone(),
            project: flow.project.clone(),
            words: None,
            since: since.map(When),
            otherwise: otherwise.to_owned(),
            otherwise_at: otherwise_at.map(When),
            command: command(flow, need),
        };
        (item, lookup)
    }
}

fn held(flow: &Flow) -> Option<&Held> {
    flow.run.as_ref()?.held()
}

fn block(flow: &Flow) -> Option<&Block> {
    match &flow.run.as_ref()?.state {
        RunState::Idle(Idle::Blocked(block)) => Some(block),
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_))
        | RunState::Held(_) => None,
    }
}

fn failed(flow: &Flow) -> Option<TaskId> {
    flow.waits_for.iter().find(|(_, wait)| **wait == Wait::Failed).map(|(on, _)| *on)
}

fn since(flow: &Flow, need: Need) -> (Option<Timestamp>, Lookup) {
    let finished =
        || flow.last.as_ref().map_or(Lookup::Nothing, |last| Lookup::Finish(last.number));
    match need {
        Need::Question => match held(flow).map(|held| &held.phase) {
            Some(Phase::WaitingInput(question)) => {
                (Some(question.asked_at), Lookup::Words(question.raised))
            }
            Some(
                Phase::Leased | Phase::Working | Phase::Verifying { .. } | Phase::Stopping { .. },
            )
            | None => (None, Lookup::Nothing),
        },
        Need::Approval => (Some(flow.created_at), Lookup::Nothing),
        Need::Failure | Need::Review => (None, finished()),
        Need::Verdict => (flow.run.as_ref().map(|run| run.ready_at), Lookup::Nothing),
        Need::EndedWithoutResult | Need::Limit | Need::Recurring | Need::Input => {
            match block(flow) {
                Some(block) => (Some(block.at), Lookup::Words(block.raised)),
                None => (None, finished()),
            }
        }
        Need::Silent => (held(flow).map(|held| held.active_at + SILENT_AFTER), Lookup::Nothing),
        Need::ChildrenUndone => (None, Lookup::Nothing),
        Need::StopUnverified => (held(flow).map(|held| held.active_at), Lookup::Nothing),
        Need::Starved => {
            let run = flow.run.as_ref();
            (run.map(|run| run.ready_at + flow.policy.starved), Lookup::Nothing)
        }
        Need::DependencyFailed => (None, failed(flow).map_or(Lookup::Nothing, Lookup::End)),
    }
}

fn otherwise(flow: &Flow, need: Need) -> (&'static str, Option<Timestamp>) {
    let fires = |deadline: Deadline| {
        let mut armed = held(flow)?.armed.iter();
        armed.find(|(own, _)| *own == deadline).map(|(_, at)| at)
    };
    match need {
        Need::Question => (
            "the agent is stopped, and the run is parked until somebody answers",
            fires(Deadline::UserInput),
        ),
        Need::Silent => ("the attempt is ended at its wall clock", fires(Deadline::WallClock)),
        Need::Starved => ("it goes on waiting for a holder that may take it", None),
        Need::StopUnverified => ("its worktree stays in quarantine", None),
        Need::Approval
        | Need::Failure
        | Need::EndedWithoutResult
        | Need::Limit
        | Need::Recurring
        | Need::Input
        | Need::DependencyFailed
        | Need::ChildrenUndone
        | Need::Review
        | Need::Verdict => ("nothing: it waits for as long as nobody acts", None),
    }
}

fn command(flow: &Flow, need: Need) -> String {
    let task = flow.id;
    match need {
        Need::Question | Need::Input => format!("baton answer {task} \"…\""),
        Need::Approval => format!("baton task approve {task}"),
        Need::EndedWithoutResult if block(flow).is_some() => unblock(task),
        Need::Limit | Need::Recurring => unblock(task),
        Need::Failure | Need::EndedWithoutResult => {
            format!("baton run retry {task} --reason \"…\"")
        }
        Need::Silent => format!("baton run force-release {task} --reason \"…\""),
        Need::StopUnverified | Need::Starved => format!("baton explain {task}"),
        Need::DependencyFailed => match failed(flow) {
            Some(on) => format!("baton task undepend {task} {on}"),
            None => format!("baton explain {task}"),
        },
        Need::ChildrenUndone => format!("baton task close {task} --reason \"…\""),
        Need::Verdict => format!("baton review {task} approve \"…\""),
        Need::Review => format!("baton task unhold {task} --reason \"…\""),
    }
}

fn unblock(task: TaskId) -> String {
    format!("baton run unblock {task} --reason \"…\"")
}
