//! How often somebody may ask: so many requests per second, by key and by address, and far fewer
//! that fail to show a good key. Tables are bounded, whoever comes.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use baton_domain::key::KeyId;
use baton_domain::time::{Millis, Timestamp};

use crate::problem::Problem;
use crate::shape::Span;

/// What may come at once after a pause: as much as in this many seconds.
const BURST_SECONDS: i64 = 10;
/// Callers that one table knows. Whoever is not in it has asked for nothing lately, so the one that
/// is nearest to that makes room.
const KNOWN_MAX: usize = 4_096;
/// The table counts in these, so that a thousand requests per second differ.
const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_MILLI: i64 = 1_000;

/// Requests per second; zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of one key.
    pub key: u32,
    /// Of one address beyond this machine.
    pub address: u32,
    /// Of one address beyond this machine, with no good key.
    pub failure: u32,
}

impl Rates {
    /// What `serve` allows unless it is told otherwise: more than an honest fleet needs, and little
    /// enough that one caller in a loop leaves room for the others.
    pub const USUAL: Self = Self { key: 1_000, address: 1_000, failure: 1 };
}

/// Who has asked how often.
#[derive(Debug)]
pub struct Gauge {
    rates: Rates,
    keys: Table<KeyId>,
    addresses: Table<IpAddr>,
    failures: Table<IpAddr>,
}

impl Gauge {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        let (keys, addresses, failures) = (Table::new(), Table::new(), Table::new());
        Self { rates, keys, addresses, failures }
    }

    /// Counts a request of an address.
    pub fn address(&self, from: Option<IpAddr>, now: Timestamp) -> Result<(), Problem> {
        let Some(from) = from.and_then(counted) else { return Ok(()) };
        let taken = self.addresses.take(&from, self.rates.address, now);
        taken.map_err(|wait| {
            let detail = "this address asks too often: the requests of all its callers count";
            too_often(detail, wait)
        })
    }

    /// Counts a request of a key.
    pub fn key(&self, key: &KeyId, now: Timestamp) -> Result<(), Problem> {
        let taken = self.keys.take(key, self.rates.key, now);
        taken.map_err(|wait| {
            let rate = self.rates.key;
            too_often(&format!("a key asks at most {rate} times per second"), wait)
        })
    }

    /// Counts a request that showed no good key. The refusal is the same either way.
    pub fn failed(&self, from: Option<IpAddr>, now: Timestamp) {
        if let Some(from) = from.and_then(counted) {
            let _full = self.failures.take(&from, self.rates.failure, now);
        }
    }

    /// Whether an address has failed too often to have a key looked up for it.
    pub fn may_try(&self, from: Option<IpAddr>, now: Timestamp) -> Result<(), Problem> {
        let Some(from) = from.and_then(counted) else { return Ok(()) };
        let left = self.failures.left(&from, self.rates.failure, now);
        left.map_err(|wait| {
            too_often("this address has shown too many keys that are not good", wait)
        })
    }
}

fn too_often(detail: &str, wait: Millis) -> Problem {
    Problem::new("rate_limited", detail).with("retry_after", Span(wait).to_string())
}

/// Under which address a caller is counted: none on this machine, whose callers are bounded by
/// their keys alone; the network of one site for the long addresses, of which a site has plenty.
fn counted(from: IpAddr) -> Option<IpAddr> {
    let from = from.to_canonical();
    if from.is_loopback() {
        return None;
    }
    Some(match from {
        IpAddr::V4(_) => from,
        IpAddr::V6(long) => {
            let [a, b, c, d, ..] = long.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    })
}

/// For each of those who asked lately, the moment at which they will have paid for it, at one
/// interval per request. Who is not in it owes nothing.
#[derive(Debug)]
struct Table<K>(Mutex<HashMap<K, i64>>);

impl<K: Clone + Eq + Hash> Table<K> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Takes one, or says how long to wait for it.
    fn take(&self, who: &K, rate: u32, now: Timestamp) -> Result<(), Millis> {
        if rate == 0 {
            return Ok(());
        }
        let now = micros(now);
        // Whoever panicked while it held the lock left the table whole: every change is one step.
        let mut paid_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = paid_at.get(who).copied().unwrap_or(now).max(now);
        may(owed, rate, now)?;
        if paid_at.len() >= KNOWN_MAX && !paid_at.contains_key(who) {
            paid_at.retain(|_, owed| *owed > now);
        }
        if paid_at.len() >= KNOWN_MAX && !paid_at.contains_key(who) {
            let next = paid_at.iter().min_by_key(|(_, owed)| **owed).map(|(who, _)| who.clone());
            next.map(|next| paid_at.remove(&next));
        }
        paid_at.insert(who.clone(), owed + interval(rate));
        Ok(())
    }

    /// Whether one could be taken.
    fn left(&self, who: &K, rate: u32, now: Timestamp) -> Result<(), Millis> {
        if rate == 0 {
            return Ok(());
        }
        let now = micros(now);
        let paid_at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        may(paid_at.get(who).copied().unwrap_or(now), rate, now)
    }
}

fn micros(at: Timestamp) -> i64 {
    at.0.saturating_mul(MICROS_PER_MILLI)
}

fn interval(rate: u32) -> i64 {
    (MICROS_PER_SECOND / i64::from(rate)).max(1)
}

fn may(owed: i64, rate: u32, now: i64) -> Result<(), Millis> {
    let over = owed + interval(rate) - now - BURST_SECONDS * MICROS_PER_SECOND;
    if over <= 0 {
        return Ok(());
    }
    let over = u64::try_from(over).unwrap_or(0);
    Err(Millis(over.div_ceil(MICROS_PER_MILLI.unsigned_abs())))
}

#[cfg(test)]
mod tests;
