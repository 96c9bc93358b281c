//! Channels. They are few and asked for rarely, so they are read from the database each time.

use baton_domain::channel::{ChannelCommand, ChannelScene, KeptChannel, decide_channel};
use baton_domain::ids::{ChannelName, TenantId};
use baton_domain::project::RecordEvent;
use baton_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::orders::{Desk, Fail};
use super::pen::{Pen, int, json, nat, parse};
use crate::Error;
use crate::channels::{CHANNELS_TOLD_MAX, ChannelRow};
use crate::order::{Actor, Committed};

type Sql<T> = rusqlite::Result<T>;

const ONE: &str = "SELECT body, version, progress FROM channels WHERE tenant = ?1 AND name = ?2";
const COUNT: &str = "SELECT count(*) FROM channels WHERE tenant = ?1";
const PUT: &str = "INSERT INTO channels (tenant, name, body, version, progress)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (tenant, name) DO UPDATE
    SET body = excluded.body, version = excluded.version, progress = excluded.progress";
const DROP: &str = "DELETE FROM channels WHERE tenant = ?1 AND name = ?2";
const LIST: &str = "SELECT c.body, c.version, c.progress, t.name
    FROM channels c JOIN tenants t ON t.id = c.tenant
    WHERE ?1 IS NULL OR t.name = ?1 ORDER BY t.name, c.name LIMIT ?2";

impl Desk {
    pub(super) fn on_channel(
        &mut self,
        tenant: usize,
        command: &ChannelCommand,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Committed, Fail> {
        let key = self.books.tenants[tenant].key;
        let scene = self.pen.channel_scene(key, command.channel())?;
        let ruling = decide_channel(&scene, command, now)?;
        match &ruling.becomes {
            Some(kept) => self.pen.channel(key, kept)?,
            None => self.pen.drop_channel(key, command.channel())?,
        }
        let position = match ruling.event {
            Some(event) => {
                let events = [RecordEvent::Channel(event)];
                Some(self.write_record_entry(tenant, &events, actor, now)?)
            }
            None => None,
        };
        Ok(Committed::of_no_task(now, position))
    }
}

impl Pen {
    fn channel_scene(&self, tenant: i64, name: &ChannelName) -> Sql<ChannelScene> {
        let mut one = self.conn.prepare_cached(ONE)?;
        let there = one.query_row(params![tenant, name.as_str()], kept).optional()?;
        let count: i64 = self.conn.prepare_cached(COUNT)?.query_row([tenant], |row| row.get(0))?;
        Ok(ChannelScene { there, count: usize::try_from(count).unwrap_or(usize::MAX) })
    }

    fn channel(&mut self, tenant: i64, kept: &KeptChannel) -> Sql<()> {
        let KeptChannel { channel, version, progress } = kept;
        let row = params![tenant, channel.name.as_str(), json(channel), int(*version), progress];
        self.run(PUT, row)
    }

    fn drop_channel(&mut self, tenant: i64, name: &ChannelName) -> Sql<()> {
        self.run(DROP, params![tenant, name.as_str()])
    }
}

fn kept(row: &Row<'_>) -> Sql<KeptChannel> {
    let channel = parse(row.get_ref(0)?.as_str()?)?;
    Ok(KeptChannel { channel, version: nat(row.get(1)?), progress: row.get(2)? })
}

/// The channels of a tenant, or of all.
pub(super) fn channels(
    conn: &Connection,
    tenant: Option<&TenantId>,
) -> Result<Vec<ChannelRow>, Error> {
    let mut found = conn.prepare_cached(LIST)?;
    let wanted = params![tenant.map(TenantId::as_str), int(CHANNELS_TOLD_MAX as u64)];
    let rows = found.query_map(wanted, |row| {
        let name: String = row.get(3)?;
        let tenant = TenantId::new(&name).map_err(|_| rusqlite::Error::InvalidQuery)?;
        Ok(ChannelRow { tenant, kept: kept(row)? })
    })?;
    Ok(rows.collect::<Sql<_>>()?)
}
