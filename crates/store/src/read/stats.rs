//! How many tasks there are, and in which state.

use std::collections::BTreeMap;

use baton_domain::ids::ProjectId;
use baton_domain::task::Flow;
use baton_domain::time::Timestamp;
use baton_domain::view::{Badge, Need};

use super::{Column, RunWord};

/// The most tasks that are counted, live and ended each: beyond it a figure is a lower bound.
pub(crate) const COUNTED_MAX: usize = 50_000;

/// How many tasks there are, and in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Live tasks by project and column.
    pub columns: BTreeMap<(ProjectId, Column), u64>,
    /// Live tasks by badge.
    pub badges: BTreeMap<Badge, u64>,
    /// Live runs by state.
    pub runs: BTreeMap<RunWord, u64>,
    /// What waits for a person, by cause; a task may have several.
    pub needs: BTreeMap<Need, u64>,
    /// Tasks that wait for a person.
    pub inbox: u64,
    /// Tasks that ended.
    pub ended: u64,
    /// Whether there are more than were counted.
    pub more: bool,
}

impl Stats {
    /// Counts one live task.
    pub(crate) fn add(&mut self, flow: &Flow, now: Timestamp) {
        let column = (flow.project.clone(), Column::of(&flow.stage));
        *self.columns.entry(column).or_default() += 1;
        *self.badges.entry(flow.badge(now)).or_default() += 1;
        if let Some(run) = &flow.run {
            *self.runs.entry(RunWord::of(run)).or_default() += 1;
        }
        let needs = flow.needs(now);
        self.inbox += u64::from(!needs.is_empty());
        for need in needs {
            *self.needs.entry(need).or_default() += 1;
        }
    }
}
