//! Pools: counted limits over many tasks.

use baton_domain::pool::{PoolName, Pools, Shut};
use baton_domain::project::RecordCommand;
use baton_domain::text::Reason;
use baton_store::read::PAGE_MAX;
use baton_store::{Committed, Told};

use crate::call::Call;
use crate::operation::{Answered, Declaration, Hints, Method, Operation};
use crate::problem::Problem;
use crate::shape::{Money, PageSize, PoolRef, Violation, When, record};
use crate::views::PoolView;

/// The most pages of pools that are looked at: more than a tenant may have.
const PAGES_MAX: usize = 8;

record! {
    /// Which pools.
    pub struct List {
        /// After this one.
        after: Option<PoolRef>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of a list of pools.
    pub struct PoolPage {
        /// Those that somebody set, in the order of their names.
        items: Vec<PoolView>,
        /// Where to go on: give it as `after`. Absent at the end.
        next: Option<PoolRef>,
    }

    /// A limit.
    pub struct Set {
        /// What it limits: `stage P S`, `holder H`, `key P K`, `role R`, `account A`, `budget T-1`, `budget project P`, `budget day P` or `budget day`.
        pool: PoolRef,
        /// How much may be taken at once, of budgets in millionths; without it the limit is lifted.
        limit: Option<u64>,
        /// The limit of a budget as money, instead: `12.50`. A day is one in UTC.
        money: Option<Money>,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("pool", "list"),
        "/v1/pools",
        &["pool", "limit", "used", "settled", "paused"],
        "List limits and pauses",
    );

    type Answer = PoolPage;

    async fn perform(self, call: &Call) -> Result<Answered<PoolPage>, Problem> {
        let count_max = PageSize::or_usual(self.limit);
        let after = self.after.map(|after| after.0);
        let page = call.engine().pools(&call.caller().tenant, after, count_max).await?;
        let now = call.engine().now();
        let item = |row: &baton_store::PoolRow| PoolView::of(&row.name, Some(&row.pool), now);
        let items = page.rows.iter().map(item).collect();
        let next = page.next.map(PoolRef);
        Ok(Answered::read(PoolPage { items, next }, call.cursor(page.as_of)))
    }
}

impl Operation for Set {
    const ABOUT: Declaration = Declaration::of_person(
        ("pool", "set"),
        (Method::Put, "/v1/pools/{pool}"),
        Hints::ENDS,
        &["pool", "limit", "used", "settled", "paused"],
        "Limit how much of something is done at once, or lift the limit",
    );

    type Answer = PoolView;

    async fn perform(self, call: &Call) -> Result<Answered<PoolView>, Problem> {
        let pool = self.pool.0;
        let wrong = |rule: &str| {
            Problem::invalid(vec![Violation { field: "money".into(), rule: rule.into() }])
        };
        let limit = match (self.limit, self.money) {
            (limit, None) => limit,
            (None, Some(money)) if pool.is_money() => Some(money.0),
            (None, Some(_)) => return Err(wrong("is for budgets: give `limit` instead")),
            (Some(_), Some(_)) => return Err(wrong("must not be given beside `limit`")),
        };
        let limit = RecordCommand::LimitPool { pool: pool.clone(), limit };
        let committed = call.on_record(limit, None).await?;
        changed(call, &committed, &pool).await
    }
}

/// Every pool that somebody set.
///
/// # Errors
/// If they cannot be read.
pub async fn all(call: &Call) -> Result<Told<Pools>, Problem> {
    let mut told = Told { what: Pools::new(), as_of: 0 };
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = call.engine().pools(&call.caller().tenant, after, PAGE_MAX).await?;
        told.what.extend(page.rows.into_iter().map(|row| (row.name, row.pool)));
        told.as_of = page.as_of;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(told)
}

/// Lets nothing be taken from a pool.
pub(super) async fn pause(
    call: &Call,
    pool: PoolName,
    reason: Reason,
    until: Option<When>,
) -> Result<Committed, Problem> {
    // Since when it is shut is for the rules to say.
    let (since, until) = (call.engine().now(), until.map(|until| until.0));
    let shut = Some(Shut { reason, since, until });
    call.on_record(RecordCommand::ShutPool { pool, shut }, None).await
}

/// Lets a paused pool be taken from again.
pub(super) async fn resume(call: &Call, pool: PoolName) -> Result<Committed, Problem> {
    call.on_record(RecordCommand::ShutPool { pool, shut: None }, None).await
}

/// A pool after something was done to it.
pub(super) async fn changed(
    call: &Call,
    committed: &Committed,
    pool: &PoolName,
) -> Result<Answered<PoolView>, Problem> {
    let Told { what: pools, as_of } = all(call).await?;
    let view = PoolView::of(pool, pools.get(pool), call.engine().now());
    Ok(Answered { as_of: Some(call.cursor(as_of)), ..call.done(view, committed) })
}
