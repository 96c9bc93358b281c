//! Channels in the model.

use baton_domain::channel::{ChannelCommand, ChannelScene, decide_channel};
use baton_domain::ids::TenantId;
use baton_domain::project::RecordEvent;

use super::State;
use super::turn::Turn;
use crate::Error;
use crate::channels::{CHANNELS_TOLD_MAX, ChannelRow};
use crate::order::Order;
use crate::read::{About, Happened};

impl Turn<'_> {
    /// Carries out a channel command; tells the position of its entry, if there is one.
    pub(super) fn on_channel(
        &mut self,
        order: &Order,
        command: &ChannelCommand,
    ) -> Result<Option<u64>, Error> {
        let own = self.state.tenants.get(&order.tenant);
        let scene = own.map_or_else(ChannelScene::default, |own| ChannelScene {
            there: own.channels.get(command.channel()).cloned(),
            count: own.channels.len(),
        });
        let now = self.now;
        let ruling = decide_channel(&scene, command, now)?;
        self.admit(&order.tenant)?;
        let own = self.tenant(&order.tenant);
        match ruling.becomes {
            Some(kept) => drop(own.channels.insert(command.channel().clone(), kept)),
            None => drop(own.channels.remove(command.channel())),
        }
        let position = ruling.event.map(|event| {
            own.records_version += 1;
            let about = About::Records(own.records_version);
            let events = vec![RecordEvent::Channel(event)];
            own.record(&order.actor, now, about, Happened::ToRecord(events))
        });
        self.state.committed_at = Some(now);
        Ok(position)
    }
}

impl State {
    pub(super) fn channels(&self, tenant: Option<&TenantId>) -> Vec<ChannelRow> {
        let meant = self.tenants.iter().filter(|(id, _)| tenant.is_none_or(|only| only == *id));
        let rows = meant.flat_map(|(id, own)| {
            let row = |kept: &_| ChannelRow { tenant: id.clone(), kept: Clone::clone(kept) };
            own.channels.values().map(row).collect::<Vec<_>>()
        });
        rows.take(CHANNELS_TOLD_MAX).collect()
    }
}
