//! Orders about projects, pools and keys. Each is a batch of its own that keeps everybody else of
//! the tenant out, for it changes what all of them look at.

use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::ids::{ProjectId, StageName, TenantId};
use baton_domain::key::{KeyCommand, admit_tenant, decide_key};
use baton_domain::pool::{Pool, PoolName, is_eased};
use baton_domain::project::{Project, RecordCommand, RecordEvent, RecordScene, decide_record};
use baton_domain::task::Flow;

use super::batch::{Ended, roll_back, with_position};
use super::connections::Lent;
use super::ink::{Done, Draft};
use super::load::{self, BEGIN, BOUNDS, Entered, OWN_RECORDS, RECORDS_LOCK};
use super::look;
use super::manner::Manner;
use super::orders::Fail;
use super::pen;
use super::room::{Ledger, Room, Spot};
use super::step::{Cause, Goal, Step};
use super::trouble::Trouble;
use super::wire::{Conn, Flush, Param, params};
use super::{Records, Shared, amnesty, time};
use super::{channels, keys};
use crate::chain::ROOT;
use crate::order::{Aim, Committed, Order};
use crate::read::About;
use crate::rows::{int, json, nat, parse};
use crate::ruling::unparked;
use crate::{Error, Freed};

/// How often a record order that stood in somebody's way is tried again.
const TRIES: usize = 6;
/// The advisory lock under which tenants are made, so that there are never too many.
const TENANTS_LOCK: i32 = 0x4261_7404;

const FIND_TENANT: &str = "SELECT id FROM tenants WHERE name = $1";
const COUNT_TENANTS: &str = "SELECT count(*) FROM tenants";
const NEW_TENANT: &str = "INSERT INTO tenants (name, records_head) VALUES ($1, $2) RETURNING id";
const NEW_BIRTHS: &str = "INSERT INTO births (tenant, last) VALUES ($1, 0)";
const POOL: &str = "SELECT body FROM pools WHERE tenant = $1 AND name = $2";
const COUNT_POOLS: &str = "SELECT count(*) FROM pools WHERE tenant = $1";
const TASK: &str = "SELECT 1 FROM flows WHERE tenant = $1 AND task = $2";
const STAGES: &str = "SELECT stage, count(*) FROM flows
    WHERE tenant = $1 AND project = $2 AND live GROUP BY stage";
const HELD: &str = "SELECT body FROM flows WHERE tenant = $1 AND live AND held";
/// What nobody holds: among it is what waits for money.
const IDLE: &str = "SELECT body FROM flows WHERE tenant = $1 AND live AND NOT held";
const PUT_PROJECT: &str = "INSERT INTO projects (tenant, name, body) VALUES ($1, $2, $3)
    ON CONFLICT (tenant, name) DO UPDATE SET body = excluded.body";
const DROP_PROJECT: &str = "DELETE FROM projects WHERE tenant = $1 AND name = $2";
const HEAD: &str = "UPDATE tenants SET records_version = $2, records_head =
        (SELECT link FROM events WHERE tenant = $1 AND task = 0 AND version = $2)
    WHERE id = $1";

/// Statements that go with the entry of a record.
type Besides = Vec<(&'static str, Vec<Param>)>;

/// Carries out an order about a record or a key.
pub(super) async fn run(shared: &Shared, order: &Order) -> Result<Committed, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let mut lent = shared.writers.get().await.map_err(|trouble| trouble.told())?;
        let ended = match once(shared, &mut lent, order).await {
            Ok(answered) => {
                lent.done();
                return answered;
            }
            Err(ended) => ended,
        };
        ended.undo(&mut lent).await;
        drop(lent);
        match ended {
            Ended::Silence if tries < TRIES => {
                let granted = amnesty::grant(shared, Manner::Alone).await;
                granted.map_err(|trouble| trouble.told())?;
            }
            Ended::Trouble(Trouble::ClockSet) if tries < TRIES => {
                let settled = time::settle_for(shared, Manner::Alone).await;
                settled.map_err(|trouble| trouble.told())?;
            }
            Ended::Trouble(Trouble::Again(_) | Trouble::Raced(_) | Trouble::Stale(_))
                if tries < TRIES => {}
            Ended::Trouble(Trouble::Lost(_)) if tries < 2 => {}
            Ended::Trouble(trouble) => {
                if let Trouble::Full = trouble {
                    shared.fill_up();
                }
                return Err(trouble.told());
            }
            Ended::Unknown(why) => return Err(Error::Unknown(why)),
            Ended::Silence => return Err(Error::Overloaded),
        }
    }
}

async fn once(
    shared: &Shared,
    lent: &mut Lent<'_>,
    order: &Order,
) -> Result<Result<Committed, Error>, Ended> {
    lent.begun();
    let mut flush = Flush::default();
    flush.add(BEGIN, vec![]);
    flush.add(BOUNDS, Manner::Alone.bounds());
    lent.send(flush).await?;
    let tenant = match tenant_of(shared, lent, order).await {
        Ok(tenant) => tenant,
        Err(Fail::Answer(error)) => {
            roll_back(lent).await;
            return Ok(Err(error));
        }
        Err(Fail::Trouble(trouble)) => return Err(trouble.into()),
    };
    lent.query(OWN_RECORDS, params![RECORDS_LOCK, i32::try_from(tenant).unwrap_or(i32::MAX)])
        .await?;
    let asked_in = match order.request.as_ref().and_then(|request| request.asked_in.as_ref()) {
        None => tenant,
        Some(name) => match shared.known_tenant(name) {
            Some(known) => known,
            // Whoever is nowhere has asked for nothing before.
            None => find_tenant(lent, name).await?.unwrap_or(tenant),
        },
    };
    // A step that is about no task: it brings the request, the pools and the time.
    let step = Step {
        tenant,
        tenant_id: order.tenant.clone(),
        asked_in,
        actor: &order.actor,
        goal: Goal::Nothing,
        request: order.request.as_ref(),
        cause: Cause::Order,
        ends: order.ends_work(),
    };
    let steps = [step];
    let Entered { mut room, .. } = load::enter_begun(shared, lent, &steps).await?;
    if room.now.since(room.watched_at) > baton_domain::limits::SILENCE_MAX {
        return Err(Ended::Silence);
    }
    let wanted = look::Wanted::of(&room, &steps);
    look::look_again(shared, lent, &mut room, &wanted).await?;
    let judged = match room.replay(&steps[0]) {
        Ok(Some(done)) => Ok((done, vec![])),
        Ok(None) if shared.is_full() && !steps[0].ends => Err(Fail::Answer(Error::DiskFull)),
        Ok(None) => judge(shared, lent, &mut room, order, tenant).await,
        Err(fail) => Err(fail),
    };
    let (done, besides) = match judged {
        Ok(judged) => judged,
        Err(Fail::Answer(error)) => {
            roll_back(lent).await;
            return Ok(Err(error));
        }
        Err(Fail::Trouble(trouble)) => return Err(trouble.into()),
    };
    if !done.committed.replayed {
        room.remember(&steps[0], &done);
    }
    let heads = pen::commit(lent, &room, besides).await.map_err(Ended::of_commit)?;
    shared.know_tenant(&order.tenant, tenant);
    if let (Some((_, version)), Some(ledger)) = (done.entry, room.tenants.get(&tenant)) {
        shared.know_records(tenant, version, records_after(ledger));
    }
    let committed = with_position(done, &room, &heads);
    shared.after_commit(room, &heads);
    Ok(Ok(committed))
}

/// The records as this order leaves them: nobody needs to read all of them again.
fn records_after(ledger: &Ledger) -> Records {
    let mut set = Arc::clone(&ledger.set);
    for name in &ledger.pools_changed {
        match ledger.pools.contains_key(name) {
            true => drop(Arc::make_mut(&mut set).insert(name.clone())),
            false => drop(Arc::make_mut(&mut set).remove(name)),
        }
    }
    (Arc::clone(&ledger.projects), set)
}

/// Only a record or a key makes a tenant, and only if the rules accept it: asking leaves no trace.
async fn tenant_of(shared: &Shared, conn: &mut Conn, order: &Order) -> Result<i64, Fail> {
    if let Some(tenant) = shared.known_tenant(&order.tenant) {
        return Ok(tenant);
    }
    let name = order.tenant.as_str().to_owned();
    if let Some(tenant) = find_tenant(conn, &order.tenant).await? {
        return Ok(tenant);
    }
    conn.query(OWN_RECORDS, params![TENANTS_LOCK, 0_i32]).await?;
    if let Some(tenant) = find_tenant(conn, &order.tenant).await? {
        return Ok(tenant);
    }
    if shared.is_full() && !order.ends_work() {
        return Err(Fail::Answer(Error::DiskFull));
    }
    let now = crate::Clock::now(&*shared.time);
    match &order.aim {
        Aim::Record(command, _) => drop(decide_record(&RecordScene::default(), command, now)?),
        Aim::Key(command) => {
            let scene = keys::scene(conn, 0, command).await?;
            drop(decide_key(&scene, command, now)?);
        }
        Aim::Channel(command) => drop(channels::events(conn, 0, command, now).await?),
        Aim::Task(..) | Aim::Birth(..) | Aim::Next(_) | Aim::Sweep(_) => {
            return Err(Refusal::NotFound.into());
        }
    }
    let count = conn.query(COUNT_TENANTS, vec![]).await?;
    let count = count.first().map_or(0, |row| row.get::<_, i64>(0));
    admit_tenant(usize::try_from(count).unwrap_or(usize::MAX))?;
    let made = conn.query(NEW_TENANT, params![name, ROOT.to_vec()]).await?;
    let tenant =
        made.first().ok_or_else(|| Trouble::Broken("a tenant was not made".into()))?.get(0);
    conn.query(NEW_BIRTHS, params![tenant]).await?;
    Ok(tenant)
}

/// The key of a tenant, if anybody has heard of it.
pub(super) async fn find_tenant(conn: &mut Conn, name: &TenantId) -> Result<Option<i64>, Trouble> {
    let rows = conn.query(FIND_TENANT, params![name.as_str().to_owned()]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

async fn judge(
    shared: &Shared,
    conn: &mut Conn,
    room: &mut Room,
    order: &Order,
    tenant: i64,
) -> Result<(Done, Besides), Fail> {
    let mut besides = vec![];
    let events = match &order.aim {
        Aim::Record(command, project) => {
            if let Some(pool) = command.meant(project.as_ref()).pool {
                look_at_pool(conn, room, tenant, pool).await?;
            }
            let scene = scene(conn, room.ledger(tenant)?, command, project.as_ref()).await?;
            let events = decide_record(&scene, command, room.now)?;
            for event in &events {
                apply(conn, room, tenant, event, &mut besides).await?;
            }
            events
        }
        Aim::Key(command) => key_events(conn, room, tenant, command, &mut besides).await?,
        Aim::Channel(command) => {
            let (events, beside) = channels::events(conn, tenant, command, room.now).await?;
            besides.push(beside);
            events
        }
        Aim::Task(..) | Aim::Birth(..) | Aim::Next(_) | Aim::Sweep(_) => {
            return Err(Refusal::NotFound.into());
        }
    };
    let committed = Committed::of_no_task(room.now, None);
    let mut done = Done { committed, place: None, entry: None, tenant };
    if events.is_empty() {
        return Ok((done, besides));
    }
    let Some(ledger) = room.tenants.get(&tenant) else { return Ok((done, besides)) };
    let version = ledger.records_version + 1;
    let draft = Draft {
        about: About::Records(version),
        actor: &order.actor,
        payload: json(&events),
        rows: None,
        before: ledger.records_head,
        wave: 0,
        salt: shared.salt(),
        at: room.now,
    };
    done.place = Some(Spot::New(room.written.entry(ledger, draft)));
    done.entry = Some((0, version));
    besides.push((HEAD, params![tenant, int(version)]));
    Ok((done, besides))
}

async fn key_events(
    conn: &mut Conn,
    room: &Room,
    tenant: i64,
    command: &KeyCommand,
    besides: &mut Besides,
) -> Result<Vec<RecordEvent>, Fail> {
    let scene = keys::scene(conn, tenant, command).await?;
    let ruling = decide_key(&scene, command, room.now)?;
    if !ruling.events.is_empty() {
        besides.extend(ruling.written.iter().map(|it| keys::put(tenant, it)));
        besides.extend(ruling.forgotten.iter().map(|id| keys::forget(tenant, id)));
    }
    Ok(ruling.events.into_iter().map(RecordEvent::Key).collect())
}

/// A pool as it is. Whoever else may change pools is kept out, so that none must be locked.
async fn look_at_pool(
    conn: &mut Conn,
    room: &mut Room,
    tenant: i64,
    name: &PoolName,
) -> Result<(), Trouble> {
    let rows = conn.query(POOL, params![tenant, json(name)]).await?;
    if let (Some(ledger), Some(row)) = (room.tenants.get_mut(&tenant), rows.first()) {
        ledger.pools.insert(name.clone(), parse(row.get(0))?);
    }
    Ok(())
}

async fn scene(
    conn: &mut Conn,
    ledger: &Ledger,
    command: &RecordCommand,
    project: Option<&ProjectId>,
) -> Result<RecordScene, Fail> {
    let meant = command.meant(project);
    let counted = conn.query(COUNT_POOLS, params![ledger.key]).await?;
    let mut scene = RecordScene {
        projects: ledger.projects.len(),
        pool: meant.pool.and_then(|name| ledger.pools.get(name)).cloned(),
        pools: counted.first().map_or(0, |row| usize::try_from(row.get::<_, i64>(0)).unwrap_or(0)),
        ..RecordScene::default()
    };
    if let Some(task) = meant.task {
        scene.task = !conn.query(TASK, params![ledger.key, int(task.0)]).await?.is_empty();
    }
    let Some(id) = meant.project else { return Ok(scene) };
    scene.project = ledger.projects.get(id).map(|project| (**project).clone());
    if meant.pool.is_some() {
        return Ok(scene);
    }
    for row in conn.query(STAGES, params![ledger.key, id.as_str().to_owned()]).await? {
        scene.live += nat(row.get(1));
        // The backlog is no working stage.
        let word: &str = row.get(0);
        scene.occupied.extend(StageName::new(word).ok().filter(|_| word != "backlog"));
    }
    scene.occupied.sort();
    Ok(scene)
}

async fn apply(
    conn: &mut Conn,
    room: &mut Room,
    tenant: i64,
    event: &RecordEvent,
    besides: &mut Besides,
) -> Result<(), Fail> {
    match event {
        RecordEvent::ProjectPut { project } => {
            let row = params![tenant, project.id.as_str().to_owned(), json(project).into_bytes()];
            besides.push((PUT_PROJECT, row));
            change_projects(room, tenant, |all| {
                all.insert(project.id.clone(), Arc::new(project.clone()));
            });
        }
        RecordEvent::ProjectRemoved { project } => {
            besides.push((DROP_PROJECT, params![tenant, project.as_str().to_owned()]));
            change_projects(room, tenant, |all| drop(all.remove(project)));
        }
        RecordEvent::PoolLimited { pool, limit } => {
            let mut row = pool_row(conn, room.ledger(tenant)?, pool).await?;
            row.limit = *limit;
            keep_pool(conn, room, tenant, pool, row).await?;
        }
        RecordEvent::PoolShut { pool, shut } => {
            let mut row = pool_row(conn, room.ledger(tenant)?, pool).await?;
            row.shut.clone_from(shut);
            keep_pool(conn, room, tenant, pool, row).await?;
        }
        RecordEvent::Key(_) | RecordEvent::Channel(_) => {
            unreachable!("keys and channels have rules of their own")
        }
    }
    Ok(())
}

fn change_projects(
    room: &mut Room,
    tenant: i64,
    change: impl FnOnce(&mut std::collections::HashMap<ProjectId, Arc<Project>>),
) {
    if let Some(ledger) = room.tenants.get_mut(&tenant) {
        let mut projects = (*ledger.projects).clone();
        change(&mut projects);
        ledger.projects = Arc::new(projects);
    }
}

/// A pool as it is, or as it would be if somebody had been counting all along.
async fn pool_row(conn: &mut Conn, ledger: &Ledger, name: &PoolName) -> Result<Pool, Trouble> {
    if let Some(pool) = ledger.pools.get(name) {
        return Ok(pool.clone());
    }
    let mut used = 0;
    for row in conn.query(HELD, params![ledger.key]).await? {
        let flow: Flow = parse(row.get(0))?;
        let held = flow.run.as_ref().and_then(|run| run.held());
        let takes = held.into_iter().flat_map(|held| &held.takes);
        used += takes.filter(|take| take.pool == *name).map(|take| take.amount).sum::<u64>();
    }
    Ok(Pool { used, ..Pool::default() })
}

async fn keep_pool(
    conn: &mut Conn,
    room: &mut Room,
    tenant: i64,
    name: &PoolName,
    pool: Pool,
) -> Result<(), Trouble> {
    let now = room.now;
    let Some(ledger) = room.tenants.get_mut(&tenant) else { return Ok(()) };
    let before = ledger.pools.insert(name.clone(), pool);
    ledger.pools_changed.insert(name.clone());
    if ledger.pools[name].is_idle() {
        ledger.pools.remove(name);
    }
    if is_eased(name, before.as_ref(), ledger.pools.get(name), now) {
        room.freed.push(Freed::Pools(ledger.id.clone()));
        if name.is_money() {
            let rows = conn.query(IDLE, params![ledger.key]).await?;
            let idle: Vec<Flow> =
                rows.iter().map(|row| parse(row.get(0))).collect::<Result<_, _>>()?;
            room.written
                .reactions
                .extend(unparked(name, &idle).into_iter().map(|owed| (tenant, owed)));
        }
    }
    Ok(())
}
