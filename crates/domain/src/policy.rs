//! Numbers that a task may choose, and the arithmetic of trying again.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::limits::{BUDGET_MICROS_MAX, CALLS_MAX, LEASE_MAX, LEASE_MIN, SPAN_MAX};
use crate::refusal::Refusal;
use crate::time::Millis;

/// How a task is tried; what is not chosen is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Failures by the agent's own fault before the run fails.
    pub attempts_max: u8,
    /// Endings without a result before a person must look.
    pub continuations_max: u8,
    /// Losses of infrastructure before a person must look.
    pub losses_max: u8,
    /// Attempts of any ending before a person must look: nothing loops for ever.
    pub tries_max: u16,
    /// Endings without a result in a row, with the work as it was, before a person must look.
    pub stalls_max: u8,
    /// How often in a row Baton or the train may send it back from one stage before a person must look.
    pub setbacks_max: u8,
    /// Turns that one attempt may take.
    pub turns_max: u32,
    /// Tools that one attempt may call.
    pub tool_calls_max: u32,
    /// Tokens that one attempt may read and write, cached ones aside.
    pub tokens_max: u64,
    /// The first pause after a failure; it doubles with each further one.
    pub backoff: Millis,
    pub backoff_max: Millis,
    /// How long a lease lives without renewal.
    pub lease: Millis,
    pub wall: Millis,
    /// How long a question may keep an agent waiting.
    pub input: Millis,
    /// How long a run may queue before it counts as starved.
    pub starved: Millis,
    /// Millionths of a currency unit that an attempt reserves from its tree's budget.
    pub budget_micros: u64,
}

/// What somebody chooses of a policy; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuations_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tries_max: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setbacks_max: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_max: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starved: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_micros: Option<u64>,
}

impl Choice {
    /// What was chosen, over what is.
    #[must_use]
    pub fn over(self, is: Policy) -> Policy {
        Policy {
            attempts_max: self.attempts_max.unwrap_or(is.attempts_max),
            continuations_max: self.continuations_max.unwrap_or(is.continuations_max),
            losses_max: self.losses_max.unwrap_or(is.losses_max),
            tries_max: self.tries_max.unwrap_or(is.tries_max),
            stalls_max: self.stalls_max.unwrap_or(is.stalls_max),
            setbacks_max: self.setbacks_max.unwrap_or(is.setbacks_max),
            turns_max: self.turns_max.unwrap_or(is.turns_max),
            tool_calls_max: self.tool_calls_max.unwrap_or(is.tool_calls_max),
            tokens_max: self.tokens_max.unwrap_or(is.tokens_max),
            backoff: self.backoff.unwrap_or(is.backoff),
            backoff_max: self.backoff_max.unwrap_or(is.backoff_max),
            lease: self.lease.unwrap_or(is.lease),
            wall: self.wall.unwrap_or(is.wall),
            input: self.input.unwrap_or(is.input),
            starved: self.starved.unwrap_or(is.starved),
            budget_micros: self.budget_micros.unwrap_or(is.budget_micros),
        }
    }
}

/// All of it is chosen.
impl From<Policy> for Choice {
    fn from(policy: Policy) -> Self {
        Self {
            attempts_max: Some(policy.attempts_max),
            continuations_max: Some(policy.continuations_max),
            losses_max: Some(policy.losses_max),
            tries_max: Some(policy.tries_max),
            stalls_max: Some(policy.stalls_max),
            setbacks_max: Some(policy.setbacks_max),
            turns_max: Some(policy.turns_max),
            tool_calls_max: Some(policy.tool_calls_max),
            tokens_max: Some(policy.tokens_max),
            backoff: Some(policy.backoff),
            backoff_max: Some(policy.backoff_max),
            lease: Some(policy.lease),
            wall: Some(policy.wall),
            input: Some(policy.input),
            starved: Some(policy.starved),
            budget_micros: Some(policy.budget_micros),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            continuations_max: 8,
            losses_max: 10,
            tries_max: 50,
            stalls_max: 3,
            setbacks_max: 3,
            turns_max: 200,
            tool_calls_max: 2_000,
            tokens_max: 20_000_000,
            backoff: Millis::seconds(10),
            backoff_max: Millis::minutes(10),
            lease: Millis::minutes(5),
            wall: Millis::hours(4),
            input: Millis::minutes(10),
            starved: Millis::hours(1),
            budget_micros: 0,
        }
    }
}

const COUNTED: &str = "must be 1 to 1000000000";

impl Policy {
    /// Whether every number is within its bounds.
    pub fn check(&self) -> Result<(), Refusal> {
        let span = Millis::seconds(1)..=SPAN_MAX;
        let counted = 1..=CALLS_MAX;
        let affordable = self.budget_micros <= BUDGET_MICROS_MAX;
        let rules = [
            ("policy.attempts_max", (1..=10).contains(&self.attempts_max), "must be 1 to 10"),
            ("policy.continuations_max", self.continuations_max <= 50, "must be at most 50"),
            ("policy.losses_max", (1..=100).contains(&self.losses_max), "must be 1 to 100"),
            ("policy.tries_max", (1..=500).contains(&self.tries_max), "must be 1 to 500"),
            ("policy.stalls_max", (1..=50).contains(&self.stalls_max), "must be 1 to 50"),
            ("policy.setbacks_max", (1..=10).contains(&self.setbacks_max), "must be 1 to 10"),
            ("policy.turns_max", counted.contains(&self.turns_max.into()), COUNTED),
            ("policy.tool_calls_max", counted.contains(&self.tool_calls_max.into()), COUNTED),
            ("policy.tokens_max", counted.contains(&self.tokens_max), COUNTED),
            ("policy.backoff", self.backoff <= Millis::hours(24), "must be at most a day"),
            ("policy.backoff_max", self.backoff_max <= Millis::hours(24), "must be at most a day"),
            ("policy.backoff_max", self.backoff_max >= self.backoff, "must be at least `backoff`"),
            ("policy.lease", lease_is_bounded(self.lease), "must be 1 s to 24 h"),
            ("policy.wall", span.contains(&self.wall), "must be 1 s to 30 days"),
            ("policy.input", span.contains(&self.input), "must be 1 s to 30 days"),
            ("policy.starved", span.contains(&self.starved), "must be 1 s to 30 days"),
            ("policy.budget_micros", affordable, "must be at most a billion currency units"),
        ];
        match rules.iter().find(|(_, kept, _)| !kept) {
            None => Ok(()),
            Some((field, _, rule)) => {
                Err(Refusal::Invalid { field: (*field).into(), rule: (*rule).into() })
            }
        }
    }

    /// The pause before the next attempt after the `failures`-th failure: doubling, with up to a
    /// quarter of jitter taken from a hash, so that the same history always waits the same.
    #[must_use]
    pub fn pause(&self, task: TaskId, attempt: u32, failures: u8) -> Millis {
        let doublings = u32::from(failures.saturating_sub(1)).min(20);
        let plain = self.backoff.0.saturating_mul(1 << doublings).min(self.backoff_max.0);
        let spread = plain / 4;
        if spread == 0 {
            return Millis(plain);
        }
        Millis(plain - spread + mix(task.0 ^ (u64::from(attempt) << 40)) % (spread + 1))
    }
}

/// Whether a lease of this length may be granted.
#[must_use]
pub fn lease_is_bounded(lease: Millis) -> bool {
    (LEASE_MIN..=LEASE_MAX).contains(&lease)
}

/// Spreads the bits of a number; chance is not needed where a hash will do.
fn mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
