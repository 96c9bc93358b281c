//! Channels: by which way people are told that something needs them. How far each has got is the
//! program's to say; the rules see to it that two who carry it on at once do not both do so.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::{ChannelName, Nonce, PrincipalId};
use crate::limits::{CHANNEL_DELAY_MAX, CHANNEL_PROGRESS_BYTES_MAX, CHANNELS_MAX};
use crate::refusal::Refusal;
use crate::text::Text;
use crate::time::{Millis, Timestamp};
use crate::view::Need;

/// By which way, for what and when somebody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    pub name: ChannelName,
    pub way: Way,
    /// What is told; everything that needs a person if it is empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub needs: BTreeSet<Need>,
    /// Whether it is told, too, what is done.
    #[serde(default)]
    pub done: bool,
    /// How long it waits before it tells: what is settled by then is not told.
    #[serde(default)]
    pub delay: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Who added it.
    pub added_by: PrincipalId,
    /// What its secret is made from, so that a channel that is added again has another one.
    pub nonce: Nonce,
}

/// How it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// On the screen of the machine that the server runs on.
    Desktop,
    /// To a program elsewhere, over HTTP.
    Webhook { url: Text<2048> },
}

/// From when to when nobody is told, in minutes of the day, by the clocks of a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    pub from: u16,
    pub to: u16,
    pub zone: Text<64>,
}

/// A channel as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChannel {
    pub channel: Channel,
    /// Whoever notes how far it is must have seen this.
    pub version: u64,
    /// How far it is, in the words of the program.
    pub progress: String,
}

/// What may be asked of the channels of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelCommand {
    /// Add one.
    Add { channel: Box<Channel>, progress: String },
    /// Forget one.
    Remove(ChannelName),
    /// Note how far one is, for whoever has seen its present version.
    Note { channel: ChannelName, seen: u64, progress: String },
}

/// What happened to channels. Where a webhook goes is kept out of it: a URL may open something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum ChannelEvent {
    /// A channel was added.
    ChannelAdded { channel: ChannelName },
    /// A channel was forgotten.
    ChannelRemoved { channel: ChannelName },
}

/// What a channel command may look at.
#[derive(Clone, Debug, Default)]
pub struct ChannelScene {
    /// The channel that is meant.
    pub there: Option<KeptChannel>,
    /// How many the tenant has.
    pub count: usize,
}

/// What becomes of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRuling {
    /// The entry, if there is one: how far a channel is leaves none.
    pub event: Option<ChannelEvent>,
    /// The channel as it will be; none if it is forgotten.
    pub becomes: Option<KeptChannel>,
}

impl ChannelCommand {
    /// Which channel is meant.
    #[must_use]
    pub fn channel(&self) -> &ChannelName {
        match self {
            Self::Add { channel, .. } => &channel.name,
            Self::Remove(channel) | Self::Note { channel, .. } => channel,
        }
    }
}

/// Decides a channel command.
pub fn decide_channel(
    scene: &ChannelScene,
    command: &ChannelCommand,
    now: Timestamp,
) -> Result<ChannelRuling, Refusal> {
    match command {
        ChannelCommand::Add { channel, progress } => {
            channel.check()?;
            fits(progress)?;
            if scene.there.is_some() {
                return Err(Refusal::NameTaken { name: channel.name.to_string() });
            }
            if scene.count >= CHANNELS_MAX {
                return Err(Refusal::full("channels", CHANNELS_MAX));
            }
            // Not from 1: whoever still carries on one of this name that is gone has seen less.
            let version = u64::try_from(now.0).unwrap_or(0);
            let (channel, progress) = ((**channel).clone(), progress.clone());
            let event = ChannelEvent::ChannelAdded { channel: channel.name.clone() };
            let becomes = Some(KeptChannel { channel, version, progress });
            Ok(ChannelRuling { event: Some(event), becomes })
        }
        ChannelCommand::Remove(name) => {
            scene.there.as_ref().ok_or(Refusal::NotFound)?;
            let event = ChannelEvent::ChannelRemoved { channel: name.clone() };
            Ok(ChannelRuling { event: Some(event), becomes: None })
        }
        ChannelCommand::Note { seen, progress, .. } => {
            fits(progress)?;
            let there = scene.there.as_ref().ok_or(Refusal::NotFound)?;
            if there.version != *seen {
                return Err(Refusal::VersionChanged { version: there.version });
            }
            let (version, progress) = (seen + 1, progress.clone());
            let becomes = KeptChannel { version, progress, channel: there.channel.clone() };
            Ok(ChannelRuling { event: None, becomes: Some(becomes) })
        }
    }
}

fn fits(progress: &str) -> Result<(), Refusal> {
    if progress.len() <= CHANNEL_PROGRESS_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::Invalid { field: "progress".into(), rule: "is too long".into() })
}

impl Channel {
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |field: &str, rule: &str| {
            Err(Refusal::Invalid { field: field.into(), rule: rule.into() })
        };
        if self.delay > CHANNEL_DELAY_MAX {
            return refuse("delay", "must be at most 1 day");
        }
        if self.quiet.as_ref().is_some_and(|quiet| quiet.from == quiet.to) {
            return refuse("quiet_hours", "must begin and end at different times");
        }
        Ok(())
    }
}
