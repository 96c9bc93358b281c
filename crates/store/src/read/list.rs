//! Lists: which tasks are meant, and how a page of them is filled.

use std::collections::BTreeSet;

use baton_domain::ids::{Label, PrincipalId, ProjectId, StageName, TaskId};
use baton_domain::task::{Ending, Flow, Kind, Stage};
use baton_domain::time::Timestamp;
use baton_domain::view::{Badge, Need};

use super::TaskRow;

/// The most rows that one page holds.
pub const PAGE_MAX: usize = 500;
/// The most rows that are looked at for one page: a filter that matches little answers with a
/// short page and where to go on, instead of holding a reader for as long as there are tasks.
pub const SCAN_MAX: usize = 5_000;

/// Part of a list, in the order of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, K> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where to go on; none if this was the end. A page may be short and still have it.
    pub next: Option<K>,
    /// Everything up to this position of the tenant's entries is in it.
    pub as_of: u64,
}

/// A column of the board, or one of the two places off it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Not begun.
    Backlog,
    /// In this working stage.
    Working(StageName),
    /// Done.
    Done,
    /// Ended otherwise.
    Closed,
    /// Put away.
    Archived,
}

impl Column {
    /// The column that a task is in.
    #[must_use]
    pub fn of(stage: &Stage) -> Self {
        match stage {
            Stage::Backlog => Self::Backlog,
            Stage::Working(name) => Self::Working(name.clone()),
            Stage::Ended(Ending::Done { .. }) => Self::Done,
            Stage::Ended(
                Ending::Abandoned { .. } | Ending::Superseded { .. } | Ending::Rejected { .. },
            ) => Self::Closed,
            Stage::Archived(_) => Self::Archived,
        }
    }

    /// Whether tasks in it have ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Backlog | Self::Working(_) => false,
            Self::Done | Self::Closed | Self::Archived => true,
        }
    }
}

/// Which tasks to list; everything absent matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// In this column; one of ended tasks shows ended tasks.
    pub stage: Option<Column>,
    /// Children of this task.
    pub parent: Option<TaskId>,
    /// This task and everything below it.
    pub tree: Option<TaskId>,
    /// Waiting for this task.
    pub waits_for: Option<TaskId>,
    /// Of this sort.
    pub kind: Option<Kind>,
    /// With this badge.
    pub badge: Option<Badge>,
    /// Whose live run is in this state.
    pub run: Option<super::RunWord>,
    /// With this label.
    pub label: Option<Label>,
    /// For this principal.
    pub assignee: Option<PrincipalId>,
    /// Held by this principal.
    pub holder: Option<PrincipalId>,
    /// With these words in title or body, in any case.
    pub text: Option<String>,
    /// Waiting for a person: the inbox.
    pub inbox: bool,
    /// Waiting for a person because of this.
    pub need: Option<Need>,
    /// Ended ones too.
    pub ended: bool,
    /// The highest number first.
    pub newest_first: bool,
    /// After this one, in the order of the list.
    pub after: Option<TaskId>,
    /// At most so many; the store has a bound of its own.
    pub count_max: usize,
}

impl Filter {
    /// Which of live and ended tasks may match at all.
    pub(crate) fn looks_at(&self) -> (bool, bool) {
        match &self.stage {
            Some(column) => (!column.is_ended(), column.is_ended()),
            None => (true, self.ended && !self.inbox && self.need.is_none()),
        }
    }

    /// What stores find by themselves; the same rows count against [`SCAN_MAX`] in each.
    pub(crate) fn finds(&self, flow: &Flow) -> bool {
        let (live, ended) = self.looks_at();
        let below = |root: TaskId| flow.id == root || flow.ancestors.contains(&root);
        let goes_on =
            |after: TaskId| if self.newest_first { flow.id < after } else { flow.id > after };
        (if flow.ending().is_some() { ended } else { live })
            && self.stage.as_ref().is_none_or(|column| {
                // Why a task ended is told by its body, which stores do not search.
                column.is_ended() || Column::of(&flow.stage) == *column
            })
            && self.project.as_ref().is_none_or(|project| flow.project == *project)
            && self.parent.is_none_or(|parent| flow.parent() == Some(parent))
            && self.tree.is_none_or(below)
            && self.after.is_none_or(goes_on)
    }

    /// Whether a row that was found is wanted. Badges and needs are the domain's to tell.
    pub(crate) fn wants(&self, row: &TaskRow, now: Timestamp) -> bool {
        let (flow, brief) = (&*row.flow, &row.brief);
        let holder = row.lease.as_ref().map(|lease| &lease.holder);
        let needs = if self.inbox || self.need.is_some() { flow.needs(now) } else { vec![] };
        let run = || flow.run.as_ref().map(super::RunWord::of);
        let told = |text: &String| {
            let text = text.to_lowercase();
            let body = brief.body.as_ref().map_or("", |body| body.as_str());
            [brief.title.as_str(), body].iter().any(|it| it.to_lowercase().contains(&text))
        };
        self.stage.as_ref().is_none_or(|column| Column::of(&flow.stage) == *column)
            && self.waits_for.is_none_or(|on| flow.waits_for.contains_key(&on))
            && self.kind.is_none_or(|kind| flow.kind == kind)
            && self.badge.is_none_or(|badge| flow.badge(now) == badge)
            && self.run.is_none_or(|word| run() == Some(word))
            && self.label.as_ref().is_none_or(|label| brief.labels.contains(label))
            && self.assignee.as_ref().is_none_or(|who| flow.assignee.as_ref() == Some(who))
            && self.holder.as_ref().is_none_or(|who| holder == Some(who))
            && self.text.as_ref().is_none_or(told)
            && (!self.inbox || !needs.is_empty())
            && self.need.is_none_or(|need| needs.contains(&need))
    }
}

/// How many rows a page may hold: nobody gets none, or a reader of pages would never end.
pub(crate) fn page_size(count_max: usize) -> usize {
    count_max.clamp(1, PAGE_MAX)
}

/// The versions that are looked at: each once, and of too many the last ones.
pub(crate) fn versions(wanted: Vec<u64>) -> BTreeSet<u64> {
    let mut wanted: BTreeSet<u64> = wanted.into_iter().collect();
    while wanted.len() > PAGE_MAX {
        wanted.pop_first();
    }
    wanted
}

impl<T, K> List<T, K> {
    /// Takes what is wanted from rows in order, until the page is full or enough was looked at.
    pub(crate) fn fill<E>(
        found: impl IntoIterator<Item = Result<T, E>>,
        key: impl Fn(&T) -> K,
        wants: impl Fn(&T) -> bool,
        count_max: usize,
        as_of: u64,
    ) -> Result<Self, E> {
        let mut list = Self { rows: vec![], next: None, as_of };
        let mut last = None;
        for (looked_at, row) in found.into_iter().enumerate() {
            let row = row?;
            if list.rows.len() == page_size(count_max) || looked_at == SCAN_MAX {
                list.next = last;
                break;
            }
            last = Some(key(&row));
            if wants(&row) {
                list.rows.push(row);
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests;
