//! What an attempt costs. A report tells the whole of it, so that one told twice counts once; what
//! goes beyond the reservation is gone from the budgets at once.

use crate::event::Event;
use crate::limits::LATE_ATTEMPTS_MAX;
use crate::pool::PoolName;
use crate::run::{Block, Cap, Outcome, Phase, Purpose, Why};
use crate::scene::{Decision, Scene};
use crate::task::Flow;
use crate::text::Reason;
use crate::time::Timestamp;

use super::Grip;
use super::ending::{Sentence, conclude, reserved, settle, with_recurrence};

/// Books what the present attempt has cost, and stops it if it lives on money that nobody has.
pub(super) fn spent(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    total_micros: u64,
    now: Timestamp,
) -> Decision {
    let mut decision = book(grip, total_micros);
    if decision.is_nothing() || !is_to_stop(grip) {
        return decision;
    }
    let Some(sentence) = overdrawn(scene, grip, total_micros, now) else { return decision };
    // The end of a solo attempt must give back by what has just been booked, too.
    let mut held = grip.held.clone();
    held.spent_micros = total_micros;
    let grip = Grip { held: &held, ..*grip };
    let stop = conclude(scene, &grip, sentence, now);
    decision.events.extend(stop.events);
    decision.pools.extend(stop.pools);
    decision.reactions.extend(stop.reactions);
    decision.lease = stop.lease;
    decision
}

/// Books the difference to what was booked before; a lower or equal total says nothing new.
pub(super) fn book(grip: &Grip<'_>, total_micros: u64) -> Decision {
    let (held, flow) = (grip.held, grip.flow);
    let micros = total_micros.saturating_sub(held.spent_micros);
    if micros == 0 {
        return Decision::default();
    }
    let beyond = |pool: &PoolName| {
        let over = |spent: u64| spent.saturating_sub(reserved(held, pool));
        over(total_micros) - over(held.spent_micros)
    };
    Decision {
        events: vec![Event::Spent { attempt: held.attempt, micros }],
        pools: settle(flow, beyond).collect(),
        ..Decision::default()
    }
}

/// Books what an attempt has cost that is over; none if it is too long ago to know what was booked.
pub(super) fn late(flow: &Flow, attempt: u32, total_micros: u64) -> Option<Decision> {
    if attempt.saturating_add(LATE_ATTEMPTS_MAX) <= flow.attempts {
        return None;
    }
    let settled = flow.settled.get(&attempt).copied().unwrap_or(0);
    let micros = total_micros.saturating_sub(settled);
    if micros == 0 {
        return Some(Decision::default());
    }
    Some(Decision {
        events: vec![Event::Spent { attempt, micros }],
        pools: settle(flow, |_| micros).collect(),
        ..Decision::default()
    })
}

/// Whether it is at work: what is verified, probed or stopped costs nothing more worth stopping.
fn is_to_stop(grip: &Grip<'_>) -> bool {
    let works = matches!(grip.held.purpose, Purpose::Work | Purpose::Merge);
    let active = match grip.held.phase {
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) => true,
        Phase::Verifying { .. } | Phase::Stopping { .. } => false,
    };
    works && active
}

/// What becomes of an attempt that has used up what it reserved, if a budget has nothing left to add:
/// where only the money of the day is gone, the run waits for the next one; else it is for a person.
fn overdrawn(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    total_micros: u64,
    now: Timestamp,
) -> Option<Sentence> {
    let is_empty = |name: &PoolName| {
        let over = |spent: u64| spent.saturating_sub(reserved(grip.held, name));
        let added = over(total_micros) - over(grip.held.spent_micros);
        total_micros >= reserved(grip.held, name)
            && scene.pools.get(name).is_some_and(|pool| pool.room(now) <= added)
    };
    let empty: Vec<PoolName> = grip.flow.budgets().filter(is_empty).collect();
    let first = empty.first()?;
    if empty.iter().all(PoolName::is_of_day) {
        let reason = Reason::new("reason", format!("the money of the day is spent: `{first}`"));
        let outcome = Outcome::Released { until: Some(now.next_day()) };
        return Some(Sentence::new(outcome, reason.ok()));
    }
    let block = Block::new(Why::Limit { cap: Cap::Budget }, now);
    Some(Sentence::new(Outcome::Blocked { block, answered: false }, None))
}

/// Whether the run waits for money after such an ending, and more of it would let it go on.
pub(super) fn was_for_want(grip: &Grip<'_>, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Blocked { block, .. } => {
            block.why == (Why::Limit { cap: Cap::Budget }) && !with_recurrence(grip, block).sticky
        }
        Outcome::Released { until } => until.is_some_and(Timestamp::begins_a_day),
        Outcome::Completed { .. }
        | Outcome::Failed { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Lost
        | Outcome::Cancelled
        | Outcome::EndedWithoutResult => false,
    }
}

/// Whether every budget of a task has what an attempt at it would reserve, or else anything at all.
pub(super) fn has_money(scene: &Scene<'_>, flow: &Flow, now: Timestamp) -> bool {
    let amount = flow.policy.budget_micros.max(1);
    let has = |name: &PoolName| scene.pools.get(name).is_none_or(|pool| pool.admits(amount, now));
    flow.budgets().all(|name| has(&name))
}
