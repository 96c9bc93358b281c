//! Money as people write it: decimal, exact, in whatever currency the accounts are billed in.

use std::fmt;
use std::str::FromStr;

use baton_domain::Refusal;
use baton_domain::limits::BUDGET_MICROS_MAX;
use serde::{Deserialize, Serialize};

/// Millionths of one unit.
const MICROS: u64 = 1_000_000;
/// Digits behind the point that a millionth needs.
const DECIMALS_MAX: usize = 6;
/// Digits behind the point that are always written.
const DECIMALS_MIN: usize = 2;

/// An amount of money in millionths of a unit: never a binary fraction, so that sums are what they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Money(pub u64);

impl FromStr for Money {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let read = || {
            let (units, decimals) = text.split_once('.').unwrap_or((text, "0"));
            let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if !digits(units) || !digits(decimals) || decimals.len() > DECIMALS_MAX {
                return None;
            }
            let micros: u64 = format!("{decimals:0<DECIMALS_MAX$}").parse().ok()?;
            let units: u64 = units.parse().ok()?;
            let total = units.checked_mul(MICROS)?.checked_add(micros)?;
            (total <= BUDGET_MICROS_MAX).then_some(Self(total))
        };
        read().ok_or_else(|| {
            let rule =
                "must be an amount like 25 or 12.50, at most a billion, with at most 6 decimals";
            Refusal::Invalid { field: "money".into(), rule: rule.into() }
        })
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:0DECIMALS_MAX$}", self.0 % MICROS);
        let kept = decimals.trim_end_matches('0').len().max(DECIMALS_MIN);
        write!(f, "{}.{}", self.0 / MICROS, &decimals[..kept])
    }
}

#[cfg(test)]
mod tests;
