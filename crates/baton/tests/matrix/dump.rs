//! Everything that the store keeps, as text.

use baton_domain::ids::{ProjectId, TenantId};
use baton_store::{Cursor, Filter};

use crate::scene::Scene;

/// More than a scene has of anything.
const ALL: usize = 500;

impl Scene {
    /// Both tenants, to the last entry, and what lies on the disk; when keys were last used aside.
    pub async fn dump(&self) -> String {
        let (ours, theirs) = (self.dump_of("local").await, self.dump_of("other").await);
        format!("{ours}\n{theirs}\n{}", self.ground.dump())
    }

    /// The same of one tenant.
    pub async fn dump_of(&self, tenant: &str) -> String {
        let engine = &self.world.engine;
        let tenant = TenantId::new(tenant).expect("a name");
        let filter = Filter { ended: true, count_max: ALL, ..Filter::default() };
        let tasks = engine.tasks(&tenant, filter).await.expect("it can be read");
        let projects = engine.projects(&tenant, None::<ProjectId>, ALL).await;
        let pools = engine.pools(&tenant, None, ALL).await.expect("it can be read");
        let entries = engine.entries(&tenant, Cursor::start(), ALL).await;
        let keys = engine.keys(&tenant, None, ALL).await.expect("it can be read");
        let keys: Vec<_> = keys.rows.iter().map(|row| &row.key).collect();
        format!(
            "{tasks:#?}\n{:#?}\n{pools:#?}\n{:#?}\n{keys:#?}",
            projects.expect("it can be read"),
            entries.expect("it can be read"),
        )
    }
}
