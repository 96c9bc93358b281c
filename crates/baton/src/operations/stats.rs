//! Figures: how many tasks there are, and how Baton is.

use baton_domain::explain::{Exhausted, exhausted};
use baton_domain::ids::ProjectId;
use baton_domain::view::Need;
use baton_store::read::RunWord;

use crate::call::Call;
use crate::identity;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::record;
use crate::views::{HealthView, StatsView};

use super::{pool, project};

record! {
    /// Whose figures.
    pub struct Stats {
        /// Of this project alone.
        project: Option<ProjectId>,
    }

    /// How Baton is.
    pub struct Health {
    }
}

impl Operation for Stats {
    const ABOUT: Declaration = Declaration::look(
        ("stats", "show"),
        "/v1/stats",
        &["columns", "inbox", "claims_waiting", "exhausted"],
        "Count tasks by stage and badge",
    );

    type Answer = StatsView;

    async fn perform(self, call: &Call) -> Result<Answered<StatsView>, Problem> {
        if let Some(id) = &self.project {
            project::find(call, id).await?;
        }
        let tenant = &call.caller().tenant;
        let told = call.engine().stats(tenant, self.project).await?;
        let waiting = call.engine().waiters().len_of(tenant);
        let found = out_of_accounts(call, &told.what).await?;
        let view = StatsView::of(&told.what, waiting, found);
        Ok(Answered::read(view, call.cursor(told.as_of)))
    }
}

/// Whether work is queued and everybody who asks for it would use an account that is shut.
pub(super) async fn out_of_accounts(
    call: &Call,
    stats: &baton_store::read::Stats,
) -> Result<Option<Exhausted>, Problem> {
    if !stats.runs.contains_key(&RunWord::Queued) {
        return Ok(None);
    }
    let staff = call.engine().waiters().staff(&call.caller().tenant);
    Ok(exhausted(&staff, &pool::all(call).await?.what, call.engine().now()))
}

impl Operation for Health {
    const ABOUT: Declaration = Declaration::look(
        ("health", "show"),
        "/v1/health",
        &["green", "troubles", "sweep_age", "overdue"],
        "Show how Baton is",
    );

    type Answer = HealthView;

    async fn perform(self, call: &Call) -> Result<Answered<HealthView>, Problem> {
        let health = call.engine().health().await;
        let at = Some(call.engine().now());
        let tenant = &call.caller().tenant;
        let told = call.engine().stats(tenant, None).await.ok();
        let unproven = told.map(|told| told.what.needs.get(&Need::StopUnverified).copied());
        let unproven = unproven.map(Option::unwrap_or_default);
        let value = HealthView::of(&health, unproven, *tenant == identity::local());
        // A store that cannot be read is exactly what this answer must still tell.
        Ok(Answered { value, as_of: None, at, replayed: false, secrets: vec![] })
    }
}
