//! The last flush of a batch: everything that was decided, the positions, the entries and the
//! commit, sent at once. The position of a tenant is locked only here, so that no round trip is made
//! while anybody waits for it, and positions are committed in the order in which they are given.

use std::collections::{BTreeMap, HashMap};

use baton_domain::decide::due_at;
use baton_domain::history::Past;
use baton_domain::lane::Sort;
use baton_domain::project::Project;
use baton_domain::task::{Flow, Kind};
use baton_domain::time::Timestamp;

use super::ink::{NewEntry, Written};
use super::room::{Kept, Room};
use super::standby;
use super::trouble::Trouble;
use super::wire::{Conn, Flush, Param, params};
use crate::chain::ROOT;
use crate::rows::{int, json, kept_since, lane_number, nat, stage_word};

pub(super) const COMMIT: &str = "COMMIT";
/// Leases that end, leases that begin or last longer, and what is over with them. They touch
/// different rows, and a statement has a price of its own, so one statement has them all.
const LEASES: &str = "WITH gone AS (
        DELETE FROM leases l USING unnest($1::int8[], $2::int8[]) n (tenant, task)
        WHERE l.tenant = n.tenant AND l.task = n.task),
    over AS (
        INSERT INTO attempts (tenant, task, number, run, version, principal, body)
        SELECT * FROM unnest($3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[],
            $8::text[], $9::bytea[])),
    finished AS (
        INSERT INTO runs (tenant, task, number, version, body)
        SELECT * FROM unnest($10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::bytea[]))
    INSERT INTO leases (tenant, task, attempt, expires_at, length, heard, holder, nonce)
    SELECT * FROM unnest($15::int8[], $16::int8[], $17::int8[], $18::int8[], $19::int8[],
        $20::int8[], $21::text[], $22::bytea[])
    ON CONFLICT (tenant, task) DO UPDATE SET attempt = excluded.attempt, holder = excluded.holder,
        nonce = excluded.nonce, expires_at = excluded.expires_at, length = excluded.length,
        heard = excluded.heard";
const BRIEFS: &str = "INSERT INTO briefs (tenant, task, project, parent, version, body)
    SELECT * FROM unnest($1::int8[], $2::int8[], $3::text[], $4::int8[], $5::int8[], $6::bytea[])
    ON CONFLICT (tenant, task) DO UPDATE SET version = excluded.version, body = excluded.body";
const CHECKPOINTS: &str = "INSERT INTO checkpoints (tenant, task, number, run, version, body)
    SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::bytea[])";
const ADD_EDGES: &str = "INSERT INTO edges (tenant, task, on_task)
    SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[]) ON CONFLICT DO NOTHING";
const DROP_EDGES: &str = "DELETE FROM edges e
    USING unnest($1::int8[], $2::int8[], $3::int8[]) n (tenant, task, on_task)
    WHERE e.tenant = n.tenant AND e.task = n.task AND e.on_task = n.on_task";
pub(super) const POOLS: &str = "INSERT INTO pools (tenant, name, shut_until, body)
    SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[], $4::bytea[])
    ON CONFLICT (tenant, name) DO UPDATE SET shut_until = excluded.shut_until,
        body = excluded.body";
pub(super) const DROP_POOLS: &str = "DELETE FROM pools p
    USING unnest($1::int8[], $2::text[]) n (tenant, name)
    WHERE p.tenant = n.tenant AND p.name = n.name";
const REACTIONS: &str = "INSERT INTO reactions (tenant, task, body)
    SELECT n.tenant, n.task, n.body
    FROM unnest($1::int8[], $2::int8[], $3::bytea[]) WITH ORDINALITY n (tenant, task, body, at)
    ORDER BY n.at";
const DROP_REACTIONS: &str =
    "DELETE FROM reactions r USING unnest($1::int8[], $2::int8[]) n (tenant, id)
    WHERE r.tenant = n.tenant AND r.id = n.id";
const BIRTHS: &str = "UPDATE births SET last = $2 WHERE tenant = $1";
pub(super) const REQUESTS: &str = "INSERT INTO requests
        (tenant, principal, key, fingerprint, at, task, entry_task, entry, attempt, run)
    SELECT n.tenant, n.principal, n.key, n.fingerprint, n.at, n.task, n.entry_task, n.entry,
        n.attempt, n.run
    FROM unnest($1::int8[], $2::text[], $3::text[], $4::bytea[], $5::int8[], $6::int8[],
        $7::int8[], $8::int8[], $9::int8[], $10::int8[])
        n (tenant, principal, key, fingerprint, task, entry_task, entry, attempt, run, at)
    ORDER BY n.tenant, n.principal, n.key";
pub(super) const POSITION: &str = "UPDATE tenants
    SET position = position + $2, last_at = greatest(last_at, $3) WHERE id = $1
    RETURNING position";
/// The first entries of their chains in this batch know the link before them.
const FIRST_ENTRIES: &str = "INSERT INTO events
        (tenant, position, task, version, at, principal, actor, salt, payload, wrote, link)
    SELECT n.tenant, t.position - n.back, n.task, n.version, n.at, n.principal, n.actor,
        n.salt, n.payload, n.wrote,
        sha256(n.before || n.first || int8send(t.position - n.back) || int8send(n.at)
            || n.second)
    FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::bytea[],
        $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::int8[],
        $13::bytea[])
        n (tenant, back, task, version, principal, actor, salt, payload, wrote, first, second, at,
           before)
    JOIN tenants t ON t.id = n.tenant";
/// Those after them find it where it was just written.
const LATER_ENTRIES: &str = "INSERT INTO events
        (tenant, position, task, version, at, principal, actor, salt, payload, wrote, link)
    SELECT n.tenant, t.position - n.back, n.task, n.version, n.at, n.principal, n.actor,
        n.salt, n.payload, n.wrote,
        sha256(e.link || n.first || int8send(t.position - n.back) || int8send(n.at)
            || n.second)
    FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::bytea[],
        $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[], $12::int8[])
        n (tenant, back, task, version, principal, actor, salt, payload, wrote, first, second, at)
    JOIN tenants t ON t.id = n.tenant
    JOIN events e ON e.tenant = n.tenant AND e.task = n.task AND e.version = n.version - 1";
/// Tasks that were born in this batch.
const NEW_FLOWS: &str = "INSERT INTO flows (tenant, task, stage, version, live, lane, probe,
        ready_at, due_at, held, ended_at, body, project, epic, head)
    SELECT n.*, (SELECT e.link FROM events e WHERE e.tenant = n.tenant AND e.task = n.task
        AND e.version = n.version)
    FROM unnest($1::int8[], $2::int8[], $3::text[], $4::int8[], $5::bool[], $6::int8[],
        $7::int8[], $8::int8[], $9::int8[], $10::bool[], $11::int8[], $12::bytea[], $13::text[],
        $14::bool[]) n (tenant, task, stage, version, live, lane, probe, ready_at, due_at, held,
        ended_at, body, project, epic)";
/// All others: they are there, and locked.
const FLOWS: &str = "UPDATE flows f SET stage = n.stage, version = n.version, live = n.live,
        lane = n.lane, probe = n.probe, ready_at = n.ready_at, due_at = n.due_at, held = n.held,
        ended_at = n.ended_at, body = n.body,
        head = (SELECT e.link FROM events e WHERE e.tenant = n.tenant AND e.task = n.task
            AND e.version = n.version)
    FROM unnest($1::int8[], $2::int8[], $3::text[], $4::int8[], $5::bool[], $6::int8[],
        $7::int8[], $8::int8[], $9::int8[], $10::bool[], $11::int8[], $12::bytea[])
        n (tenant, task, stage, version, live, lane, probe, ready_at, due_at, held, ended_at, body)
    WHERE f.tenant = n.tenant AND f.task = n.task";

/// How a flush ended: the last position of each tenant that has new entries.
pub(super) type Heads = HashMap<i64, u64>;

/// Writes everything, and what goes besides, and commits. If the connection is lost on the way, nobody knows.
pub(super) async fn commit(
    conn: &mut Conn,
    room: &Room,
    besides: Vec<(&'static str, Vec<Param>)>,
) -> Result<Heads, Trouble> {
    let mut flush = Flush::default();
    leases(&mut flush, room);
    briefs(&mut flush, &room.written);
    graph(&mut flush, &room.written);
    pools(&mut flush, room);
    if room.written.born {
        for (tenant, ledger) in &room.tenants {
            let last = ledger.last_born.map(int);
            last.map(|last| flush.add(BIRTHS, params![*tenant, last]));
        }
    }
    requests(&mut flush, room);
    let positions = positions(&mut flush, room);
    flows(&mut flush, room);
    if room.is_followed && !is_needed(room) {
        flush.add(standby::MARK, vec![]);
    }
    for (sql, params) in besides {
        flush.add(sql, params);
    }
    flush.add(COMMIT, vec![]);
    let mut answers = standby::commit(conn, flush).await?;
    let head =
        |(tenant, at): (i64, usize)| answers.rows(at).first().map(|row| (tenant, nat(row.get(0))));
    Ok(positions.into_iter().filter_map(head).collect())
}

/// Whether anything would be written.
pub(super) fn is_needed(room: &Room) -> bool {
    let changed = |kept: &Kept| kept.lease_changed || kept.entries > 0;
    !room.written.is_nothing()
        || room.tenants.values().any(|ledger| ledger.tasks.values().any(changed))
}

/// Leases, and rows of history. Several of one order keep their order in every table.
fn leases(flush: &mut Flush, room: &Room) {
    let mut gone: [Vec<i64>; 2] = Default::default();
    let mut rows: [Vec<i64>; 6] = Default::default();
    let (mut holders, mut nonces) = (vec![], vec![]);
    for (tenant, ledger) in &room.tenants {
        for (task, kept) in ledger.tasks.iter().filter(|(_, kept)| kept.lease_changed) {
            let Some(lease) = &kept.lease else {
                push(&mut gone, [*tenant, int(task.0)]);
                continue;
            };
            let (attempt, length) = (i64::from(lease.attempt), int(lease.length.0));
            let (expires_at, heard) = (lease.expires_at.0, int(lease.heard));
            push(&mut rows, [*tenant, int(task.0), attempt, expires_at, length, heard]);
            holders.push(lease.holder.as_str().to_owned());
            nonces.push(lease.nonce.0.to_be_bytes().to_vec());
        }
    }
    let (mut over, count) = history(flush, &room.written);
    if gone[0].is_empty() && rows[0].is_empty() && count == 0 {
        return;
    }
    let [tenants, tasks] = gone;
    let mut params = params![tenants, tasks];
    params.append(&mut over);
    let [tenants, tasks, attempts, expiries, lengths, heard] = rows;
    params.extend(params![tenants, tasks, attempts, expiries, lengths, heard, holders, nonces]);
    flush.add(LEASES, params);
}

/// Attempts and runs that are over, to go with the leases, and how many; checkpoints by themselves.
fn history(flush: &mut Flush, written: &Written) -> (Vec<Param>, usize) {
    let mut attempts: [Vec<i64>; 5] = Default::default();
    let mut runs: [Vec<i64>; 4] = Default::default();
    let mut checkpoints: [Vec<i64>; 5] = Default::default();
    let (mut holders, mut of_attempts, mut of_runs, mut of_checkpoints) =
        (vec![], vec![], vec![], vec![]);
    for (tenant, task, version, record, body) in &written.records {
        let (task, version, body) = (int(task.0), int(*version), body.clone().into_bytes());
        match record {
            Past::Attempt(row) => {
                let (number, run) = (i64::from(row.number), i64::from(row.run));
                push(&mut attempts, [*tenant, task, number, run, version]);
                holders.push(row.holder.as_str().to_owned());
                of_attempts.push(body);
            }
            Past::Run(row) => {
                push(&mut runs, [*tenant, task, i64::from(row.number), version]);
                of_runs.push(body);
            }
            Past::Checkpoint(row) => {
                let (number, run) = (i64::from(row.number), i64::from(row.run));
                push(&mut checkpoints, [*tenant, task, number, run, version]);
                of_checkpoints.push(body);
            }
        }
    }
    if !of_checkpoints.is_empty() {
        let [a, b, c, d, e] = checkpoints;
        flush.add(CHECKPOINTS, params![a, b, c, d, e, of_checkpoints]);
    }
    let count = of_attempts.len() + of_runs.len();
    let [a, b, c, d, e] = attempts;
    let mut over = params![a, b, c, d, e, holders, of_attempts];
    let [a, b, c, d] = runs;
    over.extend(params![a, b, c, d, of_runs]);
    (over, count)
}

fn push<const N: usize>(columns: &mut [Vec<i64>; N], row: [i64; N]) {
    columns.iter_mut().zip(row).for_each(|(column, number)| column.push(number));
}

/// Only the last of several briefs of one task is kept: a row may be written once.
fn briefs(flush: &mut Flush, written: &Written) {
    let last: BTreeMap<_, _> = written.briefs.iter().map(|row| ((row.0, row.1), row)).collect();
    if last.is_empty() {
        return;
    }
    let mut numbers: [Vec<i64>; 3] = Default::default();
    let (mut parents, mut projects, mut bodies) = (vec![], vec![], vec![]);
    for (tenant, task, project, parent, version, body) in last.into_values() {
        push(&mut numbers, [*tenant, int(task.0), int(*version)]);
        parents.push(parent.map(|parent| int(parent.0)));
        projects.push(project.clone());
        bodies.push(body.clone().into_bytes());
    }
    let [tenants, tasks, versions] = numbers;
    flush.add(BRIEFS, params![tenants, tasks, projects, parents, versions, bodies]);
}

fn graph(flush: &mut Flush, written: &Written) {
    // What one order declares and withdraws happens in its order.
    for (tenant, task, on, add) in &written.edges {
        let sql = if *add { ADD_EDGES } else { DROP_EDGES };
        flush.add(sql, params![vec![*tenant], vec![int(task.0)], vec![int(on.0)]]);
    }
    if !written.reactions.is_empty() {
        let mut numbers: [Vec<i64>; 2] = Default::default();
        let mut bodies = vec![];
        for (tenant, reaction) in &written.reactions {
            push(&mut numbers, [*tenant, int(reaction.to.0)]);
            bodies.push(json(reaction).into_bytes());
        }
        let [tenants, tasks] = numbers;
        flush.add(REACTIONS, params![tenants, tasks, bodies]);
    }
    if !written.told.is_empty() {
        let (tenants, ids): (Vec<i64>, Vec<i64>) = written.told.iter().copied().unzip();
        flush.add(DROP_REACTIONS, params![tenants, ids]);
    }
}

fn pools(flush: &mut Flush, room: &Room) {
    let (mut of_gone, mut gone) = (vec![], vec![]);
    let (mut tenants, mut names, mut ends, mut bodies) = (vec![], vec![], vec![], vec![]);
    for (tenant, ledger) in &room.tenants {
        for name in &ledger.pools_changed {
            let Some(pool) = ledger.pools.get(name) else {
                of_gone.push(*tenant);
                gone.push(json(name));
                continue;
            };
            tenants.push(*tenant);
            names.push(json(name));
            let until = pool.shut.as_ref().and_then(|shut| shut.until);
            ends.push(until.map(|until| until.0));
            bodies.push(json(pool).into_bytes());
        }
    }
    if !gone.is_empty() {
        flush.add(DROP_POOLS, params![of_gone, gone]);
    }
    if !names.is_empty() {
        flush.add(POOLS, params![tenants, names, ends, bodies]);
    }
}

fn requests(flush: &mut Flush, room: &Room) {
    let requests = &room.written.requests;
    if requests.is_empty() {
        return;
    }
    let text = |of: fn(&super::ink::NewRequest) -> &String| -> Vec<String> {
        requests.iter().map(|row| of(row).clone()).collect()
    };
    let tenants: Vec<i64> = requests.iter().map(|row| row.tenant).collect();
    let prints: Vec<Vec<u8>> = requests.iter().map(|row| row.fingerprint.to_vec()).collect();
    let tasks: Vec<_> = requests.iter().map(|row| row.task.map(|task| int(task.0))).collect();
    let of: Vec<_> = requests.iter().map(|row| row.entry.map(|(task, _)| int(task))).collect();
    let entries: Vec<_> =
        requests.iter().map(|row| row.entry.map(|(_, version)| int(version))).collect();
    let attempts: Vec<_> = requests.iter().map(|row| row.attempt.map(i64::from)).collect();
    let runs: Vec<_> = requests.iter().map(|row| row.run.map(i64::from)).collect();
    let (principals, keys) = (text(|row| &row.principal), text(|row| &row.key));
    let times: Vec<i64> = requests.iter().map(|row| row.at.0).collect();
    flush.add(
        REQUESTS,
        params![tenants, principals, keys, prints, tasks, of, entries, attempts, runs, times],
    );
}

/// Takes the positions, tenant by tenant in their order, and writes the entries.
fn positions(flush: &mut Flush, room: &Room) -> Vec<(i64, usize)> {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for entry in &room.written.entries {
        *counts.entry(entry.tenant).or_default() += 1;
    }
    let position = |(tenant, count): (&i64, &i64)| {
        (*tenant, flush.add(POSITION, params![*tenant, *count, room.now.0]))
    };
    let positions = counts.iter().map(position).collect();
    let waves = room.written.entries.iter().map(|entry| entry.wave + 1).max().unwrap_or(0);
    for wave in 0..waves {
        let of_wave: Vec<&NewEntry> =
            room.written.entries.iter().filter(|entry| entry.wave == wave).collect();
        entries(flush, &of_wave, &counts);
    }
    positions
}

fn entries(flush: &mut Flush, of_wave: &[&NewEntry], counts: &BTreeMap<i64, i64>) {
    let first = of_wave.iter().all(|entry| entry.wave == 0);
    let numbers = |of: fn(&NewEntry) -> i64| of_wave.iter().map(|entry| of(entry)).collect();
    let bytes = |of: fn(&NewEntry) -> Vec<u8>| -> Vec<Vec<u8>> {
        of_wave.iter().map(|entry| of(entry)).collect()
    };
    let tenants: Vec<i64> = numbers(|entry| entry.tenant);
    let back =
        |entry: &&NewEntry| counts.get(&entry.tenant).copied().unwrap_or(0) - int(entry.place);
    let back: Vec<i64> = of_wave.iter().map(back).collect();
    let (tasks, versions): (Vec<i64>, Vec<i64>) =
        (numbers(|entry| int(entry.task)), numbers(|entry| int(entry.version)));
    let principals: Vec<String> = of_wave.iter().map(|entry| entry.principal.clone()).collect();
    let mut params = params![
        tenants,
        back,
        tasks,
        versions,
        principals,
        bytes(|entry| entry.actor.clone().into_bytes()),
        bytes(|entry| entry.salt.to_vec()),
        bytes(|entry| entry.payload.clone().into_bytes()),
        bytes(|entry| entry.wrote.clone()),
        bytes(|entry| entry.parts.0.clone()),
        bytes(|entry| entry.parts.1.clone()),
        numbers(|entry| entry.at.0),
    ];
    if first {
        params.extend(params![bytes(|entry| entry.before.to_vec())]);
    }
    flush.add(if first { FIRST_ENTRIES } else { LATER_ENTRIES }, params);
}

/// When time has something to do with a task, its lease and the amnesty apart.
fn due(flow: &Flow) -> Option<Timestamp> {
    let nobody = Project::gone(flow.project.clone());
    due_at(flow, None, &nobody, Timestamp(0))
}

fn flows(flush: &mut Flush, room: &Room) {
    let (mut new, mut moved) = (vec![], vec![]);
    for (tenant, ledger) in &room.tenants {
        for kept in ledger.tasks.values().filter(|kept| kept.entries > 0) {
            let born = kept.head == ROOT;
            (if born { &mut new } else { &mut moved }).push((*tenant, &*kept.flow));
        }
    }
    if !new.is_empty() {
        let projects: Vec<String> =
            new.iter().map(|(_, flow)| flow.project.as_str().to_owned()).collect();
        let epics: Vec<bool> = new.iter().map(|(_, flow)| flow.kind == Kind::Epic).collect();
        let mut params = columns_of(&new);
        params.extend(params![projects, epics]);
        flush.add(NEW_FLOWS, params);
    }
    if !moved.is_empty() {
        flush.add(FLOWS, columns_of(&moved));
    }
}

/// What may change of a task, and is looked for.
fn columns_of(flows: &[(i64, &Flow)]) -> Vec<Param> {
    let mut numbers: [Vec<i64>; 4] = Default::default();
    let mut perhaps: [Vec<Option<i64>>; 4] = Default::default();
    let mut flags: [Vec<bool>; 2] = Default::default();
    let (mut stages, mut bodies) = (vec![], vec![]);
    for (tenant, flow) in flows {
        let live = flow.ending().is_none();
        let lanes = if live { flow.lanes() } else { vec![] };
        let lane = |probes: bool| {
            let lane = lanes.iter().find(|lane| (lane.sort == Sort::Probe) == probes);
            lane.map(lane_number)
        };
        push(&mut numbers, [*tenant, int(flow.id.0), int(flow.version), flow.ready_at().0]);
        let due = due(flow).filter(|_| live).map(|at| at.0);
        let row = [lane(false), lane(true), due, kept_since(flow).map(|at| at.0)];
        perhaps.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        let held = flow.run.as_ref().is_some_and(|run| run.held().is_some());
        flags.iter_mut().zip([live, held && live]).for_each(|(column, flag)| column.push(flag));
        stages.push(stage_word(&flow.stage).to_owned());
        bodies.push(json(*flow).into_bytes());
    }
    let [tenants, tasks, versions, ready] = numbers;
    let [lanes, probes, dues, ends] = perhaps;
    let [live, held] = flags;
    params![tenants, tasks, stages, versions, live, lanes, probes, ready, dues, held, ends, bodies]
}
