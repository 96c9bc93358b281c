//! Keys. They are asked for rarely enough to be read from the database each time; what checks
//! callers reads them through a cache of its own.

use std::collections::BTreeMap;

use baton_domain::ids::TenantId;
use baton_domain::key::{
    Credential, Key, KeyCommand, KeyId, KeyScene, Verifier, Verifiers, decide_key,
};
use baton_domain::project::RecordEvent;
use baton_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::orders::{Desk, Fail};
use super::pen::{Pen, int, json, parse};
use super::reads;
use crate::Error;
use crate::keys::{KeyFound, KeyRow, USES_MAX};
use crate::order::{Actor, Committed};
use crate::read::{PAGE_MAX, Page};

type Sql<T> = rusqlite::Result<T>;

impl Desk {
    pub(super) fn on_key(
        &mut self,
        tenant: usize,
        command: &KeyCommand,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let key = self.books.tenants[tenant].key;
        let scene = self.pen.key_scene(Some(key), command)?;
        let ruling = decide_key(&scene, command, now)?;
        let position = if ruling.events.is_empty() {
            None
        } else {
            for credential in &ruling.written {
                self.pen.key(key, credential)?;
            }
            for id in &ruling.forgotten {
                self.pen.drop_key(key, id)?;
            }
            let events: Vec<_> = ruling.events.into_iter().map(RecordEvent::Key).collect();
            Some(self.write_record_entry(tenant, &events, actor, now)?)
        };
        Ok(Committed::of_no_task(now, position))
    }
}

impl Pen {
    /// What a key command may look at; a tenant that nobody has heard of has no keys.
    pub(super) fn key_scene(&self, tenant: Option<i64>, command: &KeyCommand) -> Sql<KeyScene> {
        let taken = match command {
            KeyCommand::Create(new) => {
                let sql = "SELECT 1 FROM keys WHERE id = ?1 AND tenant IS NOT ?2";
                self.conn.prepare_cached(sql)?.exists(params![new.id.as_str(), tenant])?
            }
            KeyCommand::Rotate { .. } | KeyCommand::Revoke { .. } => false,
        };
        let mut keys = BTreeMap::new();
        let sql = "SELECT body, verifier, former, former_until FROM keys WHERE tenant = ?1";
        let mut found = self.conn.prepare_cached(sql)?;
        let mut rows = found.query([tenant])?;
        while let Some(row) = rows.next()? {
            let there = credential(row)?;
            keys.insert(there.key.id.clone(), there);
        }
        Ok(KeyScene { keys, taken })
    }

    fn key(&mut self, tenant: i64, there: &Credential) -> Sql<()> {
        let verifiers = there.verifiers.as_ref();
        let former = verifiers.and_then(|it| it.former);
        self.run(
            "INSERT INTO keys (tenant, id, body, verifier, former, former_until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (tenant, id) DO UPDATE
             SET body = excluded.body, verifier = excluded.verifier, former = excluded.former,
                 former_until = excluded.former_until",
            params![
                tenant,
                there.key.id.as_str(),
                json(&there.key),
                verifiers.map(|it| it.current.0),
                former.map(|(verifier, _)| verifier.0),
                former.map(|(_, until)| until.0),
            ],
        )
    }

    fn drop_key(&mut self, tenant: i64, id: &KeyId) -> Sql<()> {
        let sql = "DELETE FROM keys WHERE tenant = ?1 AND id = ?2";
        self.run(sql, params![tenant, id.as_str()])
    }

    /// Notes when keys were last used; of a key that is gone nothing is noted.
    pub(super) fn touch_keys(&mut self, uses: &[(KeyId, Timestamp)]) -> Sql<()> {
        for (id, at) in uses.iter().take(USES_MAX) {
            let sql = "UPDATE keys SET used_at = max(coalesce(used_at, ?2), ?2) WHERE id = ?1";
            self.run(sql, params![id.as_str(), at.0])?;
        }
        Ok(())
    }
}

fn credential(row: &Row<'_>) -> Sql<Credential> {
    let key: Key = parse(row.get_ref(0)?.as_str()?)?;
    let current: Option<[u8; 32]> = row.get(1)?;
    let former: Option<[u8; 32]> = row.get(2)?;
    let until: Option<i64> = row.get(3)?;
    let former = former.zip(until).map(|(digest, until)| (Verifier(digest), Timestamp(until)));
    let verifiers = current.map(|digest| Verifiers { current: Verifier(digest), former });
    Ok(Credential { key, verifiers })
}

/// The key with an id or, where nobody has it, the one before it, or else the first: whether an id is
/// known must not be told by the time that it takes to say no.
const NEAREST: &str = "SELECT k.body, k.verifier, k.former, k.former_until, k.used_at, t.name, k.id
    FROM keys k JOIN tenants t ON t.id = k.tenant
    WHERE k.id = max(ifnull((SELECT max(id) FROM keys WHERE id <= ?1), ''),
                     (SELECT min(id) FROM keys))";

/// A key by its public id, whoever's it is.
pub(super) fn key(conn: &Connection, id: &KeyId) -> Result<Option<KeyFound>, Error> {
    let found = |row: &Row<'_>| {
        let name: String = row.get(5)?;
        let tenant = TenantId::new(&name).map_err(|_| rusqlite::Error::InvalidQuery)?;
        let used_at: Option<i64> = row.get(4)?;
        let credential = credential(row)?;
        Ok(KeyFound { tenant, credential, used_at: used_at.map(Timestamp) })
    };
    let nearest = |row: &Row<'_>| {
        let (there, found) = (row.get_ref(6)?.as_str()? == id.as_str(), found(row));
        // Somebody else's row that cannot be read is no reason to fail.
        if there { found.map(Some) } else { Ok(None) }
    };
    Ok(conn.prepare_cached(NEAREST)?.query_row([id.as_str()], nearest).optional()?.flatten())
}

/// Keys of a tenant, in the order of their ids.
pub(super) fn keys(
    conn: &Connection,
    tenant: &TenantId,
    after: Option<&KeyId>,
    count_max: usize,
) -> Result<Page<KeyRow>, Error> {
    let reads::Tenancy { key, head: as_of, .. } = reads::tenant(conn, tenant)?;
    let count_max = count_max.clamp(1, PAGE_MAX);
    let sql = "SELECT body, used_at FROM keys WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
    let mut found = conn.prepare_cached(sql)?;
    let after = after.map_or("", KeyId::as_str);
    let rows = found.query_map(params![key, after, int(count_max as u64 + 1)], |row| {
        let used_at: Option<i64> = row.get(1)?;
        Ok(KeyRow { key: parse(row.get_ref(0)?.as_str()?)?, used_at: used_at.map(Timestamp) })
    })?;
    let mut rows: Vec<_> = rows.collect::<Sql<_>>()?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    Ok(Page { rows, more, as_of })
}

#[cfg(test)]
mod tests;
