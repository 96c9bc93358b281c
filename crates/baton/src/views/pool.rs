//! A pool as callers see it.

use baton_domain::pool::{Pool, PoolName};
use baton_domain::text::Reason;
use baton_domain::time::Timestamp;

use crate::shape::{Money, PoolRef, When, record};

record! {
    /// A counted limit over many tasks.
    pub struct PoolView {
        /// What it limits.
        pool: PoolRef,
        /// How much may be taken at once; without one only a pause counts.
        limit: Option<u64>,
        /// What live attempts have taken.
        used: u64,
        /// What was spent for good.
        settled: u64,
        /// The same in money, if it is a budget.
        money: Option<MoneyView>,
        /// Why nothing may be taken now.
        paused: Option<PauseView>,
    }

    /// A budget.
    pub struct MoneyView {
        /// How much there is in all; without it, any amount.
        limit: Option<Money>,
        /// What live attempts have set aside before they began.
        reserved: Money,
        /// What was spent for good; of a day's budget, today.
        spent: Money,
        /// What is left.
        left: Option<Money>,
    }

    /// A pause.
    pub struct PauseView {
        /// Why.
        reason: Reason,
        /// Since when.
        since: When,
        /// When it ends by itself.
        until: Option<When>,
    }
}

impl PoolView {
    /// A pool as callers see it now; one that nobody set limits nothing.
    #[must_use]
    pub fn of(name: &PoolName, pool: Option<&Pool>, now: Timestamp) -> Self {
        let nothing = Pool::default();
        let pool = pool.unwrap_or(&nothing);
        Self {
            pool: PoolRef(name.clone()),
            limit: pool.limit,
            used: pool.used,
            settled: pool.settled(now),
            money: name.is_money().then(|| MoneyView::of(pool, now)),
            paused: PauseView::of(pool, now),
        }
    }
}

impl MoneyView {
    fn of(pool: &Pool, now: Timestamp) -> Self {
        Self {
            limit: pool.limit.map(Money),
            reserved: Money(pool.used),
            spent: Money(pool.settled(now)),
            left: pool.limit.map(|_| Money(pool.room(now))),
        }
    }
}

impl PauseView {
    /// The pause of a pool, if it is not over.
    #[must_use]
    pub fn of(pool: &Pool, now: Timestamp) -> Option<Self> {
        let shut = pool.shut.as_ref().filter(|_| !pool.is_open(now))?;
        let reason = shut.reason.clone();
        Some(Self { reason, since: When(shut.since), until: shut.until.map(When) })
    }
}
