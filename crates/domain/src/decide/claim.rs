//! Who may hold a run next.

use crate::command::Claim;
use crate::event::Event;
use crate::lane::{Lane, Sort};
use crate::policy::lease_is_bounded;
use crate::pool::{PoolMove, PoolName, Take, bar};
use crate::project::WorkedBy;
use crate::refusal::Refusal;
use crate::run::{BlockKind, Idle, Mark, Purpose, Run, RunState};
use crate::scene::{Decision, Lease, LeaseChange, Scene};
use crate::task::{Flow, Impediment};
use crate::time::Timestamp;

use super::attempt_id;

pub(super) fn claim(
    scene: &Scene<'_>,
    flow: &Flow,
    wish: &Claim,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let length = wish.lease.unwrap_or(flow.policy.lease);
    if !lease_is_bounded(length) {
        return Err(Refusal::Invalid { field: "lease".into(), rule: "must be 1 s to 24 h".into() });
    }
    let run = claimable(flow)?;
    let lanes = flow.lanes();
    let lane = lanes
        .iter()
        .find(|lane| lane.admits(&wish.claimant))
        .ok_or_else(|| not_for_you(flow, run, wish))?;
    let purpose = purpose(lane.sort, scene.project.worked_by(&run.stage));
    match lane.sort {
        Sort::Ready | Sort::Blocked { .. } => works_there(scene, run, wish)?,
        Sort::Probe | Sort::Submitted => {}
    }
    let takes = afford(scene, flow, lane, wish, now)?;
    let attempt = flow.attempts + 1;
    let claimed = Event::Claimed {
        attempt,
        holder: wish.claimant.principal.clone(),
        mode: wish.claimant.mode,
        purpose,
        takes: takes.clone(),
    };
    let lease = Lease {
        attempt,
        holder: wish.claimant.principal.clone(),
        nonce: wish.nonce,
        expires_at: now + length,
        length,
        heard: 0,
    };
    // The claimer is given what a person said with the hand-off.
    let unheard = run.answer.is_some_and(|answer| answer.mark == Mark::Sent);
    let hears = unheard && purpose == Purpose::Work;
    let delivered = hears.then_some(Event::AnswerMarked { mark: Mark::Delivered });
    Ok(Decision {
        events: [claimed].into_iter().chain(delivered).collect(),
        lease: Some(LeaseChange::Grant(lease)),
        pools: takes.into_iter().map(PoolMove::Take).collect(),
        reactions: vec![],
    })
}

fn purpose(sort: Sort, worked_by: WorkedBy) -> Purpose {
    match (sort, worked_by) {
        (Sort::Ready | Sort::Blocked { .. }, WorkedBy::Agent | WorkedBy::Person) => Purpose::Work,
        (Sort::Ready | Sort::Blocked { .. }, WorkedBy::Train) => Purpose::Merge,
        (Sort::Ready | Sort::Blocked { .. }, WorkedBy::Baton) | (Sort::Submitted, _) => {
            Purpose::Verify
        }
        (Sort::Probe, _) => Purpose::Probe,
    }
}

/// The run, if it is one that anybody may claim.
fn claimable(flow: &Flow) -> Result<&Run, Refusal> {
    if flow.ending().is_some() {
        return Err(Refusal::Ended);
    }
    match flow.impediment() {
        None => {}
        Some(Impediment::Draft) => return Err(Refusal::Draft),
        Some(Impediment::Approval) => return Err(Refusal::ApprovalPending),
        Some(Impediment::Held(hold)) => return Err(Refusal::OnHold { hold }),
        Some(Impediment::Dependency(on)) => return Err(Refusal::DependencyOpen { on }),
    }
    let run = flow.run.as_ref().ok_or(Refusal::NoRun)?;
    match &run.state {
        RunState::Held(held) => Err(Refusal::Held { attempt: attempt_id(flow, held) }),
        RunState::Idle(Idle::Delayed { due_at, .. }) => Err(Refusal::NotDue { due_at: *due_at }),
        RunState::Idle(Idle::Queued | Idle::Blocked(_) | Idle::Submitted(_)) => Ok(run),
    }
}

/// A stage that a person works is not for agents, one that Baton works is for its workers.
fn works_there(scene: &Scene<'_>, run: &Run, wish: &Claim) -> Result<(), Refusal> {
    let claimant = &wish.claimant;
    if scene.project.lets_work(claimant, &run.stage) {
        return Ok(());
    }
    Err(Refusal::NotForYou {
        why: match scene.project.worked_by(&run.stage) {
            WorkedBy::Person => "a person works this stage",
            WorkedBy::Baton => "Baton itself works this stage",
            WorkedBy::Train => "the home of the project works this stage",
            WorkedBy::Agent => "an agent works this stage",
        },
    })
}

fn not_for_you(flow: &Flow, run: &Run, wish: &Claim) -> Refusal {
    let claimant = &wish.claimant;
    if flow.assignee.as_ref().is_some_and(|only| *only != claimant.principal) {
        return Refusal::NotForYou { why: "it is assigned to somebody else" };
    }
    if !claimant.person && !flow.capabilities.is_subset(&claimant.capabilities) {
        return Refusal::NotForYou { why: "it needs a capability that the claimer does not have" };
    }
    match &run.state {
        RunState::Idle(Idle::Blocked(block))
            if block.sticky || block.why.kind() == BlockKind::Limit =>
        {
            Refusal::PersonNeeded
        }
        RunState::Idle(Idle::Blocked(_)) => {
            Refusal::NotForYou { why: "it is blocked and not for this claimer to pick up" }
        }
        RunState::Idle(Idle::Submitted(_)) => Refusal::NotForYou { why: "it waits for a verifier" },
        RunState::Idle(Idle::Queued | Idle::Delayed { .. }) | RunState::Held(_) => {
            Refusal::NotForYou { why: "it is not what the claimer asked for" }
        }
    }
}

/// What the attempt takes from pools, if all of them admit it.
fn afford(
    scene: &Scene<'_>,
    flow: &Flow,
    lane: &Lane,
    wish: &Claim,
    now: Timestamp,
) -> Result<Vec<Take>, Refusal> {
    let mut takes = lane.takes(&wish.claimant);
    if lane.budget_micros > 0 {
        takes.push(Take { pool: PoolName::Budget(flow.id), amount: lane.budget_micros });
    }
    let own = [
        Take { pool: PoolName::Tree(flow.id), amount: 0 },
        Take { pool: PoolName::Budget(flow.id), amount: lane.budget_micros.max(1) },
    ];
    let mut asks = lane.asks(&wish.claimant).chain(own);
    match asks.find_map(|ask| bar(scene.pools, &ask, now)) {
        Some(refusal) => Err(refusal.naming(|| scene.around.holding)),
        None => Ok(takes),
    }
}
