//! Edges between tasks: bounded, inside one project, never in a circle.

use std::collections::BTreeSet;

use crate::ids::{ProjectId, TaskId};
use crate::limits::{DEPENDANTS_MAX, DEPENDENCIES_MAX, UPSTREAM_MAX};
use crate::refusal::Refusal;
use crate::run::{Block, Idle, RunState, Why};
use crate::scene::Around;
use crate::task::Flow;

/// Checks a dependency of `task` on `on`; tells whether it is met already.
pub(super) fn check_edge(
    around: &Around,
    project: &ProjectId,
    (task, ancestors): (TaskId, &[TaskId]),
    on: TaskId,
) -> Result<bool, Refusal> {
    // A parent ends with its children, so a child that waited for it would wait for itself.
    let waits_for_parent = |id: &TaskId| *id == on || around.upstream.contains(id);
    if on == task || ancestors.iter().any(waits_for_parent) {
        return Err(Refusal::Cycle { on });
    }
    let target = around.named.get(&on).ok_or(Refusal::NotFound)?;
    if target.project != *project {
        let rule = "must be a task of the same project";
        return Err(Refusal::Invalid { field: "depends_on".into(), rule: rule.into() });
    }
    if around.upstream.contains(&task) {
        return Err(Refusal::Cycle { on });
    }
    if around.upstream.len() > UPSTREAM_MAX {
        return Err(Refusal::too_many("depends_on, with all it waits for in turn,", UPSTREAM_MAX));
    }
    if around.dependants_of_named >= DEPENDANTS_MAX {
        return Err(Refusal::too_many("tasks that wait for this one", DEPENDANTS_MAX));
    }
    match target.ending() {
        None => Ok(false),
        Some(ending) if ending.satisfies() => Ok(true),
        Some(_) => Err(Refusal::Invalid {
            field: "depends_on".into(),
            rule: format!("{on} ended otherwise than done and can never be met"),
        }),
    }
}

/// Whether one more dependency may be declared.
pub(super) fn check_count(declared: &BTreeSet<TaskId>) -> Result<(), Refusal> {
    if declared.len() > DEPENDENCIES_MAX {
        return Err(Refusal::too_many("depends_on", DEPENDENCIES_MAX));
    }
    Ok(())
}

/// The block of a run that is parked until this task is done.
pub(super) fn parked_on(flow: &Flow, on: TaskId) -> Option<&Block> {
    let RunState::Idle(Idle::Blocked(block)) = &flow.run.as_ref()?.state else { return None };
    (block.why == Why::Dependency { on }).then_some(block)
}
