//! Callers that keep an engine busy.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_domain::command::{Agent, Command, NewTask, Proof, Supervisor};
use baton_domain::contract::Submission;
use baton_domain::ids::{PrincipalId, ProjectId, StageName, TenantId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::project::{Landing, PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::run::Mode;
use baton_domain::task::{Kind, Priority};
use baton_domain::text::{Text, Title};
use baton_domain::time::Millis;
use baton_store::order::Kind as Sort;
use baton_store::{Actor, Aim, Committed, Error, Order};
use hdrhistogram::Histogram;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Failure;
use super::table::per_second;
use crate::chance::SystemChance;
use crate::clock::Stopwatch;
use crate::clockwork;
use crate::engine::{Claimed, Engine, Target, Wish};
use crate::home;

/// An engine under load.
pub(super) struct Load {
    engine: Arc<Engine>,
    watch: Arc<dyn Stopwatch>,
    folder: PathBuf,
    done: Arc<AtomicU64>,
    /// While this is there, time passes: on a database that others may share, a silence of all
    /// servers is an outage.
    _clockwork: Option<watch::Sender<bool>>,
}

type Measured = (f64, Histogram<u64>);

impl Load {
    pub(super) async fn open(folder: &Path, watch: Arc<dyn Stopwatch>) -> Result<Self, Failure> {
        Self::with(home::open(folder, None, Arc::new(SystemChance))?, folder, watch).await
    }

    /// The same on a database elsewhere; the folder is for what servers keep to themselves.
    pub(super) async fn on_database(
        url: &str,
        folder: &Path,
        watch: Arc<dyn Stopwatch>,
    ) -> Result<Self, Failure> {
        let engine = home::open_elsewhere(folder, url, None, Arc::new(SystemChance)).await?;
        let load = Self::with(engine, folder, watch).await?;
        let (stop, stopped) = watch::channel(false);
        let (turned, _) = watch::channel(0);
        tokio::spawn(clockwork::run(Arc::clone(&load.engine), stopped, turned));
        Ok(Self { _clockwork: Some(stop), ..load })
    }

    async fn with(
        engine: Engine,
        folder: &Path,
        watch: Arc<dyn Stopwatch>,
    ) -> Result<Self, Failure> {
        let engine = Arc::new(engine);
        let spec =
            StageSpec { name: coding(), worked_by: WorkedBy::Agent, passed_by: PassedBy::Server };
        let bench = Project {
            id: project(),
            root: None,
            pipeline: vec![spec],
            archive_after: None,
            promote: false,
            landing: Landing::default(),
        };
        let put = Aim::Record(RecordCommand::PutProject(bench), None);
        engine.submit(order(0, put)).await?;
        let done = Arc::new(AtomicU64::new(0));
        Ok(Self { engine, watch, folder: folder.into(), done, _clockwork: None })
    }

    /// Ends the load and tells where its folder is.
    pub(super) fn close(self) -> PathBuf {
        self.folder
    }

    pub(super) async fn finished(&self) -> Result<u64, Failure> {
        Ok(self.done.load(Ordering::Relaxed))
    }

    /// Counts what somebody else finished.
    pub(super) fn add_finished(&self, count: u64) {
        self.done.fetch_add(count, Ordering::Relaxed);
    }

    /// Makes queued tasks.
    pub(super) async fn create(&self, count: u64, callers: u64) -> Result<(), Failure> {
        self.share(count, callers, |engine, caller| async move {
            engine.submit(order(caller, Aim::Birth(project(), vec![create()]))).await?;
            Ok(())
        })
        .await
        .map(drop)
    }

    /// Claims and completes.
    pub(super) async fn cycle(&self, count: u64, callers: u64) -> Result<Measured, Failure> {
        let measured = self
            .share(count, callers, |engine, caller| async move {
                let claimed = engine.claim(wish(caller, None)).await?;
                complete(&engine, caller, &claimed).await?;
                Ok(())
            })
            .await?;
        self.done.fetch_add(count, Ordering::Relaxed);
        Ok(measured)
    }

    /// Renews leases: every caller holds one run and does nothing else.
    pub(super) async fn renew(&self, count: u64, callers: u64) -> Result<Measured, Failure> {
        self.create(callers, callers).await?;
        let mut held = vec![];
        for caller in 0..callers {
            held.push(self.engine.claim(wish(caller, None)).await?);
        }
        let held = Arc::new(held);
        let runs = Arc::clone(&held);
        let measured = self
            .share(count, callers, move |engine, caller| {
                let runs = Arc::clone(&runs);
                async move {
                    let run = &runs[usize::try_from(caller).unwrap_or(0)];
                    let says = Supervisor::Renew { lease: None };
                    let command = Command::Supervisor(proof(caller, run), says);
                    engine.submit(order(caller, Aim::Task(run.flow.id, vec![command]))).await?;
                    Ok(())
                }
            })
            .await?;
        for (caller, run) in (0..).zip(held.iter()) {
            complete(&self.engine, caller, run).await?;
        }
        self.done.fetch_add(callers, Ordering::Relaxed);
        Ok(measured)
    }

    /// A claimer waits; a task is added; how long until the claimer holds it.
    pub(super) async fn pick_up(&self, count: u64) -> Result<Histogram<u64>, Failure> {
        let mut times = histogram();
        for _ in 0..count {
            let (engine, watch) = (Arc::clone(&self.engine), Arc::clone(&self.watch));
            let waiting = tokio::spawn(async move {
                let claimed = engine.claim(wish(1, Some(Millis::seconds(30)))).await?;
                Ok::<_, Error>((claimed, watch.micros()))
            });
            while self.engine.waiters().is_empty() {
                tokio::task::yield_now().await;
            }
            let began = self.watch.micros();
            self.engine.submit(order(0, Aim::Birth(project(), vec![create()]))).await?;
            let held = waiting.await.map_err(|error| Failure::Loop(error.to_string()))?;
            let (claimed, at) = held?;
            times.saturating_record(at.saturating_sub(began));
            complete(&self.engine, 1, &claimed).await?;
        }
        self.done.fetch_add(count, Ordering::Relaxed);
        Ok(times)
    }

    /// Shares work between callers, and times each piece and the whole.
    async fn share<F, W>(&self, count: u64, callers: u64, work: F) -> Result<Measured, Failure>
    where
        F: Fn(Arc<Engine>, u64) -> W + Clone + Send + 'static,
        W: Future<Output = Result<(), Error>> + Send,
    {
        let left = Arc::new(AtomicU64::new(count));
        let mut crowd = JoinSet::new();
        let began = self.watch.micros();
        for caller in 0..callers.min(count) {
            let (engine, watch) = (Arc::clone(&self.engine), Arc::clone(&self.watch));
            let (left, work) = (Arc::clone(&left), work.clone());
            crowd.spawn(async move {
                let mut times = histogram();
                let take = |left: u64| left.checked_sub(1);
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    let began = watch.micros();
                    work(Arc::clone(&engine), caller).await?;
                    times.saturating_record(watch.micros() - began);
                }
                Ok::<_, Error>(times)
            });
        }
        let mut times = histogram();
        while let Some(joined) = crowd.join_next().await {
            let own = joined.map_err(|error| Failure::Loop(error.to_string()))?;
            times.add(own?).map_err(|error| Failure::Loop(error.to_string()))?;
        }
        Ok((per_second(count, self.watch.micros() - began), times))
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}

pub(super) fn tenant() -> TenantId {
    TenantId::new("local").expect("a plain word is a name")
}

fn project() -> ProjectId {
    ProjectId::new("bench").expect("a plain word is a name")
}

fn coding() -> StageName {
    StageName::new("coding").expect("a plain word is a name")
}

fn caller_name(caller: u64) -> PrincipalId {
    PrincipalId::new(&format!("caller-{caller}")).expect("a plain word is a name")
}

fn order(caller: u64, aim: Aim) -> Order {
    Order { tenant: tenant(), actor: actor(caller), aim, request: None }
}

fn actor(caller: u64) -> Actor {
    Actor {
        principal: caller_name(caller),
        kind: Sort::Agent,
        origin: Text::new("origin", "bench").expect("a plain word is a text"),
        trace: None,
    }
}

fn create() -> Command {
    let title = Title::new("title", "Something to be done").expect("a plain sentence is a title");
    Command::Create(Box::new(NewTask {
        kind: Kind::Chore,
        start_in: Some(coding()),
        ..NewTask::new(project(), caller_name(0), title)
    }))
}

fn wish(caller: u64, wait: Option<Millis>) -> Wish {
    Wish {
        tenant: tenant(),
        actor: actor(caller),
        claimant: Claimant {
            principal: caller_name(caller),
            person: false,
            mode: Mode::Solo,
            capabilities: BTreeSet::new(),
            account: None,
            agents: vec![],
            project: None,
            stage: None,
            priority_min: Priority::Low,
            wants: Wants::Ready,
        },
        target: Target::Next { wait },
        lease: None,
        request: None,
    }
}

fn proof(caller: u64, claimed: &Claimed) -> Proof {
    Proof::Caller { attempt: claimed.attempt.number, principal: caller_name(caller) }
}

async fn complete(engine: &Engine, caller: u64, claimed: &Claimed) -> Result<Committed, Error> {
    let says = Agent::Complete { summary: None, submission: Submission::default() };
    let command = Command::Agent(proof(caller, claimed), says);
    engine.submit(order(caller, Aim::Task(claimed.flow.id, vec![command]))).await
}
