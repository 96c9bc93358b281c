//! What a store tells of channels.

use baton_domain::channel::KeptChannel;
use baton_domain::ids::TenantId;

/// The most channels of all tenants that are told at once: as many as one server can carry on.
pub const CHANNELS_TOLD_MAX: usize = 4_096;

/// A channel, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    /// Whose.
    pub tenant: TenantId,
    /// As it is.
    pub kept: KeptChannel,
}
