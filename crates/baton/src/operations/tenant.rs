//! Tenants: whose data it is. Only the operator lets one in.

use baton_domain::ids::TenantId;

use super::key::{self, KeyView};
use crate::call::Call;
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::record;

record! {
    /// A tenant to let in.
    pub struct Create {
        /// What it is called.
        tenant: TenantId,
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
    const ABOUT: About = About {
        noun: "tenant",
        verb: "create",
        summary: "Let a tenant in, or one whose keys have all ended; its key is shown this once",
        method: Method::Post,
        path: "/v1/tenants",
        level: Level::Admin,
        speaker: Speaker::Person,
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
