//! Events: what happened, in the order in which it was committed.

use baton_domain::scope::Scope;
use baton_store::Cursor;

use crate::call::Call;
use crate::operation::{Answered, Declaration, Level, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, Position, record};
use crate::views::EventView;

/// What a key must allow for its holder to see what happened to keys.
const KEYS: Scope = Scope::of("key", Level::Read);

record! {
    /// Which events.
    pub struct List {
        /// After this place: an `as_of` or a `cursor` of an earlier answer. Without it, from the oldest that is kept.
        after: Option<Position>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of what happened.
    pub struct Events {
        /// In the order in which it was committed, without gaps.
        items: Vec<EventView>,
        /// Where to go on: give it as `after`. Absent at the end, where `as_of` is the place to wait at.
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
        let after = self.after.map_or_else(Cursor::start, |after| after.0);
        let count_max = PageSize::or_usual(self.limit);
        let page = call.engine().entries(&call.caller().tenant, after, count_max).await?;
        let incarnation = call.engine().incarnation();
        let with_keys = call.caller().may(&KEYS);
        let view = |entry| EventView::of(entry, incarnation, with_keys);
        let items = page.rows.iter().map(view).collect();
        let as_of = call.cursor(page.as_of);
        let next = page.more.then_some(Position(as_of));
        Ok(Answered::read(Events { items, next }, as_of))
    }
}
