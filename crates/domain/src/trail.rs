//! The trail of a run: where in the entries of its task the words are, and how its attempts ended.
//! Entries may be many; whoever goes on from here finds by these what it needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::Report;
use crate::limits::TRAIL_MAX;
use crate::run::{Outcome, Progress};

/// What a run leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trail {
    /// Entries in which somebody asked, answered or unblocked.
    #[serde(skip_serializing_if = "Keys::is_empty")]
    pub talk: Keys,
    /// Entries with items, from the first one on that failed.
    #[serde(skip_serializing_if = "Keys::is_empty")]
    pub reports: Keys,
    /// The version of the entry with the last submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted: Option<u64>,
    /// The version of the entry with what was last found of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<u64>,
    /// How often attempts ended so; nothing is forgiven here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ended: BTreeMap<Ended, u32>,
}

/// Versions of the last entries of a sort, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keys {
    pub last: Vec<u64>,
    /// How many there were, those included that are not among the last.
    pub count: u32,
}

/// How an attempt ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// See [`Outcome::Completed`].
    Completed,
    /// See [`Outcome::Failed`].
    Failed,
    /// See [`Outcome::Blocked`].
    Blocked,
    /// See [`Outcome::Released`].
    Released,
    /// See [`Outcome::TimedOut`].
    TimedOut,
    /// See [`Outcome::Lost`].
    Lost,
    /// See [`Outcome::Cancelled`].
    Cancelled,
    /// See [`Outcome::EndedWithoutResult`].
    EndedWithoutResult,
}

impl Outcome {
    /// The word for it.
    #[must_use]
    pub fn ended(&self) -> Ended {
        match self {
            Self::Completed { .. } => Ended::Completed,
            Self::Failed { .. } => Ended::Failed,
            Self::Blocked { .. } => Ended::Blocked,
            Self::Released { .. } => Ended::Released,
            Self::TimedOut { .. } => Ended::TimedOut,
            Self::Lost => Ended::Lost,
            Self::Cancelled => Ended::Cancelled,
            Self::EndedWithoutResult => Ended::EndedWithoutResult,
        }
    }
}

impl Keys {
    /// Whether there never was any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn add(&mut self, version: u64) {
        if self.last.last() == Some(&version) {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.last.push(version);
        let dropped = self.last.len().saturating_sub(TRAIL_MAX);
        self.last.drain(..dropped);
    }
}

impl Trail {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes a report that can tell of an item which is still open.
    pub(crate) fn report(&mut self, before: Progress, report: &Report, version: u64) {
        let closes = before.failed > 0 && !report.done.is_empty();
        if closes || !report.failed.is_empty() {
            self.reports.add(version);
        }
    }

    pub(crate) fn end(&mut self, outcome: &Outcome) {
        let count = self.ended.entry(outcome.ended()).or_default();
        *count = count.saturating_add(1);
    }
}
