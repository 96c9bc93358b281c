//! Changing what a task is. What is so already is no change.

use crate::command::{Clear, Patch};
use crate::event::{Event, Requeue};
use crate::limits::{CAPABILITIES_MAX, LABELS_MAX};
use crate::refusal::Refusal;
use crate::run::{Cap, Idle, RunState, Tally, Why};
use crate::scene::{Decision, Scene};
use crate::task::{Brief, Flow};

pub(super) fn edit(scene: &Scene<'_>, flow: &Flow, asked: &Patch) -> Result<Decision, Refusal> {
    let policy = asked.policy.map(|choice| choice.over(flow.policy));
    if let Some(policy) = &policy {
        policy.check()?;
    }
    if let Some((contract, _)) = &asked.contract {
        contract.check()?;
    }
    if asked.labels.as_ref().is_some_and(|labels| labels.len() > LABELS_MAX) {
        return Err(Refusal::too_many("labels", LABELS_MAX));
    }
    if asked.capabilities.as_ref().is_some_and(|list| list.len() > CAPABILITIES_MAX) {
        return Err(Refusal::too_many("capabilities", CAPABILITIES_MAX));
    }
    let patch = changing(flow, scene.task.and_then(|task| task.brief.as_ref()), asked);
    if patch == Patch::default() {
        return Ok(Decision::default());
    }
    if let Some((own, _)) = &patch.contract {
        may_change_contract(flow)?;
        if let Some(brief) = scene.task.and_then(|task| task.brief.as_ref()) {
            brief.with_own(own)?;
        }
    }
    let lifted = policy.is_some_and(|policy| {
        blocking_cap(flow).is_some_and(|(cap, tally)| match cap {
            // The first ending is no continuation yet, so this cap is reached one later.
            Cap::Continuations => policy.continuations_max >= tally.continuations,
            Cap::Losses => policy.losses_max > tally.losses,
            Cap::Tries => policy.tries_max > tally.tries,
            Cap::Stalls => policy.stalls_max > tally.stalls,
            // What one attempt used is not kept: whoever raises the cap at all means it.
            Cap::Turns => policy.turns_max > flow.policy.turns_max,
            Cap::ToolCalls => policy.tool_calls_max > flow.policy.tool_calls_max,
            Cap::Tokens => policy.tokens_max > flow.policy.tokens_max,
            // No policy gives money.
            Cap::Budget => false,
            // What was sent back so often is counted as sent back once more.
            Cap::Setbacks => policy.setbacks_max > flow.policy.setbacks_max,
        })
    });
    let mut events = vec![Event::Edited { patch: Box::new(patch) }];
    if lifted {
        events.push(Event::Requeued { why: Requeue::CapRaised, reason: None });
    }
    Ok(Decision::of(events))
}

/// What of an edit is not so already. Without the brief nobody can tell, and all of it counts.
fn changing(flow: &Flow, brief: Option<&Brief>, asked: &Patch) -> Patch {
    let (title, body, labels) = (&asked.title, &asked.body, &asked.labels);
    let (assignee, capabilities) = (&asked.assignee, &asked.capabilities);
    let cleared = |clear: &&Clear| match clear {
        Clear::Body => body.is_none() && brief.is_none_or(|brief| brief.body.is_some()),
        Clear::Assignee => assignee.is_none() && flow.assignee.is_some(),
    };
    let hash = flow.contract.as_ref().map(|mark| &mark.hash);
    Patch {
        title: title.clone().filter(|new| brief.is_none_or(|brief| brief.title != *new)),
        body: body.clone().filter(|new| brief.is_none_or(|brief| brief.body.as_ref() != Some(new))),
        priority: asked.priority.filter(|new| flow.priority != *new),
        labels: labels.clone().filter(|new| brief.is_none_or(|brief| brief.labels != *new)),
        assignee: assignee.clone().filter(|new| flow.assignee.as_ref() != Some(new)),
        capabilities: capabilities.clone().filter(|new| flow.capabilities != *new),
        policy: asked.policy.filter(|choice| choice.over(flow.policy) != flow.policy),
        contract: asked.contract.clone().filter(|(new, text)| {
            let other_text = hash.is_some_and(|hash| hash != text);
            other_text || brief.is_none_or(|brief| brief.own() != *new)
        }),
        clear: asked.clear.iter().filter(cleared).copied().collect(),
    }
}

/// What was submitted answers the contract of that moment: receipts for it must not prove another.
fn may_change_contract(flow: &Flow) -> Result<(), Refusal> {
    let Some(run) = &flow.run else { return Ok(()) };
    let pinned = match &run.state {
        RunState::Idle(Idle::Submitted(_)) => true,
        RunState::Idle(Idle::Blocked(block)) => block.submission.is_some(),
        RunState::Idle(Idle::Queued | Idle::Delayed { .. }) => false,
        RunState::Held(held) => held.submission.is_some(),
    };
    if pinned { Err(Refusal::WrongState { state: run.word() }) } else { Ok(()) }
}

/// The cap that the run is parked at, with what it has counted.
fn blocking_cap(flow: &Flow) -> Option<(Cap, Tally)> {
    let run = flow.run.as_ref()?;
    match &run.state {
        RunState::Idle(Idle::Blocked(block)) => match &block.why {
            Why::Limit { cap } => Some((*cap, run.tally)),
            Why::NeedsInput
            | Why::Capability { .. }
            | Why::Transient { .. }
            | Why::Dependency { .. } => None,
        },
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Submitted(_))
        | RunState::Held(_) => None,
    }
}
