//! An engine over the model, with a clock that stands still and a store that can be made to fail.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use baton_domain::command::{Agent, Command, NewTask};
use baton_domain::contract::Submission;
use baton_domain::history::Past;
use baton_domain::ids::{
    DeploymentId, LineId, PrincipalId, ProjectId, RunId, StageName, TaskId, TenantId,
};
use baton_domain::key::KeyId;
use baton_domain::lane::{Claimant, Wants};
use baton_domain::pool::PoolName;
use baton_domain::project::{Landing, PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::run::Mode;
use baton_domain::task::Priority;
use baton_domain::text::Text;
use baton_domain::time::{Millis, Timestamp};
use baton_store::chain::Audit;
use baton_store::clock::ManualClock;
use baton_store::memory::MemoryStore;
use baton_store::{
    Actor, Aim, Answer, Bell, ChannelRow, Committed, Cursor, Entry, Error, Filter, Freed, Health,
    HistoryKey, KeyFound, KeyRow, Kind, List, Order, Page, PastId, PoolRow, RunFilter, RunFull,
    RunRow, Stats, Store, TaskRow, Tenants, Told,
};

use crate::chance::SeededChance;
use crate::clock::StoppedWatch;
use crate::engine::{Claimed, Engine, Parts, Target, Tokens, Wish};
use crate::tokens::Secrets;
use crate::waiters::Waiters;

/// A small world to test in.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) flaws: Arc<Flaws>,
}

/// What is wrong with the store just now.
#[derive(Default)]
pub(crate) struct Flaws {
    /// How many more orders are refused.
    refuses: AtomicUsize,
    hangs: AtomicBool,
    panics: AtomicBool,
    mute: AtomicBool,
    /// Orders that reached the store.
    orders: AtomicUsize,
    /// Looks for a key.
    key_reads: AtomicUsize,
}

impl Flaws {
    pub(crate) fn refuse(&self, orders: usize) {
        self.refuses.store(orders, Ordering::Relaxed);
    }

    pub(crate) fn hang(&self, on: bool) {
        self.hangs.store(on, Ordering::Relaxed);
    }

    pub(crate) fn panic(&self, on: bool) {
        self.panics.store(on, Ordering::Relaxed);
    }

    /// Whether its bell stays silent.
    pub(crate) fn mute(&self, on: bool) {
        self.mute.store(on, Ordering::Relaxed);
    }

    pub(crate) fn orders(&self) -> usize {
        self.orders.load(Ordering::Relaxed)
    }

    pub(crate) fn key_reads(&self) -> usize {
        self.key_reads.load(Ordering::Relaxed)
    }

    async fn strike(&self) -> Result<(), Error> {
        assert!(!self.panics.load(Ordering::Relaxed), "the store broke, as it was told to");
        if self.hangs.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
        let fewer = |left: usize| left.checked_sub(1);
        match self.refuses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
            Ok(_) => Err(Error::Overloaded),
            Err(_) => Ok(()),
        }
    }
}

/// The model with flaws.
struct Flawed {
    model: MemoryStore,
    flaws: Arc<Flaws>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Waiters::new()).await
    }

    pub(crate) async fn with(waiters: Arc<Waiters>) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000)));
        let flaws = Arc::new(Flaws::default());
        let model = MemoryStore::new(baton_domain::decide, clock.clone(), bell(&waiters, &flaws));
        let engine = Engine::new(Parts {
            store: Arc::new(Flawed { model, flaws: Arc::clone(&flaws) }),
            waiters,
            clock: clock.clone(),
            stopwatch: Arc::new(StoppedWatch),
            chance: Arc::new(SeededChance::new(1)),
            secrets: Secrets::new([7; 32]),
            incarnation: 1,
        });
        let world = Self { engine: Arc::new(engine), clock, flaws };
        let put = RecordCommand::PutProject(project());
        world.order(Aim::Record(put, None)).await.expect("the project is well-formed");
        world
    }

    pub(crate) async fn order(&self, aim: Aim) -> Result<Committed, Error> {
        let order = Order { tenant: tenant(), actor: person(), aim, request: None };
        self.engine.submit(order).await
    }

    /// Makes a task and starts it.
    pub(crate) async fn create(&self, title: &str) -> TaskId {
        let create = Aim::Birth(project().id, vec![Command::Create(Box::new(new_task(title)))]);
        let committed = self.order(create).await.expect("it may be made");
        committed.task.expect("a birth has a task").id
    }

    pub(crate) async fn claim(&self, holder: &str) -> Result<Claimed, Error> {
        self.engine.claim(wish(holder, None)).await
    }

    pub(crate) async fn say(&self, claimed: &Claimed, says: Agent) -> Result<Committed, Error> {
        let (Tokens::Solo(token) | Tokens::Supervised { agent: token, .. }) = &claimed.tokens;
        let pass = self.engine.keyring().verify(token.reveal(), &tenant()).expect("it is ours");
        let command = pass.agent(says).expect("it is an agent");
        self.order(Aim::Task(pass.task, vec![command])).await
    }

    pub(crate) async fn complete(&self, claimed: &Claimed) -> Result<Committed, Error> {
        let submission = Submission::default();
        self.say(claimed, Agent::Complete { summary: None, submission }).await
    }

    /// Lets so much time pass that even the grace after a silence is over.
    pub(crate) async fn sweep_until_amnesty_ends(&self) {
        for _ in 0..62 {
            self.engine.sweep(100).await.expect("time passes");
            self.clock.advance(Millis::seconds(1));
        }
        self.engine.sweep(100).await.expect("time passes");
    }
}

fn bell(waiters: &Arc<Waiters>, flaws: &Arc<Flaws>) -> Bell {
    let (bell, flaws) = (waiters.bell(), Arc::clone(flaws));
    Arc::new(move |freed: &[Freed]| {
        if !flaws.mute.load(Ordering::Relaxed) {
            bell(freed);
        }
    })
}

pub(crate) fn tenant() -> TenantId {
    TenantId::new("local").expect("a plain word is a name")
}

pub(crate) fn name(word: &str) -> PrincipalId {
    PrincipalId::new(word).expect("a plain word is a name")
}

pub(crate) fn text<const MAX: usize>(words: &str) -> Text<MAX> {
    Text::new("text", words).expect("plain words are a text")
}

pub(crate) fn person() -> Actor {
    Actor { principal: name("ann"), kind: Kind::Person, origin: text("cli"), trace: None }
}

pub(crate) fn project() -> Project {
    let coding = StageSpec {
        name: StageName::new("coding").expect("a plain word is a name"),
        worked_by: WorkedBy::Agent,
        passed_by: PassedBy::Server,
    };
    Project {
        id: ProjectId::new("demo").expect("a plain word is a name"),
        root: None,
        pipeline: vec![coding],
        archive_after: None,
        promote: false,
        landing: Landing::default(),
    }
}

fn new_task(title: &str) -> NewTask {
    NewTask {
        start_in: Some(StageName::new("coding").expect("a plain word is a name")),
        ..NewTask::new(project().id, name("ann"), text(title))
    }
}

/// A wish of a solo agent for whatever is next.
pub(crate) fn wish(holder: &str, wait: Option<Millis>) -> Wish {
    let claimant = Claimant {
        principal: name(holder),
        person: false,
        mode: Mode::Solo,
        capabilities: [].into(),
        account: None,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::Low,
        wants: Wants::Ready,
    };
    let actor = Actor { principal: name(holder), kind: Kind::Agent, ..person() };
    let target = Target::Next { wait };
    Wish { tenant: tenant(), actor, claimant, target, lease: None, request: None }
}

impl Store for Flawed {
    fn submit(&self, order: Order) -> Answer<'_, Committed> {
        self.flaws.orders.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.flaws.strike().await?;
            self.model.submit(order).await
        })
    }

    fn incarnation(&self) -> u64 {
        self.model.incarnation()
    }

    fn deployment(&self) -> DeploymentId {
        self.model.deployment()
    }

    fn task<'a>(&'a self, tenant: &'a TenantId, id: TaskId) -> Answer<'a, Told<Option<TaskRow>>> {
        self.model.task(tenant, id)
    }

    fn tasks<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: Filter,
    ) -> Answer<'a, List<TaskRow, TaskId>> {
        self.model.tasks(tenant, filter)
    }

    fn runs<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: RunFilter,
    ) -> Answer<'a, List<RunRow, RunId>> {
        self.model.runs(tenant, filter)
    }

    fn run<'a>(&'a self, tenant: &'a TenantId, id: RunId) -> Answer<'a, Told<Option<RunFull>>> {
        self.model.run(tenant, id)
    }

    fn history<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        after: Option<HistoryKey>,
        count_max: usize,
    ) -> Answer<'a, List<Past, HistoryKey>> {
        self.model.history(tenant, id, after, count_max)
    }

    fn past<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        which: PastId,
    ) -> Answer<'a, Told<Option<Past>>> {
        self.model.past(tenant, id, which)
    }

    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Cursor,
        count_max: usize,
    ) -> Answer<'a, Page<Entry>> {
        self.model.entries(tenant, after, count_max)
    }

    fn entries_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        from_version: u64,
        count_max: usize,
    ) -> Answer<'a, List<Entry, u64>> {
        self.model.entries_of(tenant, id, from_version, count_max)
    }

    fn entries_at<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        versions: Vec<u64>,
    ) -> Answer<'a, Told<Vec<Entry>>> {
        self.model.entries_at(tenant, id, versions)
    }

    fn receipt<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: TaskId,
        line: &'a LineId,
    ) -> Answer<'a, Told<Option<Entry>>> {
        self.model.receipt(tenant, id, line)
    }

    fn projects<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<ProjectId>,
        count_max: usize,
    ) -> Answer<'a, List<Arc<Project>, ProjectId>> {
        self.model.projects(tenant, after, count_max)
    }

    fn pools<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<PoolName>,
        count_max: usize,
    ) -> Answer<'a, List<PoolRow, PoolName>> {
        self.model.pools(tenant, after, count_max)
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        project: Option<ProjectId>,
    ) -> Answer<'a, Told<Stats>> {
        self.model.stats(tenant, project)
    }

    fn key<'a>(&'a self, id: &'a KeyId) -> Answer<'a, Option<KeyFound>> {
        self.flaws.key_reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.flaws.strike().await?;
            self.model.key(id).await
        })
    }

    fn keys<'a>(
        &'a self,
        tenant: &'a TenantId,
        after: Option<KeyId>,
        count_max: usize,
    ) -> Answer<'a, Page<KeyRow>> {
        self.model.keys(tenant, after, count_max)
    }

    fn channels<'a>(&'a self, tenant: Option<&'a TenantId>) -> Answer<'a, Vec<ChannelRow>> {
        self.model.channels(tenant)
    }

    fn tenants(&self, after: Option<TenantId>, count_max: usize) -> Answer<'_, Tenants> {
        self.model.tenants(after, count_max)
    }

    fn asked_before<'a>(
        &'a self,
        tenant: &'a TenantId,
        principal: &'a PrincipalId,
        key: &'a str,
    ) -> Answer<'a, Option<[u8; 32]>> {
        self.model.asked_before(tenant, principal, key)
    }

    fn touch_keys(&self, uses: Vec<(KeyId, Timestamp)>) -> Answer<'_, ()> {
        self.model.touch_keys(uses)
    }

    fn health(&self) -> Answer<'_, Health> {
        Box::pin(async move {
            self.flaws.strike().await?;
            self.model.health().await
        })
    }

    fn seal(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.flaws.strike().await?;
            self.model.seal().await
        })
    }

    fn audit_part(&self, count_max: usize) -> Answer<'_, Audit> {
        self.model.audit_part(count_max)
    }

    fn audit(&self) -> Answer<'_, Audit> {
        self.model.audit()
    }
}
