//! How often somebody may force something: a force is for people who look, not for loops.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use baton_domain::ids::{PrincipalId, TaskId, TenantId};
use baton_domain::time::{Millis, Timestamp};

/// Forces by one caller on one task in a minute: one, a correction, and one more.
pub const PER_MINUTE: usize = 3;
/// Forces by one caller on one task in an hour.
pub const PER_HOUR: usize = 30;
/// Pairs of caller and task that are watched for one tenant.
const TENANT_MAX: usize = 1_024;
/// Pairs that are watched in all: about four megabytes when every one of them is at its bound.
const WATCHED_MAX: usize = 16_384;

const MINUTE: Millis = Millis::minutes(1);
const HOUR: Millis = Millis::hours(1);

/// It was done too often. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this was forced too often; try again in {} s", .retry_after.0.div_ceil(1_000))]
pub struct RateLimited {
    /// How long to wait.
    pub retry_after: Millis,
}

impl RateLimited {
    /// The stable word for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "rate_limited"
    }
}

type Forces = HashMap<(PrincipalId, TaskId), VecDeque<Timestamp>>;

/// Counts forces of this server. What does not fit is refused, so that nobody makes it forget.
#[derive(Debug, Default)]
pub struct ForceGuard {
    forces: Mutex<HashMap<TenantId, Forces>>,
}

impl ForceGuard {
    /// Counts a force, or says when the next one may be. A refused one does not count.
    pub fn admit(
        &self,
        tenant: &TenantId,
        actor: &PrincipalId,
        task: TaskId,
        now: Timestamp,
    ) -> Result<(), RateLimited> {
        // Nothing is left half-done under this lock, so a panic elsewhere does not spoil it.
        let mut forces = self.forces.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (actor.clone(), task);
        if !forces.get(tenant).is_some_and(|own| own.contains_key(&pair)) {
            make_room(&mut forces, tenant, now)?;
        }
        let times = forces.entry(tenant.clone()).or_default().entry(pair).or_default();
        while times.front().is_some_and(|first| now.since(*first) >= HOUR) {
            times.pop_front();
        }
        let wait = |count: usize, span: Millis| {
            let since = times.len().checked_sub(count).and_then(|at| times.get(at))?;
            let wait = (*since + span).since(now);
            (wait > Millis(0)).then_some(wait)
        };
        match wait(PER_MINUTE, MINUTE).max(wait(PER_HOUR, HOUR)) {
            Some(retry_after) => Err(RateLimited { retry_after }),
            None => {
                times.push_back(now);
                Ok(())
            }
        }
    }

    /// Takes back the last force that was counted: it was none.
    pub fn give_back(&self, tenant: &TenantId, actor: &PrincipalId, task: TaskId) {
        let mut forces = self.forces.lock().unwrap_or_else(PoisonError::into_inner);
        let own = forces.get_mut(tenant).and_then(|own| own.get_mut(&(actor.clone(), task)));
        own.and_then(VecDeque::pop_back);
    }
}

/// Forgets whoever forced nothing for an hour, if a new pair would not fit; then there is room, or
/// there is none.
fn make_room(
    forces: &mut HashMap<TenantId, Forces>,
    tenant: &TenantId,
    now: Timestamp,
) -> Result<(), RateLimited> {
    let full = |forces: &HashMap<TenantId, Forces>| {
        forces.get(tenant).is_some_and(|own| own.len() >= TENANT_MAX)
            || forces.values().map(HashMap::len).sum::<usize>() >= WATCHED_MAX
    };
    if full(forces) {
        let recent =
            |times: &VecDeque<Timestamp>| times.back().is_some_and(|last| now.since(*last) < HOUR);
        forces.values_mut().for_each(|own| own.retain(|_, times| recent(times)));
        forces.retain(|_, own| !own.is_empty());
    }
    if full(forces) { Err(RateLimited { retry_after: MINUTE }) } else { Ok(()) }
}
