//! Channels. Their bodies are not for the role of the readers: where a webhook goes may open something.

use baton_domain::channel::{ChannelCommand, ChannelScene, KeptChannel, decide_channel};
use baton_domain::ids::{ChannelName, TenantId};
use baton_domain::project::RecordEvent;
use baton_domain::time::Timestamp;
use tokio_postgres::Row;

use super::orders::Fail;
use super::reads::Reading;
use super::trouble::Trouble;
use super::wire::{Conn, Param, params};
use crate::Error;
use crate::channels::{CHANNELS_TOLD_MAX, ChannelRow};
use crate::rows::{int, json, nat, parse};

const ONE: &str = "SELECT body, version, progress FROM channels WHERE tenant = $1 AND name = $2";
const COUNT: &str = "SELECT count(*) FROM channels WHERE tenant = $1";
const PUT: &str = "INSERT INTO channels (tenant, name, body, version, progress)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant, name) DO UPDATE
    SET body = excluded.body, version = excluded.version, progress = excluded.progress";
const DROP: &str = "DELETE FROM channels WHERE tenant = $1 AND name = $2";
const LIST: &str = "SELECT c.body, c.version, c.progress, t.name
    FROM channels c JOIN tenants t ON t.id = c.tenant
    WHERE $1::text IS NULL OR t.name = $1 ORDER BY t.name COLLATE \"C\", c.name LIMIT $2";

/// Decides about a channel, and says what is to be written besides the entry.
pub(super) async fn events(
    conn: &mut Conn,
    tenant: i64,
    command: &ChannelCommand,
    now: Timestamp,
) -> Result<(Vec<RecordEvent>, (&'static str, Vec<Param>)), Fail> {
    let scene = scene(conn, tenant, command.channel()).await?;
    let ruling = decide_channel(&scene, command, now)?;
    let name = command.channel().as_str().to_owned();
    let besides = match &ruling.becomes {
        Some(kept) => {
            let (body, progress) = (json(&kept.channel).into_bytes(), kept.progress.clone());
            (PUT, params![tenant, name, body, int(kept.version), progress.into_bytes()])
        }
        None => (DROP, params![tenant, name]),
    };
    Ok((ruling.event.map(RecordEvent::Channel).into_iter().collect(), besides))
}

async fn scene(conn: &mut Conn, tenant: i64, name: &ChannelName) -> Result<ChannelScene, Trouble> {
    let rows = conn.query(ONE, params![tenant, name.as_str().to_owned()]).await?;
    let there = rows.first().map(kept).transpose()?;
    let counted = conn.query(COUNT, params![tenant]).await?;
    let count = counted.first().map_or(0, |row| row.get::<_, i64>(0));
    Ok(ChannelScene { there, count: usize::try_from(count).unwrap_or(usize::MAX) })
}

fn kept(row: &Row) -> Result<KeptChannel, Trouble> {
    let progress = String::from_utf8(row.get::<_, &[u8]>(2).to_vec())
        .map_err(|_| Trouble::Broken("how far a channel is is no text".into()))?;
    Ok(KeptChannel { channel: parse(row.get(0))?, version: nat(row.get(1)), progress })
}

/// The channels of a tenant, or of all.
pub(super) async fn channels(
    reading: &mut Reading<'_>,
    tenant: Option<&TenantId>,
) -> Result<Vec<ChannelRow>, Error> {
    let name = tenant.map(|tenant| tenant.as_str().to_owned());
    let wanted = params![name, int(CHANNELS_TOLD_MAX as u64)];
    let row = |row: &Row| -> Result<ChannelRow, Trouble> {
        let tenant = TenantId::new(row.get::<_, &str>(3))
            .map_err(|_| Trouble::Broken("a tenant has no name".into()))?;
        Ok(ChannelRow { tenant, kept: kept(row)? })
    };
    let rows = reading.query(LIST, wanted).await?;
    let rows: Result<Vec<_>, _> = rows.iter().map(row).collect();
    rows.map_err(Trouble::read)
}
