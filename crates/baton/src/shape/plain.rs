//! Shapes of plain values: texts, names, numbers, times.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use baton_domain::Refusal;
use baton_domain::ids::{
    Account, AttemptId, Capability, ChannelName, Commit, ConcurrencyKey, DeploymentId, Digest,
    KeyName, Label, LineId, NAME_BYTES_MAX, PrincipalId, ProjectId, RunId, SHORT_NAME_BYTES_MAX,
    StageName, TaskId, TenantId,
};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::scope::Scope;
use baton_domain::text::Text;
use baton_domain::time::{Millis, Timestamp};
use baton_store::Cursor;
use baton_store::read::PAGE_MAX;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Form, Money, Shape, Shaped};

/// The most that a list or a map may hold where nothing else is said; the domain has bounds of
/// its own for each.
const COUNT_MAX: usize = 500;

fn formed(bytes_max: usize, pattern: &'static str, example: &'static str) -> Shape {
    Shape::Text { bytes_max, form: Some(Form { pattern, example, longest: None, usual: None }) }
}

impl<const MAX: usize> Shaped for Text<MAX> {
    fn shape() -> Shape {
        Shape::Text { bytes_max: MAX, form: None }
    }
}

impl Shaped for String {
    fn shape() -> Shape {
        Shape::Text { bytes_max: 65_536, form: None }
    }
}

impl<T: Shaped> Shaped for Option<T> {
    const OPTIONAL: bool = true;

    fn shape() -> Shape {
        T::shape()
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Shaped> Shaped for Vec<T> {
    fn shape() -> Shape {
        Shape::List { of: Box::new(T::shape()), count_max: COUNT_MAX }
    }
}

impl<T: Shaped> Shaped for BTreeSet<T> {
    fn shape() -> Shape {
        Shape::List { of: Box::new(T::shape()), count_max: COUNT_MAX }
    }
}

impl<K: Shaped, T: Shaped> Shaped for BTreeMap<K, T> {
    fn shape() -> Shape {
        let names = Box::new(K::shape());
        Shape::Map { names, of: Box::new(T::shape()), count_max: COUNT_MAX }
    }
}

impl Shaped for bool {
    fn shape() -> Shape {
        Shape::Flag
    }
}

impl Shaped for Value {
    fn shape() -> Shape {
        Shape::Json
    }
}

macro_rules! numbers {
    ($($type:ty = $max:expr;)*) => {$(
        impl Shaped for $type {
            fn shape() -> Shape {
                Shape::Number { min: 0, max: $max, usual: None }
            }
        }
    )*};
}

numbers! {
    u8 = u64::from(u8::MAX);
    u16 = u64::from(u16::MAX);
    u32 = u64::from(u32::MAX);
    // What JavaScript can count without losing one.
    u64 = (1 << 53) - 1;
}

macro_rules! named {
    ($($type:ty = $bytes_max:expr, $example:literal;)*) => {$(
        impl Shaped for $type {
            fn shape() -> Shape {
                formed($bytes_max, "^[a-z0-9][a-z0-9._:/@-]*$", $example)
            }
        }
    )*};
}

named! {
    TenantId = NAME_BYTES_MAX, "local";
    KeyName = NAME_BYTES_MAX, "laptop";
    ChannelName = SHORT_NAME_BYTES_MAX, "phone";
    PrincipalId = NAME_BYTES_MAX, "ada";
    ProjectId = NAME_BYTES_MAX, "shop";
    StageName = SHORT_NAME_BYTES_MAX, "coding";
    Capability = SHORT_NAME_BYTES_MAX, "rust";
    ConcurrencyKey = NAME_BYTES_MAX, "database";
    Label = NAME_BYTES_MAX, "urgent";
    Account = NAME_BYTES_MAX, "provider/main";
    LineId = NAME_BYTES_MAX, "tests";
    DeploymentId = NAME_BYTES_MAX, "d-4fr0azk29lqb";
}

macro_rules! ids {
    ($($type:ty = $bytes_max:literal, $pattern:literal, $example:literal;)*) => {$(
        impl Shaped for $type {
            fn shape() -> Shape {
                formed($bytes_max, $pattern, $example)
            }
        }
    )*};
}

ids! {
    KeyId = 12, "^[0-9A-Za-z]{12}$", "4fR0aZk29LqB";
    TaskId = 14, "^T-[1-9][0-9]{0,11}$", "T-128";
    RunId = 25, "^R-[1-9][0-9]{0,11}\\.[1-9][0-9]{0,9}$", "R-128.2";
    AttemptId = 25, "^A-[1-9][0-9]{0,11}\\.[1-9][0-9]{0,9}$", "A-128.3";
    RunRef = 25, "^(R-[1-9][0-9]{0,11}\\.[1-9][0-9]{0,9}|T-[1-9][0-9]{0,11}|mine)$", "R-128.2";
    Digest = 64, "^[0-9a-f]{64}$",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    Commit = 64, "^([0-9a-f]{40}|[0-9a-f]{64})$", "9c41f0d2b7a6e58301cd4492be7f60a1538dd2e7";
    When = 40, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$", "2026-11-15T09:30:00Z";
    Span = 40, "^[0-9]+ *(ms|s|m|h|d)( *[0-9]+ *(ms|s|m|h))*$", "5m";
    Money = 20, "^[0-9]+(\\.[0-9]{1,6})?$", "12.50";
    PoolRef = 106,
        "^(scheduler|budget day|(project|holder|account|budget project|budget day) [a-z0-9._:/@-]+|(stage|key) [a-z0-9._:/@-]+ [a-z0-9._:/@-]+|(tree|budget) T-[1-9][0-9]{0,11})$",
        "stage shop coding";
    Scope = 30, "^[a-z_]{1,24}:(read|work|write|force|admin)$", "run:work";
    ScopeWord = 30, "^(read|agent|worker|all|[a-z_]{1,24}:(read|work|write|force|admin))$",
        "run:work";
    Position = 40, "^[0-9a-f]{1,16}-[0-9]{1,19}$", "5f3a-128";
}

/// Which run is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RunRef {
    /// This one.
    Run(RunId),
    /// The live one of this task.
    Live(TaskId),
    /// The one that the caller's claim token is for.
    Mine,
}

impl FromStr for RunRef {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        if text == "mine" {
            return Ok(Self::Mine);
        }
        let run = text.parse().map(Self::Run);
        run.or_else(|_| text.parse().map(Self::Live)).map_err(|_: Refusal| {
            let rule = "must be a run like R-128.2, a task like T-128 for its live run, or `mine`";
            Refusal::Invalid { field: "run".into(), rule: rule.into() }
        })
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => run.fmt(f),
            Self::Live(task) => task.fmt(f),
            Self::Mine => f.write_str("mine"),
        }
    }
}

/// A point in time, written as people and programs both read it: RFC 3339, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct When(pub Timestamp);

impl FromStr for When {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let instant: Option<jiff::Timestamp> = text.parse().ok().filter(|_| has_zone(text));
        instant.map(|instant| Self(Timestamp(instant.as_millisecond()))).ok_or_else(|| {
            let rule = "must be a time with its zone, like 2026-11-15T09:30:00Z or …+01:00";
            Refusal::Invalid { field: "time".into(), rule: rule.into() }
        })
    }
}

/// Whether a time ends in a zone that there is: `Z`, or up to a day away from it.
fn has_zone(text: &str) -> bool {
    let offset = |text: &str| {
        let (_, digits) = text.split_at_checked(text.len().checked_sub(6)?)?;
        let (hours, minutes) = digits.strip_prefix(['+', '-'])?.split_once(':')?;
        let within = |digits: &str, below: u8| {
            digits.len() == 2 && digits.parse::<u8>().is_ok_and(|number| number < below)
        };
        Some(within(hours, 24) && within(minutes, 60))
    };
    text.ends_with('Z') || offset(text).unwrap_or(false)
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            // Beyond the years that can be written; no clock shows them.
            Err(_) => f.write_str("9999-12-30T22:00:00.000Z"),
        }
    }
}

/// A length of time, like `90s`, `5m` or `1h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Millis);

impl FromStr for Span {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let refusal = || {
            let rule = "must be a length of time like 90s, 5m or 1h 30m";
            Refusal::Invalid { field: "length".into(), rule: rule.into() }
        };
        // Days are no fixed length to a calendar; here a day is 24 hours.
        let (days, rest) = match text.split_once('d') {
            Some((days, rest)) => (days.trim().parse().map_err(|_| refusal())?, rest.trim()),
            None => (0, text.trim()),
        };
        let mut millis = u64::checked_mul(days, 86_400_000).ok_or_else(refusal)?;
        if !rest.is_empty() {
            let length: SignedDuration = rest.parse().map_err(|_| refusal())?;
            let length = u64::try_from(length.as_millis()).map_err(|_| refusal())?;
            millis = millis.checked_add(length).ok_or_else(refusal)?;
        }
        Ok(Self(Millis(millis)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = i64::try_from(self.0.0).unwrap_or(i64::MAX);
        write!(f, "{:#}", SignedDuration::from_millis(length))
    }
}

/// A place in the events of a tenant; opaque to callers, dead after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position(pub Cursor);

impl FromStr for Position {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let read = || {
            let (incarnation, position) = text.split_once('-')?;
            let incarnation = u64::from_str_radix(incarnation, 16).ok()?;
            let cursor = Self(Cursor { incarnation, position: position.parse().ok()? });
            (cursor.to_string() == text).then_some(cursor)
        };
        read().ok_or_else(|| {
            let rule = "must be a cursor from an earlier answer (`as_of`)";
            Refusal::Invalid { field: "cursor".into(), rule: rule.into() }
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.0.incarnation, self.0.position)
    }
}

/// A pool as people name it; the domain reads and writes the words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PoolRef(pub PoolName);

impl FromStr for PoolRef {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        text.parse().map(Self)
    }
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a key is to allow: a scope, or the name of many of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScopeWord(String);

/// Names of many scopes.
const PRESETS: [&str; 4] = ["read", "agent", "worker", "all"];

impl FromStr for ScopeWord {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        if PRESETS.contains(&text) || text.parse::<Scope>().is_ok() {
            return Ok(Self(text.to_owned()));
        }
        let rule = "must be read, agent, worker or all, or look like run:work";
        Err(Refusal::Invalid { field: "scopes".into(), rule: rule.into() })
    }
}

impl fmt::Display for ScopeWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many rows one page of a list may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageSize(pub u16);

impl PageSize {
    /// Two screens: what a person reads at once.
    const USUAL: usize = 50;

    /// What was asked for, or the usual.
    #[must_use]
    pub fn or_usual(size: Option<Self>) -> usize {
        size.map_or(Self::USUAL, |size| usize::from(size.0))
    }
}

impl Shaped for PageSize {
    fn shape() -> Shape {
        Shape::Number { min: 1, max: PAGE_MAX as u64, usual: Some(Self::USUAL as u64) }
    }
}

macro_rules! written_as_text {
    ($($type:ty),*) => {$(
        impl TryFrom<String> for $type {
            type Error = Refusal;

            fn try_from(text: String) -> Result<Self, Refusal> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}

written_as_text!(Money, RunRef, When, Span, Position, PoolRef, ScopeWord);
