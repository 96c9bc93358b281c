//! Tenants: whose data it is. Only the operator lets one in.

use baton_domain::ids::TenantId;

use super::key::{self, KeyView};
use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::shape::{PageSize, record};

record! {
    /// A tenant to let in.
    pub struct Create {
        /// What it is called.
        tenant: TenantId,
    }

    /// Which tenants.
    pub struct List {
        /// After this one.
        after: Option<TenantId>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of a list of tenants.
    pub struct Tenants {
        /// In the order of their names.
        items: Vec<TenantRow>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<TenantId>,
    }

    /// A tenant in a list.
    pub struct TenantRow {
        /// What it is called.
        id: TenantId,
    }

    /// A tenant with the first key of its owner.
    pub struct TenantView {
        /// What it is called.
        id: TenantId,
        /// The key of its owner, which may do everything in it.
        owner: KeyView,
    }
}

impl Operation for Create {
    const ABOUT: Declaration = Declaration {
        noun: "tenant",
        verb: "create",
        summary: "Let a tenant in, or one whose keys have all ended; its key is shown this once",
        method: Method::Post,
        path: "/v1/tenants",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints::ADDS,
        columns: &["id", "owner"],
    };

    type Answer = TenantView;

    async fn perform(self, call: &Call) -> Result<Answered<TenantView>, Problem> {
        let identity = call.identity();
        let made = identity.found(call.caller(), &self.tenant, call.how()).await?;
        Ok(key::answered(made).map(|owner| TenantView { id: self.tenant, owner }))
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration {
        noun: "tenant",
        verb: "list",
        summary: "List tenants",
        method: Method::Get,
        path: "/v1/tenants",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints::READS,
        columns: &["id"],
    };

    type Answer = Tenants;

    async fn perform(self, call: &Call) -> Result<Answered<Tenants>, Problem> {
        let count_max = PageSize::or_usual(self.limit);
        let page = call.identity().tenants(call.caller(), self.after, count_max).await?;
        let next = page.rows.last().filter(|_| page.more).cloned();
        let items = page.rows.into_iter().map(|id| TenantRow { id }).collect();
        Ok(Answered::read(Tenants { items, next }, call.as_of().await?))
    }
}
