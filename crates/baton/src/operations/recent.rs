//! What happened to a task lately, as far back as one look goes.

use baton_domain::event::Event;
use baton_domain::ids::TaskId;
use baton_domain::task::Flow;
use baton_store::Entry;
use baton_store::read::{Happened, PAGE_MAX};

use crate::call::Call;
use crate::problem::Problem;

/// The last entries of a task, oldest first, at most a page of them.
pub struct Recent(Vec<Entry>);

impl Recent {
    /// Looks back from how the task stands.
    pub async fn of(call: &Call, flow: &Flow) -> Result<Self, Problem> {
        let from = flow.version.saturating_sub(PAGE_MAX as u64 - 1);
        let tenant = &call.caller().tenant;
        let list = call.engine().entries_of(tenant, flow.id, from, PAGE_MAX).await?;
        Ok(Self(list.rows))
    }

    /// Only what one order did.
    pub async fn at(call: &Call, task: TaskId, version: u64) -> Result<Self, Problem> {
        let tenant = &call.caller().tenant;
        let list = call.engine().entries_of(tenant, task, version, 1).await?;
        Ok(Self(list.rows))
    }

    /// What happened, oldest first, each with its entry. What was erased happened silently.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = (&Entry, &Event)> {
        self.0.iter().flat_map(|entry| {
            let events = match &entry.happened {
                Happened::ToTask(events) => &events[..],
                Happened::ToRecord(_) | Happened::Unknown(_) | Happened::Erased => &[],
            };
            events.iter().map(move |event| (entry, event))
        })
    }

    /// The last of these.
    pub fn last<'a, T>(&'a self, pick: impl Fn(&'a Entry, &'a Event) -> Option<T>) -> Option<T> {
        self.events().rev().find_map(|(entry, event)| pick(entry, event))
    }
}
