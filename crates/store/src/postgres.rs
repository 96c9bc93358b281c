//! Postgres: two batches in flight, each of which locks, judges in memory and commits in two or three
//! flushes. Any number of servers may share one database; what one answered is on its disk.
//!
//! Locks are always taken in one order, so that no two batches can wait for each other: records
//! (shared by everybody, kept by whoever changes them), the graph, tasks by number, pools by name,
//! the count of births, requests by key, and last the positions by tenant.

mod address;
mod amnesty;
mod audit;
pub mod backup;
pub mod bare;
mod batch;
mod bells;
mod channels;
mod claims;
mod connections;
pub mod examine;
mod heads;
mod ink;
mod keys;
mod lists;
mod load;
pub mod loan;
mod look;
mod manner;
mod migrate;
mod open;
mod orders;
mod pen;
mod readers;
mod reads;
mod records;
pub mod restoring;
mod room;
mod runs;
mod seam;
mod standby;
mod step;
mod sweep;
mod time;
mod tls;
mod tools;
mod trouble;
mod trust;
mod wire;
mod writer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::{DeploymentId, TaskId, TenantId};
use baton_domain::lane::Lane;
use baton_domain::pool::PoolName;
use baton_domain::time::Timestamp;
use ed25519_dalek::SigningKey;
use tokio::task::JoinHandle;

use address::Address;
use bells::Bells;
use connections::Connections;
pub use migrate::Unfinished;
use readers::Reader;
use room::Projects;
use time::DatabaseTime;
use writer::{Queue, Queues};

use crate::chain::SALT_BYTES;
use crate::clock::boot_millis;
use crate::gauges::Gauges;
pub use crate::rows::Chance;
use crate::rows::{Salts, nat};
use crate::ruling::Judge;
use crate::sqlite::Place;
use crate::{Bell, Clock, PepperDigest};

/// Batches on their way at once at most: one is committed while the next one locks and judges, and
/// there are as many more where these wait for somebody.
const BATCHES: usize = 2 * writer::TOGETHER;
/// Orders by themselves on their way at once: most of them are short, and some wait for somebody.
const LONERS: usize = 3;
/// Connections that write: one for each of these, for claims that wait, and for what comes between.
const WRITERS: usize = BATCHES + LONERS + 2;
/// Connections of the one that sweeps.
const SWEEPERS: usize = 1;
/// How long a flush of writers may take: longer than a statement, so that the database gives up first.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// The same for sweeps, whose statements are given less: other servers wait for no outage.
const SWEEP_WITHIN: Duration = Duration::from_secs(5);
/// The same for readers.
const READ_WITHIN: Duration = Duration::from_secs(35);
/// Connections that read.
const READERS: usize = 4;
/// Connections of one server at most: one tells other servers, one listens, one closes up.
const CONNECTIONS_MAX: usize = WRITERS + SWEEPERS + READERS + 3;
/// How long new work is refused after the disk was full, before it is tried again.
const FULL_FOR_MILLIS: i64 = 1_000;

/// How a store is opened.
pub struct Options {
    /// Who decides.
    pub judge: Judge,
    /// What time it is; the database's own clock if none is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where chance comes from.
    pub chance: Chance,
    /// Who is told what became claimable.
    pub bell: Bell,
    /// What seals are signed with; without it nothing is sealed. Servers of one database share it.
    pub signing: Option<SigningKey>,
    /// By which a wrong pepper is known; without it any pepper will do.
    pub pepper: Option<PepperDigest>,
    /// The folder of this server, which nobody else may use as long as the store is open.
    pub place: Option<Place>,
    careless: bool,
    even_unfinished: bool,
}

impl Options {
    /// The usual way.
    #[must_use]
    pub fn new(judge: Judge, chance: Chance) -> Self {
        Self {
            judge,
            clock: None,
            chance,
            bell: Arc::new(|_| {}),
            signing: None,
            pepper: None,
            place: None,
            careless: false,
            even_unfinished: false,
        }
    }

    /// Opens a database whose restore is not finished, for whoever finishes it.
    #[must_use]
    pub fn even_unfinished(self) -> Self {
        Self { even_unfinished: true, ..self }
    }

    /// Accepts a cluster that does not sync what it commits, for tests whose clusters are thrown
    /// away. No setting of the program leads here.
    #[doc(hidden)]
    #[must_use]
    pub fn careless(self) -> Self {
        Self { careless: true, ..self }
    }
}

/// Why a store was not opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be understood. It may hold a password, so it is not repeated.
    #[error("the database address cannot be read: {0}")]
    Address(String),
    /// It is not, or cannot be, spoken to as safely as it should be.
    #[error("no TLS to the database: {0}")]
    Tls(String),
    /// Nobody answers there.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The server does not let us in.
    #[error("the database refuses the user or the password: check both in BATON_DATABASE_URL")]
    Password,
    /// There is no such database.
    #[error("the server has no database of that name: create it with createdb")]
    NoDatabase,
    /// It is older than what is known to work.
    #[error("the server is Postgres {0}: version 14 or later is needed")]
    TooOld(i32),
    /// It takes no writes.
    #[error("the server is a read-only standby: name the primary in BATON_DATABASE_URL")]
    Standby,
    /// It would lose what it says it kept.
    #[error("the server has {0}, and would lose what it answered: set it to on")]
    Careless(String),
    /// It cannot keep every text.
    #[error("the database is encoded in {0}: create one with UTF8")]
    Encoding(String),
    /// Somebody else's.
    #[error("the database holds tables that baton did not make: give it a database of its own")]
    NotBaton,
    /// Written by a newer binary.
    #[error("the database needs version {found} of the schema, this binary knows {known}: upgrade")]
    Newer {
        /// What the database needs.
        found: i64,
        /// What this binary knows.
        known: i64,
    },
    /// It was made with another pepper.
    #[error("the pepper is not the one that this database was made with: put the right file back")]
    WrongPepper,
    /// The readers' role cannot be made.
    #[error(
        "the role {name} is missing and may not be made: as an administrator, run \
         CREATE ROLE {name} NOLOGIN; GRANT {name} TO the user of baton"
    )]
    NoRole {
        /// What it is called.
        name: String,
    },
    /// A restore was killed half-way.
    #[error("{}", match .0 {
        Unfinished::Copy => "a copy was not brought back to its end: run `baton restore FILE` again, \
            which clears what is there and begins anew",
        Unfinished::Life => "the database was not given another life to the end: run \
            `baton restore --here` again",
    })]
    Unfinished(Unfinished),
    /// It cannot be read.
    #[error("the database cannot be read: {0}")]
    Damaged(String),
    /// A migration failed, and was undone.
    #[error("the migration to version {0} failed and was undone: {1}")]
    Migration(i64, String),
}

/// A store in a Postgres database.
pub struct PostgresStore {
    shared: Arc<Shared>,
    /// The audit that goes on in the background.
    round: Arc<tokio::sync::Mutex<seam::Round>>,
    /// Whoever tells, listens and looks, until the store is closed.
    ears: Vec<JoinHandle<()>>,
    writers: Vec<JoinHandle<()>>,
    _place: Option<Place>,
}

/// What everybody in here shares.
struct Shared {
    address: Address,
    /// Whom reads act as.
    reader: Reader,
    judge: Judge,
    time: Arc<DatabaseTime>,
    salts: Mutex<Salts>,
    signing: Option<SigningKey>,
    writers: Connections,
    sweepers: Connections,
    readers: Connections,
    queues: Queues,
    gauges: Gauges,
    bells: Bells,
    known: Mutex<Known>,
    full_until: AtomicI64,
    /// When this server last watched the time, for as long as somebody holds where it is noted.
    watched_here: AtomicI64,
    incarnation: u64,
    deployment: DeploymentId,
}

/// The projects of a tenant, and the pools that somebody has set.
type Records = (Arc<Projects>, Arc<BTreeSet<PoolName>>);

/// What was found once and does not change, or is known by its version.
#[derive(Default)]
struct Known {
    tenants: HashMap<TenantId, i64>,
    records: HashMap<i64, (u64, Records)>,
    lanes: HashMap<i64, Arc<Lane>>,
    /// The lanes of each tenant in which something waited when a claim last looked.
    met: HashMap<i64, Vec<(i64, Arc<Lane>)>>,
    /// Tasks for which time cannot pass, until somebody changes them or the store is opened again.
    aside: BTreeSet<(TenantId, TaskId)>,
    /// Tasks that somebody held when a sweep came by, and when to look again, by our own count.
    later: BTreeMap<(TenantId, TaskId), i64>,
}

const NAMES: &str = "SELECT (SELECT number FROM meta WHERE name = 'incarnation'),
    (SELECT bytes FROM meta WHERE name = 'deployment'),
    (SELECT coalesce(max(last_at), 0) FROM tenants)";

impl PostgresStore {
    /// Opens the store in a database, or makes one there.
    pub async fn open(url: &str, mut options: Options) -> Result<Self, OpenError> {
        let address = Address::read(url)?;
        let mut conn = open::reach(&address, options.careless).await?;
        let even_unfinished = options.even_unfinished;
        let migrated = migrate::migrate(&mut conn, &mut options.chance, even_unfinished).await?;
        let damaged = |trouble: trouble::Trouble| OpenError::Damaged(trouble.told().to_string());
        if let Some(pepper) = &options.pepper
            && !trust::knows_pepper(&mut conn, pepper).await.map_err(damaged)?
        {
            return Err(OpenError::WrongPepper);
        }
        if let Some(signing) = &options.signing {
            trust::vouch(&mut conn, signing).await.map_err(damaged)?;
        }
        let names = conn.query(NAMES, vec![]).await.map_err(damaged)?;
        let row = names.first().ok_or(OpenError::NotBaton)?;
        let incarnation = nat(row.get::<_, Option<i64>>(0).ok_or(OpenError::NotBaton)?);
        let deployment = row.get::<_, Option<&[u8]>>(1).map(String::from_utf8_lossy);
        let deployment = deployment.and_then(|name| DeploymentId::new(&name).ok());
        let time = Arc::new(DatabaseTime::new(options.clock.take()));
        time::settle(&mut conn, &time).await.map_err(damaged)?;
        time.at_least(time.now().max(Timestamp(row.get(2))));
        let mut own = [0; 8];
        (options.chance)(&mut own);
        let shared = Arc::new(Shared {
            judge: options.judge,
            time,
            salts: Mutex::new(Salts::new(options.chance)),
            signing: options.signing,
            writers: Connections::new(address.clone(), WRITERS).bounded(WRITE_WITHIN),
            sweepers: Connections::new(address.clone(), SWEEPERS).bounded(SWEEP_WITHIN),
            readers: Connections::new(address.clone(), READERS),
            address,
            reader: migrated.reader,
            queues: Queues::default(),
            gauges: Gauges::default(),
            bells: Bells::new(options.bell, u64::from_be_bytes(own)),
            known: Mutex::default(),
            full_until: AtomicI64::new(0),
            watched_here: AtomicI64::new(0),
            incarnation,
            deployment: deployment.ok_or(OpenError::NotBaton)?,
        });
        let work = |queue| tokio::spawn(writer::work(Arc::clone(&shared), queue));
        let batches = (0..BATCHES).map(|_| work(Queue::Together));
        let loners = (0..LONERS).map(|_| work(Queue::Alone));
        let others = [work(Queue::Hungry), work(Queue::Sweeps)];
        let writers = batches.chain(loners).chain(others).collect();
        let ears = vec![
            tokio::spawn(bells::tell(Arc::clone(&shared))),
            tokio::spawn(bells::listen(Arc::clone(&shared))),
            tokio::spawn(bells::look(Arc::clone(&shared))),
        ];
        Ok(Self { shared, round: Arc::default(), ears, writers, _place: options.place })
    }

    /// The store's clock: the database's.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.time) as Arc<dyn Clock>
    }

    /// Why the store stopped by itself, if it did.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.shared.gauges.stopped()
    }

    /// Takes no more orders, carries out what was accepted, and gives up its connections.
    pub async fn close(mut self) {
        self.shared.queues.close();
        for writer in std::mem::take(&mut self.writers) {
            drop(writer.await);
        }
        self.shared.writers.close();
        self.shared.sweepers.close();
        self.shared.readers.close();
    }
}

impl Drop for PostgresStore {
    /// What was accepted is carried out by the writers, who then end by themselves.
    fn drop(&mut self) {
        self.shared.queues.close();
        self.ears.drain(..).for_each(|ear| ear.abort());
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_tenant(&self, name: &TenantId) -> Option<i64> {
        self.known().tenants.get(name).copied()
    }

    fn know_tenant(&self, name: &TenantId, tenant: i64) {
        self.known().tenants.insert(name.clone(), tenant);
    }

    fn known_records(&self, tenant: i64, version: u64) -> Option<Records> {
        let (known, records) = self.last_records(tenant)?;
        (known == version).then_some(records)
    }

    /// The records as somebody here last saw them, and which version that was.
    fn last_records(&self, tenant: i64) -> Option<(u64, Records)> {
        self.known().records.get(&tenant).cloned()
    }

    fn know_records(&self, tenant: i64, version: u64, records: Records) {
        self.known().records.insert(tenant, (version, records));
    }

    fn salt(&self) -> [u8; SALT_BYTES] {
        self.salts.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// There is no room: for a while only ends of work are tried.
    fn fill_up(&self) {
        tracing::warn!("the disk of the database is full: only ends of work are accepted");
        self.gauges.full.store(true, Ordering::Relaxed);
        self.full_until.store(boot_millis() + FULL_FOR_MILLIS, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.gauges.full.load(Ordering::Relaxed)
            && boot_millis() < self.full_until.load(Ordering::Relaxed)
    }

    fn committed(&self, now: Timestamp) {
        self.gauges.committed_at.store(now.0, Ordering::Relaxed);
        self.gauges.full.store(false, Ordering::Relaxed);
    }

    fn swept(&self, now: Timestamp) {
        self.gauges.swept_at.store(now.0, Ordering::Relaxed);
    }

    fn swept_at(&self) -> Timestamp {
        Timestamp(self.gauges.swept_at.load(Ordering::Relaxed))
    }
}
