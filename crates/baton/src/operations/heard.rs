//! What was said in entries of a task that are known by their versions.

use baton_domain::event::Event;
use baton_domain::ids::TaskId;
use baton_store::Entry;
use baton_store::read::{About, Happened};

use crate::call::Call;
use crate::problem::Problem;

/// Entries of one task, oldest first.
pub struct Heard(Vec<Entry>);

impl Heard {
    /// What was said at these versions. What is no longer kept was said silently.
    pub async fn at(call: &Call, task: TaskId, versions: Vec<u64>) -> Result<Self, Problem> {
        if versions.is_empty() {
            return Ok(Self(vec![]));
        }
        Ok(Self(call.engine().entries_at(&call.caller().tenant, task, versions).await?))
    }

    /// What happened, oldest first, each with its entry.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = (&Entry, &Event)> {
        self.0.iter().flat_map(|entry| {
            let events = match &entry.happened {
                Happened::ToTask(events) => &events[..],
                Happened::ToRecord(_) | Happened::Unknown(_) | Happened::Erased => &[],
            };
            events.iter().map(move |event| (entry, event))
        })
    }

    /// What happened at one of the versions.
    pub fn of(&self, version: u64) -> impl DoubleEndedIterator<Item = (&Entry, &Event)> {
        let is_meant = move |entry: &Entry| match entry.about {
            About::Task(_, own) => own == version,
            About::Records(_) => false,
        };
        self.events().filter(move |(entry, _)| is_meant(entry))
    }

    /// The last of these.
    pub fn last<'a, T>(&'a self, pick: impl Fn(&'a Entry, &'a Event) -> Option<T>) -> Option<T> {
        self.events().rev().find_map(|(entry, event)| pick(entry, event))
    }
}
