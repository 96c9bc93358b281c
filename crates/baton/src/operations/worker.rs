//! Workers: who runs agents for this server, and who shall be handed nothing more.

use baton_domain::ids::PrincipalId;
use baton_domain::pool::PoolName;
use baton_domain::text::Reason;
use baton_store::RunFilter;
use baton_store::read::PAGE_MAX;

use crate::call::Call;
use crate::operation::{Answered, Declaration, Hints, Method, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, When, record};
use crate::views::{PauseView, PoolView, WorkerView};

use super::pool;

/// The most workers that one answer lists: as many as may be connected.
const WORKERS_MAX: usize = 4_096;

record! {
    /// Which of those who run agents for this server.
    pub struct List {
        /// After this one.
        after: Option<PrincipalId>,
        /// At most so many; all machines of one stand on one page.
        limit: Option<PageSize>,
    }

    /// Those who are connected to the server that answers.
    pub struct Workers {
        /// In the order of their names.
        #[at_most(WORKERS_MAX)]
        items: Vec<WorkerView>,
        /// Where to go on: give it as `after`. Absent at the end.
        next: Option<PrincipalId>,
    }

    /// A worker that shall be handed nothing more; what it holds goes on.
    pub struct Drain {
        /// As whom it holds runs.
        worker: PrincipalId,
        /// Why.
        reason: Reason,
        /// When it ends by itself.
        until: Option<When>,
    }

    /// A worker that may be handed runs again.
    pub struct Resume {
        /// As whom it holds runs.
        worker: PrincipalId,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("worker", "list"),
        "/v1/workers",
        &["worker", "machine", "slots", "busy", "agents", "heard_at", "drained"],
        "List who runs agents for this server",
    );

    type Answer = Workers;

    async fn perform(self, call: &Call) -> Result<Answered<Workers>, Problem> {
        let (engine, tenant) = (call.engine(), &call.caller().tenant);
        let pools = pool::all(call).await?;
        let count_max = PageSize::or_usual(self.limit);
        let (mut items, mut next): (Vec<WorkerView>, _) = (vec![], None);
        for (place, card) in engine.roster().of(tenant).into_iter().take(WORKERS_MAX) {
            if self.after.as_ref().is_some_and(|after| place.principal <= *after) {
                continue;
            }
            let last = items.last().map(|last| &last.worker);
            if items.len() >= count_max && last.is_some_and(|last| *last != place.principal) {
                next = last.cloned();
                break;
            }
            let filter = RunFilter {
                holder: Some(place.principal.clone()),
                live: Some(true),
                count_max: PAGE_MAX,
                ..RunFilter::default()
            };
            let held = engine.runs(tenant, filter).await?;
            let own = pools.what.get(&PoolName::Holder(place.principal.clone()));
            items.push(WorkerView {
                worker: place.principal,
                machine: place.machine,
                version: card.version,
                slots: card.slots,
                busy: held.rows.len() as u64,
                agents: card.agents,
                capabilities: card.capabilities,
                accounts: card.accounts,
                since: When(card.came_at),
                heard_at: When(card.heard_at),
                drained: own.and_then(|own| PauseView::of(own, engine.now())),
            });
        }
        Ok(Answered::read(Workers { items, next }, call.cursor(pools.as_of)))
    }
}

impl Operation for Drain {
    const ABOUT: Declaration = Declaration::of_person(
        ("worker", "drain"),
        (Method::Post, "/v1/workers/{worker}/drain"),
        Hints::SETS,
        &["pool", "limit", "used", "settled", "paused"],
        "Hand a worker nothing more; what it holds goes on",
    );

    type Answer = PoolView;

    async fn perform(self, call: &Call) -> Result<Answered<PoolView>, Problem> {
        let own = PoolName::Holder(self.worker);
        let committed = pool::pause(call, own.clone(), self.reason, self.until).await?;
        pool::changed(call, &committed, &own).await
    }
}

impl Operation for Resume {
    const ABOUT: Declaration = Declaration::of_person(
        ("worker", "resume"),
        (Method::Post, "/v1/workers/{worker}/resume"),
        Hints::SETS,
        &["pool", "limit", "used", "settled", "paused"],
        "Let a worker be handed runs again",
    );

    type Answer = PoolView;

    async fn perform(self, call: &Call) -> Result<Answered<PoolView>, Problem> {
        let own = PoolName::Holder(self.worker);
        let committed = pool::resume(call, own.clone()).await?;
        pool::changed(call, &committed, &own).await
    }
}
