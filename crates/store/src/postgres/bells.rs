//! What became claimable or can be read is told here at once, and to other servers by NOTIFY, after
//! the commit and on a connection of its own, many tidings at a time. A notice may be lost: whoever
//! looks at the positions now and then finds what nobody told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_domain::ids::TenantId;
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;

use super::Shared;
use super::connections::connect;
use super::trouble::{Trouble, deepest};
use super::wire::params;
use crate::rows::nat;
use crate::{Bell, Freed};

/// How often positions are looked at: what nobody told is found by the second look.
const LOOK_EVERY: Duration = Duration::from_millis(450);
/// How long to wait before a lost connection is made again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// When whoever waits for work looks again at what somebody holds.
const SOON: Duration = Duration::from_millis(500);
/// How long tidings are gathered after a notice: each is a transaction that wakes every server.
const NOTICE_EVERY: Duration = Duration::from_millis(5);
/// Bytes of one notice; the database allows eight thousand.
const NOTICE_BYTES_MAX: usize = 7_000;

const NOTIFY: &str = "SELECT pg_notify('baton', $1)";
const LISTEN: &str = "LISTEN baton";
const POSITIONS: &str = "SELECT id, name, position FROM tenants";

/// Who is told, and what is still to be told.
pub(super) struct Bells {
    bell: Bell,
    /// Which server this is: its own notices come back to it.
    own: u64,
    outbox: Mutex<BTreeSet<(TenantId, bool)>>,
    filled: Notify,
    /// Tenants for which it will ring soon.
    soon: Mutex<BTreeSet<TenantId>>,
    /// How far the entries of each tenant were when this server last rang for all of them.
    heads: Mutex<HashMap<i64, u64>>,
}

impl Bells {
    pub(super) fn new(bell: Bell, own: u64) -> Self {
        let (outbox, soon, heads) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { bell, own, outbox, filled: Notify::new(), soon, heads }
    }

    /// Rings here at once and elsewhere soon.
    pub(super) fn ring(&self, freed: &[Freed]) {
        (self.bell)(freed);
        let told = |freed: &Freed| match freed {
            Freed::Lane(tenant, _) | Freed::Pools(tenant) => (tenant.clone(), true),
            Freed::Entries(tenant) => (tenant.clone(), false),
        };
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.extend(freed.iter().map(told));
        drop(outbox);
        self.filled.notify_one();
    }

    /// This server has added entries after one position, up to another. If somebody else's came
    /// between, they are still to be rung for.
    pub(super) fn own(&self, tenant: i64, after: u64, head: u64) {
        let mut heads = self.heads();
        let known = heads.entry(tenant).or_insert(after);
        if *known == after {
            *known = head;
        }
    }

    fn heads(&self) -> std::sync::MutexGuard<'_, HashMap<i64, u64>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn soon(&self) -> std::sync::MutexGuard<'_, BTreeSet<TenantId>> {
        self.soon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody else's work, of a tenant: anything may be claimable now.
    fn ring_for(&self, tenants: impl IntoIterator<Item = (TenantId, bool)>) {
        let both = |(tenant, claimable): (TenantId, bool)| {
            if claimable { Freed::Pools(tenant) } else { Freed::Entries(tenant) }
        };
        let freed: Vec<Freed> = tenants.into_iter().map(both).collect();
        if !freed.is_empty() {
            (self.bell)(&freed);
        }
    }
}

/// Rings in a moment for whoever waits for work of a tenant: somebody holds what there is, and will
/// tell nobody when it is let go of.
pub(super) fn ring_soon(shared: &Arc<Shared>, tenant: &TenantId) {
    if !shared.bells.soon().insert(tenant.clone()) {
        return;
    }
    let (shared, tenant) = (Arc::clone(shared), tenant.clone());
    tokio::spawn(async move {
        tokio::time::sleep(SOON).await;
        shared.bells.soon().remove(&tenant);
        shared.bells.ring_for([(tenant, true)]);
    });
}

/// Tells other servers, for as long as the store is open.
pub(super) async fn tell(shared: Arc<Shared>) {
    let bells = &shared.bells;
    let mut conn = None;
    loop {
        bells.filled.notified().await;
        let told =
            std::mem::take(&mut *bells.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        for notice in notices(bells.own, &told) {
            if conn.is_none() {
                conn = connect(&shared.address).await.ok();
            }
            let Some(there) = &mut conn else { break };
            if let Err(trouble) = there.query(NOTIFY, params![notice]).await {
                tracing::warn!(?trouble, "other servers were not told: they look for themselves");
                conn = None;
            }
        }
        tokio::time::sleep(NOTICE_EVERY).await;
    }
}

fn notices(own: u64, told: &BTreeSet<(TenantId, bool)>) -> Vec<String> {
    let mut notices: Vec<String> = vec![];
    for (tenant, claimable) in told {
        let word = format!(" {}{tenant}", if *claimable { '!' } else { '.' });
        match notices.last_mut() {
            Some(last) if last.len() + word.len() <= NOTICE_BYTES_MAX => last.push_str(&word),
            Some(_) | None => notices.push(format!("{own:x}{word}")),
        }
    }
    notices
}

/// What a notice says; nothing if it is our own.
fn read_notice(own: u64, notice: &str) -> Vec<(TenantId, bool)> {
    let mut words = notice.split(' ');
    if words.next() == Some(&format!("{own:x}")) {
        return vec![];
    }
    let tiding = |word: &str| {
        let name = word.strip_prefix('!').or(word.strip_prefix('.'))?;
        Some((TenantId::new(name).ok()?, word.starts_with('!')))
    };
    words.filter_map(tiding).collect()
}

/// Listens to other servers, for as long as the store is open. Where a pooler forbids it, positions
/// are all there is to go by.
pub(super) async fn listen(shared: Arc<Shared>) {
    if shared.address.pooled {
        return;
    }
    loop {
        if let Err(why) = hear(&shared).await {
            tracing::debug!(why, "nobody listens to other servers for a moment");
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn hear(shared: &Shared) -> Result<(), String> {
    let connected = shared.address.connect().await;
    let (client, mut connection) = connected.map_err(|error| deepest(&error))?;
    let (said, mut heard) = tokio::sync::mpsc::channel(64);
    let driven = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message
                && said.send(notice.payload().to_owned()).await.is_err()
            {
                break;
            }
        }
    });
    client.batch_execute(LISTEN).await.map_err(|error| deepest(&error))?;
    while let Some(notice) = heard.recv().await {
        shared.bells.ring_for(read_notice(shared.bells.own, &notice));
    }
    drop(driven);
    Err("the connection ended".into())
}

/// Looks at the positions now and then, for as long as the store is open. What this server adds
/// itself is known a moment after it can be seen, so only what is still unknown at the next look
/// is somebody else's.
pub(super) async fn look(shared: Arc<Shared>) {
    let mut suspects: BTreeMap<i64, u64> = BTreeMap::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match positions(&shared).await {
            Ok(found) => suspects = compare(&shared, &suspects, found),
            Err(trouble) => tracing::debug!(?trouble, "positions cannot be looked at"),
        }
    }
}

async fn positions(shared: &Shared) -> Result<Vec<(i64, TenantId, u64)>, Trouble> {
    let mut lent = shared.readers.get().await?;
    lent.begun();
    let rows = lent.query(POSITIONS, vec![]).await?;
    lent.done();
    let named = |row: &tokio_postgres::Row| {
        let name = TenantId::new(row.get::<_, &str>(1)).ok()?;
        Some((row.get(0), name, nat(row.get(2))))
    };
    Ok(rows.iter().filter_map(named).collect())
}

fn compare(
    shared: &Shared,
    suspects: &BTreeMap<i64, u64>,
    found: Vec<(i64, TenantId, u64)>,
) -> BTreeMap<i64, u64> {
    let (mut next, mut foreign) = (BTreeMap::new(), vec![]);
    {
        let mut heads = shared.bells.heads();
        for (tenant, name, head) in found {
            let known = heads.entry(tenant).or_insert(head);
            if *known >= head {
                continue;
            }
            match suspects.get(&tenant) {
                Some(then) if *known < *then => {
                    *known = head;
                    foreign.extend([(name.clone(), false), (name, true)]);
                }
                Some(_) | None => drop(next.insert(tenant, head)),
            }
        }
    }
    shared.bells.ring_for(foreign);
    next
}
