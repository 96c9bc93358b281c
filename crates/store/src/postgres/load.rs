//! The first flush of a batch: what must be there is locked, in the order that every batch keeps,
//! and read after it is locked.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_domain::command::Command;
use baton_domain::ids::{PrincipalId, TaskId};
use baton_domain::scene::{Lease, Needs};
use baton_domain::task::Flow;
use baton_domain::time::{Millis, Timestamp};
use tokio_postgres::Row;

use super::Shared;
use super::claims;
use super::heads::Guess;
use super::manner::{Manner, Tasks};
use super::room::{Earlier, Kept, Ledger, Room, Spot};
use super::step::{Goal, Step};
use super::time::told;
use super::trouble::Trouble;
use super::wire::{Answers, Conn, Flush, params};
use crate::rows::{int, nat, parse};
use crate::ruling::needs;

/// The first number of every advisory lock of ours; the second is the tenant.
pub(super) const RECORDS_LOCK: i32 = 0x4261_7401;
pub(super) const GRAPH_LOCK: i32 = 0x4261_7402;

pub(super) const BEGIN: &str = "BEGIN";
/// Bounds for whoever waits, and plans that do not depend on how old the statistics are: everything
/// that a batch looks for is found by an index. A server that stands still in the middle of a batch
/// loses what it holds before the others' silence would count as an outage.
pub(super) const BOUNDS: &str = "SELECT set_config('lock_timeout', $1, true),
    set_config('statement_timeout', $2, true),
    set_config('idle_in_transaction_session_timeout', '4s', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)";
const SHARE_RECORDS: &str = "SELECT pg_advisory_xact_lock_shared($1, n.tenant)
    FROM unnest($2::int4[]) n (tenant)";
pub(super) const OWN_RECORDS: &str = "SELECT pg_advisory_xact_lock($1, $2)";
/// What another server is telling just now is not told twice. Whoever has the task has these too.
const LOCK_OWED: &str = "SELECT r.id FROM unnest($1::int8[], $2::int8[]) n (tenant, id)
    JOIN reactions r ON r.tenant = n.tenant AND r.id = n.id FOR UPDATE OF r SKIP LOCKED";
const LOCK_TASKS: &str = "SELECT f.tenant, f.task, f.head, f.body
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN flows f ON f.tenant = n.tenant AND f.task = n.task
    ORDER BY f.tenant, f.task FOR UPDATE OF f";
const LOCK_FREE_TASKS: &str = "SELECT f.tenant, f.task, f.head, f.body
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN flows f ON f.tenant = n.tenant AND f.task = n.task
    ORDER BY f.tenant, f.task FOR UPDATE OF f SKIP LOCKED";
const KNOWN_TASKS: &str = "SELECT f.tenant, f.task
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN flows f ON f.tenant = n.tenant AND f.task = n.task";
pub(super) const LEASES: &str =
    "SELECT l.tenant, l.task, l.attempt, l.holder, l.nonce, l.expires_at, l.length, l.heard
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN leases l ON l.tenant = n.tenant AND l.task = n.task";
const DEPENDANTS: &str = "SELECT e.tenant, e.on_task, e.task
    FROM unnest($1::int8[], $2::int8[]) n (tenant, task)
    JOIN edges e ON e.tenant = n.tenant AND e.on_task = n.task
    JOIN flows f ON f.tenant = e.tenant AND f.task = e.task AND f.live";
const REQUESTS: &str =
    "SELECT r.tenant, r.principal, r.key, r.fingerprint, r.at, r.task, r.attempt,
        r.run, (SELECT e.position FROM events e WHERE e.tenant = r.tenant AND e.task = r.entry_task
            AND e.version = r.entry)
    FROM unnest($1::int8[], $2::text[], $3::text[]) n (tenant, principal, key)
    JOIN requests r ON r.tenant = n.tenant AND r.principal = n.principal AND r.key = n.key";
/// Time, amnesty and how commits are kept, beside how far each tenant is.
const STATE: &str = concat!(
    "SELECT ",
    told!(),
    ", (SELECT at FROM watched), (SELECT number FROM meta WHERE name = 'amnesty'),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names') <> '',
    t.id, t.last_at, t.records_version, t.records_head
    FROM tenants t WHERE t.id = ANY($1::int8[])"
);

/// Tenants and tasks, as two arrays.
pub(super) fn columns(pairs: &Tasks) -> (Vec<i64>, Vec<i64>) {
    pairs.iter().map(|(tenant, task)| (*tenant, int(task.0))).unzip()
}

/// What the first flush brought.
pub(super) struct Entered {
    pub(super) room: Room,
    pub(super) waiting: Vec<claims::Waiting>,
    /// Heads that claims may take, if the lanes are what they were.
    pub(super) guess: Option<Guess>,
}

/// Where the answers of the first flush are.
struct First {
    named: Tasks,
    tasks: Option<usize>,
    leases: Option<usize>,
    dependants: Option<usize>,
    requests: Option<usize>,
    owed: Option<usize>,
    lanes: Vec<(i64, usize)>,
    guess: Option<Guess>,
    state: usize,
}

/// The first flush: the locks, and what can be read with them.
pub(super) async fn enter(
    shared: &Shared,
    conn: &mut Conn,
    steps: &[Step<'_>],
    manner: Manner<'_>,
) -> Result<Entered, Trouble> {
    let mut flush = Flush::default();
    flush.add(BEGIN, vec![]);
    flush.add(BOUNDS, manner.bounds());
    let tenants: BTreeSet<i64> = steps.iter().map(|step| step.tenant).collect();
    let small = tenants.iter().map(|key| i32::try_from(*key).unwrap_or(i32::MAX));
    let small: Vec<i32> = small.collect();
    flush.add(SHARE_RECORDS, params![RECORDS_LOCK, small.clone()]);
    if steps.iter().any(|step| !step.needs(None).upstream_of.is_empty()) {
        for tenant in small {
            flush.add(OWN_RECORDS, params![GRAPH_LOCK, tenant]);
        }
    }
    fill(shared, conn, steps, manner, flush).await
}

/// The same in a transaction that was begun, and that keeps others out.
pub(super) async fn enter_begun(
    shared: &Shared,
    conn: &mut Conn,
    steps: &[Step<'_>],
) -> Result<Entered, Trouble> {
    fill(shared, conn, steps, Manner::Alone, Flush::default()).await
}

async fn fill(
    shared: &Shared,
    conn: &mut Conn,
    steps: &[Step<'_>],
    manner: Manner<'_>,
    mut flush: Flush,
) -> Result<Entered, Trouble> {
    let mut room = Room::default();
    for step in steps {
        let fresh = || Ledger::new(step.tenant, step.tenant_id.clone());
        room.tenants.entry(step.tenant).or_insert_with(fresh);
        if let Some(name) = step.request.and_then(|request| request.asked_in.as_ref()) {
            let fresh = || Ledger::new(step.asked_in, name.clone());
            room.tenants.entry(step.asked_in).or_insert_with(fresh);
        }
    }
    for ledger in room.tenants.values_mut() {
        if let Some((version, records)) = shared.last_records(ledger.key) {
            (ledger.projects, ledger.set) = records;
            (ledger.records_version, ledger.records_guessed) = (version, true);
        }
    }
    let mut first = ask(shared, &mut flush, &room, steps, manner);
    let mut answers = conn.send(flush).await?;
    read_state(shared, &mut room, &mut answers, &first)?;
    if let Some(at) = first.tasks {
        keep_tasks(&mut room, answers.rows(at), true)?;
    }
    if !manner.waits() {
        room.elsewhere = held_elsewhere(conn, &room, &first.named).await?;
    }
    if let Some(at) = first.leases {
        keep_leases(&mut room, answers.rows(at))?;
    }
    if let Some(at) = first.dependants {
        for (tenant, ledger) in &mut room.tenants {
            // Whoever is waited for by nobody is known to be.
            let asked = steps.iter().filter(|step| step.tenant == *tenant);
            for task in asked.filter(|step| step.needs(None).dependants).filter_map(Step::task) {
                ledger.dependants.entry(task).or_default();
            }
        }
        for row in answers.rows(at) {
            let (tenant, on, task) = (row.get(0), TaskId(nat(row.get(1))), TaskId(nat(row.get(2))));
            if let Some(ledger) = room.tenants.get_mut(&tenant) {
                ledger.dependants.entry(on).or_default().insert(task);
            }
        }
    }
    if let Some(at) = first.requests {
        for row in answers.rows(at) {
            keep_request(&mut room, &row)?;
        }
    }
    if let Some(at) = first.owed {
        room.owed = answers.rows(at).iter().map(|row| row.get(0)).collect();
    }
    let lanes = first.lanes.into_iter();
    let waiting =
        lanes.map(|(tenant, at)| claims::Waiting::read(tenant, &mut answers, at)).collect();
    let guess = first.guess.take().map(|guess| guess.hear(&mut answers));
    Ok(Entered { room, waiting, guess })
}

/// Which of these somebody else holds: those that are there and could not be locked.
async fn held_elsewhere(conn: &mut Conn, room: &Room, named: &Tasks) -> Result<Tasks, Trouble> {
    let is_here = |(tenant, task): &&(i64, TaskId)| {
        room.tenants.get(tenant).is_some_and(|ledger| ledger.tasks.contains_key(task))
    };
    let missing: Tasks = named.iter().filter(|it| !is_here(it)).copied().collect();
    if missing.is_empty() {
        return Ok(missing);
    }
    let (tenants, tasks) = columns(&missing);
    let rows = conn.query(KNOWN_TASKS, params![tenants, tasks]).await?;
    Ok(rows.iter().map(|row| (row.get(0), TaskId(nat(row.get(1))))).collect())
}

fn ask(
    shared: &Shared,
    flush: &mut Flush,
    room: &Room,
    steps: &[Step<'_>],
    manner: Manner<'_>,
) -> First {
    let tenants: Vec<i64> = room.tenants.keys().copied().collect();
    let owed = steps.iter().filter_map(|step| Some((step.tenant, step.owed()?)));
    let (of_rows, rows): (Vec<i64>, Vec<i64>) = owed.unzip();
    let mut named: Tasks = manner.besides().cloned().unwrap_or_default();
    let mut waited_for = BTreeSet::new();
    let (mut of, mut principals, mut keys) = (vec![], vec![], vec![]);
    for step in steps {
        let needs = step.needs(None);
        named.extend(needs.named.iter().map(|task| (step.tenant, *task)));
        named.extend(step.task().map(|task| (step.tenant, task)));
        waited_for.extend(step.task().filter(|_| needs.dependants).map(|task| (step.tenant, task)));
        waited_for.extend(needs.upstream_of.iter().map(|task| (step.tenant, *task)));
        if let Some(request) = step.request {
            of.push(step.asked_in);
            principals.push(step.actor.principal.as_str().to_owned());
            keys.push(request.key.as_str().to_owned());
        }
    }
    let (of_tasks, tasks) = columns(&named);
    let any = !tasks.is_empty();
    let lock = if manner.waits() { LOCK_TASKS } else { LOCK_FREE_TASKS };
    let locked = any.then(|| flush.add(lock, params![of_tasks.clone(), tasks.clone()]));
    if manner.besides().is_some() {
        // Only what somebody may hold for long is waited for so shortly.
        flush.add(BOUNDS, Manner::Alone.bounds());
    }
    let owed = (!rows.is_empty()).then(|| flush.add(LOCK_OWED, params![of_rows, rows]));
    let leases = any.then(|| flush.add(LEASES, params![of_tasks, tasks]));
    let (of_waited, waited) = columns(&waited_for);
    let dependants =
        (!waited.is_empty()).then(|| flush.add(DEPENDANTS, params![of_waited, waited]));
    let requests = (!of.is_empty()).then(|| flush.add(REQUESTS, params![of, principals, keys]));
    let claimed: BTreeSet<i64> =
        steps.iter().filter(|step| step.is_claim()).map(|step| step.tenant).collect();
    let lanes = claimed.into_iter().map(|tenant| (tenant, claims::ask_lanes(flush, tenant)));
    let lanes = lanes.collect();
    let guess = Guess::ask(shared, flush, room, steps);
    First {
        named,
        tasks: locked,
        leases,
        dependants,
        requests,
        owed,
        lanes,
        guess,
        state: flush.add(STATE, params![tenants]),
    }
}

/// Time, amnesty, and how far each tenant is. The time is asked for after the locks are had, so
/// that it never runs backwards for a task.
fn read_state(
    shared: &Shared,
    room: &mut Room,
    answers: &mut Answers,
    first: &First,
) -> Result<(), Trouble> {
    let rows = answers.rows(first.state);
    let state = rows.first().ok_or_else(|| "the database has no time".to_owned())?;
    if !super::open::is_durable(state.get(4)) {
        return Err(Trouble::Lost("synchronous_commit is below on".into()));
    }
    let mut now = shared.time.heard(state)?;
    room.watched_at = shared.watched_at(state.get(2));
    room.is_followed = state.get(5);
    room.amnesty = Timestamp(state.get::<_, Option<i64>>(3).unwrap_or(0));
    for row in rows.iter() {
        now = now.max(Timestamp(row.get(7)));
        if let Some(ledger) = room.tenants.get_mut(&row.get::<_, i64>(6)) {
            ledger.records_head = hash(row.get(9))?;
            ledger.know_version(nat(row.get(8)));
        }
    }
    room.now = shared.time.at_least(now);
    Ok(())
}

/// Bytes that are a hash.
pub(super) fn hash(bytes: &[u8]) -> Result<[u8; 32], Trouble> {
    bytes.try_into().map_err(|_| Trouble::Broken("a hash has another length".into()))
}

pub(super) fn keep_tasks(
    room: &mut Room,
    rows: Vec<Row>,
    locked: bool,
) -> Result<Vec<TaskId>, Trouble> {
    let mut kept = vec![];
    for row in rows {
        let (tenant, task) = (row.get::<_, i64>(0), TaskId(nat(row.get(1))));
        let Some(ledger) = room.tenants.get_mut(&tenant) else { continue };
        kept.push(task);
        // What is in the room already has perhaps been changed there.
        if ledger.tasks.get(&task).is_some_and(|known| known.locked || !locked) {
            continue;
        }
        let flow: Flow = parse(row.get(3))?;
        let head = hash(row.get(2))?;
        let (flow, lease_changed, entries) = (Arc::new(flow), false, 0);
        ledger.tasks.insert(task, Kept { flow, lease: None, head, entries, lease_changed, locked });
    }
    Ok(kept)
}

/// Rows of tenant, task, head and body that were locked just now; tells which they are.
pub(super) fn keep_locked(room: &mut Room, rows: Vec<Row>) -> Result<Vec<TaskId>, Trouble> {
    keep_tasks(room, rows, true)
}

pub(super) fn keep_leases(room: &mut Room, rows: Vec<Row>) -> Result<(), Trouble> {
    for row in rows {
        let ledger = room.tenants.get_mut(&row.get::<_, i64>(0));
        let kept = ledger.and_then(|ledger| ledger.tasks.get_mut(&TaskId(nat(row.get(1)))));
        let Some(kept) = kept.filter(|kept| !kept.lease_changed) else { continue };
        kept.lease = Some(lease_of(&row, 2)?);
    }
    Ok(())
}

/// A lease as it is stored, from six columns.
pub(super) fn lease_of(row: &Row, from: usize) -> Result<Lease, Trouble> {
    let nonce: [u8; 16] = row
        .get::<_, &[u8]>(from + 2)
        .try_into()
        .map_err(|_| "a nonce has another length".to_owned())?;
    let holder = PrincipalId::new(row.get::<_, &str>(from + 1));
    Ok(Lease {
        attempt: u32::try_from(row.get::<_, i64>(from)).unwrap_or(u32::MAX),
        holder: holder.map_err(|_| "a holder has no name".to_owned())?,
        nonce: baton_domain::ids::Nonce(u128::from_be_bytes(nonce)),
        expires_at: Timestamp(row.get(from + 3)),
        length: Millis(nat(row.get(from + 4))),
        heard: nat(row.get(from + 5)),
    })
}

fn keep_request(room: &mut Room, row: &Row) -> Result<(), Trouble> {
    let Some(ledger) = room.tenants.get_mut(&row.get::<_, i64>(0)) else { return Ok(()) };
    let principal = PrincipalId::new(row.get::<_, &str>(1))
        .map_err(|_| "a principal has no name".to_owned())?;
    let attempt: Option<i64> = row.get(6);
    let earlier = Earlier {
        fingerprint: hash(row.get(3))?,
        at: Timestamp(row.get(4)),
        task: row.get::<_, Option<i64>>(5).map(|task| TaskId(nat(task))),
        position: row.get::<_, Option<i64>>(8).map(|at| Spot::At(nat(at))),
        attempt: attempt.and_then(|attempt| u32::try_from(attempt).ok()),
        run: row.get::<_, Option<i64>>(7).and_then(|run| u32::try_from(run).ok()),
    };
    ledger.earlier.insert((principal, row.get(2)), earlier);
    Ok(())
}

impl Step<'_> {
    /// What its commands need to see.
    pub(super) fn needs(&self, flow: Option<&Flow>) -> Needs {
        match &self.goal {
            Goal::Task(_, commands) => needs(commands, flow),
            Goal::Birth(_, commands) => needs(commands, None),
            Goal::Next(claim) => needs(&[Command::Claim((*claim).clone())], None),
            Goal::Nothing => Needs::default(),
        }
    }
}
