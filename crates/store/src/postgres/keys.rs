//! Keys: what opens them is kept beside their bodies and never in them.

use std::collections::BTreeMap;

use baton_domain::ids::TenantId;
use baton_domain::key::{Credential, Key, KeyCommand, KeyId, KeyScene, Verifier, Verifiers};
use baton_domain::time::Timestamp;
use tokio_postgres::Row;

use super::load::hash;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::{Conn, Param, params};
use crate::Error;
use crate::keys::{KeyFound, KeyRow};
use crate::read::{PAGE_MAX, Page};
use crate::rows::{int, json, parse};

const TAKEN: &str = "SELECT 1 FROM keys WHERE id = $1 AND tenant <> $2";
const ALL: &str = "SELECT body, verifier, former, former_until FROM keys WHERE tenant = $1";
const PUT: &str = "INSERT INTO keys (tenant, id, body, verifier, former, former_until)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (tenant, id) DO UPDATE SET body = excluded.body, verifier = excluded.verifier,
        former = excluded.former, former_until = excluded.former_until";
const FORGET: &str = "DELETE FROM keys WHERE tenant = $1 AND id = $2";
/// The key with an id or, where nobody has it, the one before it: whether an id is known must not be
/// told by the time that it takes to say no.
const NEAREST: &str = "SELECT k.body, k.verifier, k.former, k.former_until, k.used_at, t.name, k.id
    FROM keys k JOIN tenants t ON t.id = k.tenant
    WHERE k.id = (SELECT max(id) FROM keys WHERE id <= $1)";
const LIST: &str = "SELECT body, used_at FROM keys WHERE tenant = $1 AND id > $2
    ORDER BY id LIMIT $3";
/// Rows are locked in the order of their ids, as by everybody who notes uses.
pub(super) const TOUCH: &str = "UPDATE keys k SET used_at = greatest(k.used_at, n.at)
    FROM (SELECT l.id, n.at FROM unnest($1::text[], $2::int8[]) n (id, at)
          JOIN keys l ON l.id = n.id ORDER BY l.id FOR UPDATE OF l) n
    WHERE k.id = n.id";

/// What a key command may look at; a tenant that nobody has heard of has no keys.
pub(super) async fn scene(
    conn: &mut Conn,
    tenant: i64,
    command: &KeyCommand,
) -> Result<KeyScene, Trouble> {
    let taken = match command {
        KeyCommand::Create(new) => {
            let id = new.id.as_str().to_owned();
            !conn.query(TAKEN, params![id, tenant]).await?.is_empty()
        }
        KeyCommand::Rotate { .. } | KeyCommand::Revoke { .. } => false,
    };
    let mut keys = BTreeMap::new();
    for row in conn.query(ALL, params![tenant]).await? {
        let there = credential(&row)?;
        keys.insert(there.key.id.clone(), there);
    }
    Ok(KeyScene { keys, taken })
}

/// Writes a key.
pub(super) fn put(tenant: i64, there: &Credential) -> (&'static str, Vec<Param>) {
    let verifiers = there.verifiers.as_ref();
    let former = verifiers.and_then(|it| it.former);
    let row = params![
        tenant,
        there.key.id.as_str().to_owned(),
        json(&there.key).into_bytes(),
        verifiers.map(|it| it.current.0.to_vec()),
        former.map(|(verifier, _)| verifier.0.to_vec()),
        former.map(|(_, until)| until.0),
    ];
    (PUT, row)
}

/// Forgets a key.
pub(super) fn forget(tenant: i64, id: &KeyId) -> (&'static str, Vec<Param>) {
    (FORGET, params![tenant, id.as_str().to_owned()])
}

fn credential(row: &Row) -> Result<Credential, Trouble> {
    let key: Key = parse(row.get(0))?;
    let digest = |at: usize| row.get::<_, Option<&[u8]>>(at).map(hash).transpose();
    let (current, former) = (digest(1)?, digest(2)?);
    let until: Option<i64> = row.get(3);
    let former = former.zip(until).map(|(digest, until)| (Verifier(digest), Timestamp(until)));
    let verifiers = current.map(|digest| Verifiers { current: Verifier(digest), former });
    Ok(Credential { key, verifiers })
}

/// A key by its public id, whoever's it is.
pub(super) async fn key(reading: &mut Reading<'_>, id: &KeyId) -> Result<Option<KeyFound>, Error> {
    let rows = reading.query(NEAREST, params![id.as_str().to_owned()]).await?;
    let found = |row: &Row| {
        let tenant = TenantId::new(row.get::<_, &str>(5))
            .map_err(|_| Trouble::Broken("a tenant has no name".into()))?;
        let used_at = row.get::<_, Option<i64>>(4).map(Timestamp);
        Ok(KeyFound { tenant, credential: credential(row)?, used_at })
    };
    let nearest = |row: &Row| {
        let (there, found) = (row.get::<_, &str>(6) == id.as_str(), found(row));
        // Somebody else's row that cannot be read is no reason to fail.
        if there { found.map(Some) } else { Ok(None) }
    };
    Ok(rows.first().map(nearest).transpose().map_err(Trouble::read)?.flatten())
}

/// Keys of a tenant, in the order of their ids.
pub(super) async fn keys(
    reading: &mut Reading<'_>,
    after: Option<&KeyId>,
    count_max: usize,
) -> Result<Page<KeyRow>, Error> {
    let count_max = count_max.clamp(1, PAGE_MAX);
    let after = after.map_or("", KeyId::as_str).to_owned();
    let wanted = params![reading.tenant, after, int(count_max as u64 + 1)];
    let row = |row: &Row| -> Result<KeyRow, Trouble> {
        let used_at = row.get::<_, Option<i64>>(1).map(Timestamp);
        Ok(KeyRow { key: parse(row.get(0))?, used_at })
    };
    let rows = reading.query(LIST, wanted).await?;
    let rows: Result<Vec<_>, _> = rows.iter().map(row).collect();
    let mut rows = rows.map_err(Trouble::read)?;
    let more = rows.len() > count_max;
    rows.truncate(count_max);
    Ok(Page { rows, more, as_of: reading.head })
}
