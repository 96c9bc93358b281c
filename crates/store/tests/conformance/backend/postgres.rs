//! The database on Postgres, behind one server or behind two.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use baton_domain::decide;
use baton_domain::history::Past;
use baton_domain::ids::{DeploymentId, LineId, PrincipalId, ProjectId, RunId, TaskId, TenantId};
use baton_domain::key::KeyId;
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::time::Timestamp;
use baton_store::chain::{Audit, SigningKey};
use baton_store::postgres::{Options, PostgresStore};
use baton_store::{
    Answer, Bell, ChannelRow, Clock, Committed, Cursor, Entry, Filter, Health, HistoryKey,
    KeyFound, KeyRow, List, Order, Page, PastId, PoolRow, RunFilter, RunFull, RunRow, Stats, Store,
    TaskRow, Tenants, Told,
};
use baton_testkit::postgres::{Cluster, Database, Pooler};
use tokio::runtime::Runtime;

use super::Backend;

/// A database that vanishes with the case, and how many servers it is shared by.
pub struct Postgres {
    database: Arc<Database>,
    pooler: Option<Pooler>,
    servers: usize,
}

impl Postgres {
    /// One server.
    pub fn fresh() -> Self {
        Self { database: Arc::new(Database::fresh()), pooler: None, servers: 1 }
    }

    /// Two servers on a database of a cluster that will be crashed.
    pub fn in_cluster(cluster: &Cluster) -> Self {
        Self { database: Arc::new(cluster.database()), pooler: None, servers: 2 }
    }

    /// The database itself, to be broken.
    pub fn database(&self) -> Arc<Database> {
        Arc::clone(&self.database)
    }

    /// Two servers, which take turns in whatever is asked.
    pub fn of_two_servers() -> Self {
        Self { database: Arc::new(Database::fresh()), pooler: None, servers: 2 }
    }
}

impl Postgres {
    /// Two servers that reach the database through a pooler, which lends them connections for one
    /// transaction at a time.
    pub fn through_a_pooler() -> Self {
        let database = Arc::new(Database::fresh());
        let pooler = Some(Pooler::before(&database));
        Self { database, pooler, servers: 2 }
    }

    fn url(&self) -> String {
        self.pooler.as_ref().map_or_else(|| self.database.url(), Pooler::url)
    }
}

impl Drop for Postgres {
    /// Whatever a case did, nobody stood in anybody's way for good.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let log = self.database.log();
            let deadlock = log.iter().find(|line| line.contains("deadlock detected"));
            assert_eq!(deadlock, None, "locks are taken in one order");
        }
    }
}

impl Backend for Postgres {
    fn is_in_order_of_time(&self) -> bool {
        false
    }

    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        let server =
            |salt| Arc::new(open(&self.url(), Some(Arc::clone(&clock)), Arc::clone(&bell), salt));
        let mut servers: Vec<Arc<PostgresStore>> = (0..self.servers).map(server).collect();
        if servers.len() == 1 {
            return servers.remove(0);
        }
        Arc::new(Turns { servers, turn: AtomicUsize::new(0) })
    }
}

/// Opens a store of its own in a database.
pub fn open(url: &str, clock: Option<Arc<dyn Clock>>, bell: Bell, salt: usize) -> PostgresStore {
    // Salts need not be random here, and must not be equal.
    let mut salt = u8::try_from(salt).expect("there are few servers");
    let chance = move |bytes: &mut [u8]| {
        for byte in bytes {
            salt = salt.wrapping_add(37);
            *byte = salt;
        }
    };
    let mut options = Options::new(decide, Box::new(chance)).careless();
    options.clock = clock;
    options.bell = bell;
    options.signing = Some(SigningKey::from_bytes(&[7; 32]));
    apart(PostgresStore::open(url, options)).expect("an empty database opens")
}

/// Waits for something on a runtime that belongs to no case: what it began lives on there.
fn apart<T: Send>(begun: impl Future<Output = T> + Send) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("threads are to be had")
    });
    // A case is on a runtime itself, which may not wait for another on the same thread.
    std::thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(begun)).join().expect("opening does not panic")
    })
}

/// Several servers of one database, each of which is asked in its turn.
struct Turns {
    servers: Vec<Arc<PostgresStore>>,
    turn: AtomicUsize,
}

impl Turns {
    fn next(&self) -> &PostgresStore {
        &self.servers[self.turn.fetch_add(1, Ordering::Relaxed) % self.servers.len()]
    }
}

impl Store for Turns {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        self.next().submit(order)
    }

    fn incarnation(&self) -> u64 {
        self.next().incarnation()
    }

    fn deployment(&self) -> DeploymentId {
        self.next().deployment()
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        self.next().task(tenant, id)
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        self.next().tasks(tenant, filter)
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        self.next().runs(tenant, filter)
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        self.next().run(tenant, id)
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        self.next().history(tenant, id, after, count_max)
    }

    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>> {
        self.next().past(tenant, id, which)
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        self.next().entries(tenant, after, count_max)
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        self.next().entries_of(tenant, id, from_version, count_max)
    }

    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>> {
        self.next().entries_at(tenant, id, versions)
    }

    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>> {
        self.next().receipt(tenant, id, line)
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        self.next().projects(tenant, after, count_max)
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        self.next().pools(tenant, after, count_max)
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        self.next().stats(tenant, project)
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        self.next().key(id)
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        self.next().keys(tenant, after, count_max)
    }

    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>> {
        self.next().channels(tenant)
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        self.next().tenants(after, count_max)
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        self.next().asked_before(tenant, principal, key)
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        self.next().touch_keys(uses)
    }

    fn health(&self) -> Answer<'_, Health> {
        self.next().health()
    }

    fn seal(&self) -> Answer<'_, ()> {
        self.next().seal()
    }

    fn audit(&self) -> Answer<'_, Audit> {
        self.next().audit()
    }

    fn audit_part(&self, count_max: usize) -> Answer<'_, Audit> {
        self.next().audit_part(count_max)
    }
}
