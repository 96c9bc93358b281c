//! Events: what happened, in the order in which it was committed.

use baton_domain::ids::TaskId;
use baton_domain::scope::Scope;
use baton_store::read::PAGE_MAX;
use baton_store::{Cursor, Entry, Error};

use super::history::PAGES_MAX;
use crate::call::Call;
use crate::operation::{Answered, Declaration, Level, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, Position, record};
use crate::views::{EventKind, EventView};

/// What a key must allow for its holder to see what happened to keys.
const KEYS: Scope = Scope::of("key", Level::Read);

record! {
    /// Which events.
    pub struct List {
        /// Only of this task.
        task: Option<TaskId>,
        /// Only where this happened.
        kind: Option<EventKind>,
        /// The last ones first.
        newest: Option<bool>,
        /// After this place, in the order of the list: an `as_of`, a `cursor` or a `next` of an earlier answer. Without it, from the oldest that is kept.
        after: Option<Position>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of what happened.
    pub struct Events {
        /// In the order in which it was committed, or the other way round; without gaps, unless only some were asked for.
        items: Vec<EventView>,
        /// Where to go on: give it as `after`. Absent at the end, where `as_of` is the place to wait at; a page may be short and have it.
        next: Option<Position>,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("event", "list"),
        "/v1/events",
        &["cursor", "at", "actor", "task", "events"],
        "List what happened",
    );

    type Answer = Events;

    async fn perform(self, call: &Call) -> Result<Answered<Events>, Problem> {
        let with_keys = call.caller().may(&KEYS);
        let mut walk = Walk::begin(call, &self).await?;
        let count_max = PageSize::or_usual(self.limit);
        let incarnation = call.engine().incarnation();
        let mut items: Vec<EventView> = vec![];
        for _ in 0..PAGES_MAX {
            // No more than may be wanted, so that the next page goes on where this one ended; of
            // what is picked from many, a whole page is looked at.
            let wanted = count_max - items.len();
            let looked_at = if self.kind.is_some() { PAGE_MAX } else { wanted };
            for entry in walk.page(call, looked_at).await? {
                if items.len() == count_max {
                    walk.stop();
                    break;
                }
                walk.place = call.cursor(entry.position);
                let view = EventView::of(&entry, incarnation, with_keys);
                let is_meant =
                    |kind: EventKind| view.events.iter().any(|happening| happening.is(kind));
                if self.kind.is_none_or(is_meant) {
                    items.push(view);
                }
            }
            if !walk.more || items.len() == count_max {
                break;
            }
        }
        let next = walk.more.then_some(Position(walk.place));
        Ok(Answered::read(Events { items, next }, call.cursor(walk.as_of)))
    }
}

/// A way through the entries of a tenant or of a task, a page at a time.
struct Walk {
    task: Option<(TaskId, u64)>,
    newest: bool,
    /// What was looked at last.
    place: Cursor,
    /// Whether there is more behind it.
    more: bool,
    /// Up to where the events are in what was found.
    as_of: u64,
}

impl Walk {
    async fn begin(call: &Call, asked: &List) -> Result<Self, Problem> {
        let newest = asked.newest.unwrap_or(false);
        if asked.task.is_none() && !newest {
            let place = asked.after.map_or_else(Cursor::start, |after| after.0);
            return Ok(Self { task: None, newest, place, more: true, as_of: 0 });
        }
        let (task, head) = match asked.task {
            Some(id) => {
                let (row, as_of) = call.told(id).await?;
                (Some((id, row.flow.version)), as_of.position)
            }
            None => (None, call.as_of().await?.position),
        };
        if let Some(after) = asked.after {
            // A place of another life, or of what is no longer kept, is told like everywhere else.
            call.engine().entries(&call.caller().tenant, after.0, 1).await?;
        }
        let first = call.cursor(if newest { head + 1 } else { 0 });
        let place = asked.after.map_or(first, |after| after.0);
        Ok(Self { task, newest, place, more: true, as_of: head })
    }

    /// There is as much as was asked for: what was not taken of the page is for the next one.
    fn stop(&mut self) {
        self.more = true;
        if self.task.is_none() && !self.newest {
            self.as_of = self.place.position;
        }
    }

    /// The next entries, in the order of the walk.
    async fn page(&mut self, call: &Call, count_max: usize) -> Result<Vec<Entry>, Problem> {
        match (self.task, self.newest) {
            (None, false) => self.forward(call, count_max).await,
            (None, true) => self.backward(call, count_max).await,
            (Some((task, last)), _) => self.of_task(call, task, last, count_max).await,
        }
    }

    async fn forward(&mut self, call: &Call, count_max: usize) -> Result<Vec<Entry>, Problem> {
        let page = call.engine().entries(&call.caller().tenant, self.place, count_max).await?;
        (self.more, self.as_of) = (page.more, page.as_of);
        Ok(page.rows)
    }

    /// Positions have no gaps, so a page that ends before a place begins its length before it.
    async fn backward(&mut self, call: &Call, count_max: usize) -> Result<Vec<Entry>, Problem> {
        let end = self.place.position;
        let from = end.saturating_sub(1 + count_max as u64);
        let tenant = &call.caller().tenant;
        let read = match call.engine().entries(tenant, call.cursor(from), count_max).await {
            // What is kept begins within the page.
            Err(Error::CursorExpired { .. }) => {
                self.more = false;
                call.engine().entries(tenant, Cursor::start(), count_max).await
            }
            read => {
                self.more = from > 0;
                read
            }
        };
        let rows = read?.rows.into_iter().filter(|entry| entry.position < end);
        Ok(rows.rev().collect())
    }

    /// The entries of a task are numbered by its versions, whose positions only grow.
    async fn of_task(
        &mut self,
        call: &Call,
        task: TaskId,
        last: u64,
        count_max: usize,
    ) -> Result<Vec<Entry>, Problem> {
        let tenant = &call.caller().tenant;
        let (mut low, mut high) = (1, last + 1);
        // Between the two is the first version that was written after the place.
        while low < high {
            let middle = low + (high - low) / 2;
            let found = call.engine().entries_of(tenant, task, middle, 1).await?.rows;
            let place = self.place.position;
            let after = if self.newest { place.saturating_sub(1) } else { place };
            match found.first() {
                Some(entry) if entry.position <= after => low = middle + 1,
                Some(_) | None => high = middle,
            }
        }
        if !self.newest {
            let list = call.engine().entries_of(tenant, task, low, count_max).await?;
            self.more = list.next.is_some();
            return Ok(list.rows);
        }
        let from = low.saturating_sub(count_max as u64).max(1);
        let list = call.engine().entries_of(tenant, task, from, count_max).await?;
        let rows = list.rows.into_iter().filter(|entry| entry.position < self.place.position);
        self.more = from > 1;
        Ok(rows.rev().collect())
    }
}
