//! How a task comes to be. Creating is not executing: without `start_in` it waits in the backlog.

use crate::command::NewTask;
use crate::event::{Event, Opened};
use crate::ids::{StageName, TaskId};
use crate::limits::{CAPABILITIES_MAX, CHILDREN_MAX, DEPTH_MAX, LABELS_MAX, START_AHEAD_MAX};
use crate::reaction::{Cause, Reaction};
use crate::refusal::Refusal;
use crate::scene::{Decision, Scene};
use crate::task::{Flow, Kind};
use crate::time::Timestamp;

use super::graph;

pub(super) fn create(
    scene: &Scene<'_>,
    task: &NewTask,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    check(task)?;
    check_start(task.start_at, now)?;
    if scene.task.is_some() {
        return Err(Refusal::WrongState { state: "made already" });
    }
    if task.project != scene.project.id {
        return Err(Refusal::NotFound);
    }
    let id = TaskId(scene.around.next_id);
    let ancestors = ancestors(scene, task)?;
    let mut met = vec![];
    for on in &task.depends_on {
        if graph::check_edge(scene.around, &task.project, (id, &ancestors), *on)? {
            met.push(*on);
        }
    }
    let met_all = met.len() == task.depends_on.len();
    let created = Event::Created { id, ancestors, met, task: Box::new(task.clone()) };
    let mut events = vec![created];
    let start_in = task.start_in.as_ref().or_else(|| promoted(scene, task, met_all));
    if let Some(stage) = start_in {
        if scene.project.stage(stage).is_none() {
            return Err(Refusal::NoStage { stage: stage.clone() });
        }
        let opened = Opened {
            number: 1,
            stage: stage.clone(),
            previous: None,
            depth: 0,
            due_at: task.start_at.filter(|due_at| *due_at > now),
            worked_by: scene.project.worked_by(stage),
        };
        let first = scene.project.first().is_some_and(|spec| spec.name == *stage);
        let run = (task.kind != Kind::Epic).then_some(opened);
        events.push(Event::Moved { to: Some(stage.clone()), run, doubted: !first });
    }
    Ok(Decision { events, reactions: tell_parent(scene, task, id), ..Decision::default() })
}

/// Where a task begins by itself that only waited for what is done already.
fn promoted<'a>(scene: &Scene<'a>, task: &NewTask, met_all: bool) -> Option<&'a StageName> {
    let waited = scene.project.promote && met_all && !task.depends_on.is_empty();
    let begins = waited && !task.draft && task.kind != Kind::Epic;
    scene.project.first().filter(|_| begins).map(|spec| &spec.name)
}

/// A parent that asked a person what is to become of it need not ask any more.
fn tell_parent(scene: &Scene<'_>, task: &NewTask, id: TaskId) -> Vec<Reaction> {
    let parent = task.parent.and_then(|parent| scene.around.named.get(&parent));
    let asks = parent.filter(|flow| flow.undone > 0);
    let tell = |flow: &Flow| Reaction { to: flow.id, from: id, cause: Cause::ChildAdded };
    asks.map(tell).into_iter().collect()
}

/// A start so far ahead is a mistake: nobody would find the task again.
pub(super) fn check_start(start_at: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    if start_at.is_some_and(|start_at| start_at > now + START_AHEAD_MAX) {
        let rule = "must be at most a year ahead";
        return Err(Refusal::Invalid { field: "start_at".into(), rule: rule.into() });
    }
    Ok(())
}

/// Whatever can be told without looking at anything else.
fn check(task: &NewTask) -> Result<(), Refusal> {
    task.policy.check()?;
    graph::check_count(&task.depends_on)?;
    if let Some((contract, _)) = &task.contract {
        contract.check()?;
    }
    if task.labels.len() > LABELS_MAX {
        return Err(Refusal::too_many("labels", LABELS_MAX));
    }
    if task.capabilities.len() > CAPABILITIES_MAX {
        return Err(Refusal::too_many("capabilities", CAPABILITIES_MAX));
    }
    if task.draft && task.start_in.is_some() {
        let rule = "must be absent for a draft; publish and move it instead";
        return Err(Refusal::Invalid { field: "stage".into(), rule: rule.into() });
    }
    Ok(())
}

fn ancestors(scene: &Scene<'_>, task: &NewTask) -> Result<Vec<TaskId>, Refusal> {
    let Some(parent) = task.parent else { return Ok(vec![]) };
    let flow = scene.around.named.get(&parent).ok_or(Refusal::NotFound)?;
    let refuse = |rule: &str| Refusal::Invalid { field: "parent".into(), rule: rule.into() };
    if flow.project != task.project {
        return Err(refuse("must be a task of the same project"));
    }
    if flow.ending().is_some() {
        return Err(refuse("must not have ended"));
    }
    if scene.around.siblings >= CHILDREN_MAX {
        return Err(refuse("has as many children as it may have"));
    }
    if flow.ancestors.len() >= DEPTH_MAX {
        return Err(refuse("is as deep as it may be"));
    }
    Ok(flow.ancestors.iter().copied().chain([parent]).collect())
}
