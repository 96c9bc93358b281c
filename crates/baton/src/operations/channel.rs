//! Channels: by which ways people are told that something needs them.

use std::collections::BTreeSet;

use baton_domain::channel::{Channel, ChannelCommand, KeptChannel, Quiet, Way};
use baton_domain::ids::{ChannelName, TenantId};
use baton_domain::text::Text;
use baton_domain::time::Millis;
use baton_domain::view::Need;

use crate::call::Call;
use crate::engine::Engine;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::redaction::MASK;
use crate::shape::{PageSize, Span, Violation, record};
use crate::telling::{Progress, zone};
use crate::views::ChannelView;

const COLUMNS: &[&str] = &["name", "to", "waiting", "told", "broken_since", "broken"];

record! {
    /// A channel to be.
    pub struct Add {
        /// What people call it.
        channel: ChannelName,
        /// Where a webhook goes; without it, the desktop of the server's machine.
        webhook: Option<Text<2048>>,
        /// What is told; otherwise everything that needs a person.
        need: Option<BTreeSet<Need>>,
        /// Tell, too, what is done.
        done: Option<bool>,
        /// Wait so long before telling: what is settled by then is not told. Otherwise nothing.
        delay: Option<Span>,
        /// When nobody is told, by the clocks of which place: `22:00-07:00 Europe/Berlin`.
        quiet_hours: Option<Text<96>>,
    }

    /// Which channels.
    pub struct List {
        /// After this one.
        after: Option<ChannelName>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Channels.
    pub struct Channels {
        /// In the order of their names.
        items: Vec<ChannelView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<ChannelName>,
    }

    /// A channel to be tried out.
    pub struct Test {
        /// Which channel.
        channel: ChannelName,
    }

    /// A channel to be forgotten.
    pub struct Remove {
        /// Which channel.
        channel: ChannelName,
    }

    /// A channel that is gone.
    pub struct Gone {
        /// Which channel.
        channel: ChannelName,
    }
}

impl Operation for Add {
    const ABOUT: Declaration = Declaration {
        noun: "channel",
        verb: "add",
        summary: "Tell people by a webhook or on the desktop what needs them; the secret of a webhook is shown this once",
        method: Method::Put,
        path: "/v1/channels/{channel}",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints { open_world: true, ..Hints::ADDS },
        columns: COLUMNS,
    };

    type Answer = ChannelView;

    async fn perform(self, call: &Call) -> Result<Answered<ChannelView>, Problem> {
        let (engine, caller) = (call.engine(), call.caller());
        let messenger = engine.messenger().ok_or_else(nobody)?;
        // A place that a secret was taken out of is another place.
        if self.webhook.as_ref().is_some_and(|url| url.as_str().contains(MASK)) {
            return Err(invalid("webhook", "must not contain a secret"));
        }
        let quiet = self.quiet_hours.map(|text| quiet(text.as_str())).transpose()?;
        let channel = Channel {
            name: self.channel,
            way: self.webhook.map_or(Way::Desktop, |url| Way::Webhook { url }),
            needs: self.need.unwrap_or_default(),
            done: self.done.unwrap_or(false),
            delay: self.delay.map_or(Millis(0), |delay| delay.0),
            quiet,
            added_by: caller.principal.clone(),
            nonce: engine.nonce(),
        };
        if let Some((field, rule)) = messenger.objects(&channel) {
            return Err(invalid(field, &rule));
        }
        let name = channel.name.clone();
        let progress = Progress::from(engine.head(&caller.tenant).await?).text();
        let add = ChannelCommand::Add { channel: Box::new(channel), progress };
        let committed = call.on_channel(add).await?;
        // A repeated request is told of the channel that the first one made.
        let kept = find(engine, &caller.tenant, &name).await?;
        let mut answered = call.done(ChannelView::of(&kept), &committed);
        // It is made anew from what is kept, so a repeated request is told it, too.
        if kept.channel.way != Way::Desktop && kept.channel.added_by == caller.principal {
            answered.secrets = vec![("secret", messenger.secret(&caller.tenant, &kept.channel))];
        }
        Ok(answered)
    }
}

impl Operation for List {
    const ABOUT: Declaration =
        Declaration::look(("channel", "list"), "/v1/channels", COLUMNS, "List channels");

    type Answer = Channels;

    async fn perform(self, call: &Call) -> Result<Answered<Channels>, Problem> {
        let as_of = call.as_of().await?;
        let rows = call.engine().channels(Some(&call.caller().tenant)).await?;
        let count_max = PageSize::or_usual(self.limit);
        let views = rows.iter().map(|row| ChannelView::of(&row.kept));
        let later = views.filter(|view| self.after.as_ref().is_none_or(|after| view.name > *after));
        let mut items: Vec<_> = later.take(count_max + 1).collect();
        let more = items.len() > count_max;
        items.truncate(count_max);
        let next = items.last().filter(|_| more).map(|last| last.name.clone());
        Ok(Answered::read(Channels { items, next }, as_of))
    }
}

impl Operation for Test {
    const ABOUT: Declaration = Declaration {
        noun: "channel",
        verb: "test",
        summary: "Tell something by a channel, as a trial, and say whether it got through",
        method: Method::Post,
        path: "/v1/channels/{channel}/test",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints { open_world: true, ..Hints::SETS },
        columns: COLUMNS,
    };

    type Answer = ChannelView;

    async fn perform(self, call: &Call) -> Result<Answered<ChannelView>, Problem> {
        let (engine, tenant) = (call.engine(), &call.caller().tenant);
        let messenger = engine.messenger().ok_or_else(nobody)?;
        let kept = find(engine, tenant, &self.channel).await?;
        let tried = messenger.try_out(tenant, &kept).await;
        tried.map_err(|why| Problem::new("not_told", why).next("baton channel list"))?;
        Ok(Answered::read(ChannelView::of(&kept), call.as_of().await?))
    }
}

impl Operation for Remove {
    const ABOUT: Declaration = Declaration {
        noun: "channel",
        verb: "remove",
        summary: "Tell nobody by this channel any more",
        method: Method::Delete,
        path: "/v1/channels/{channel}",
        permit: Permit::Scope(Level::Admin),
        audience: Audience::Person,
        hints: Hints::ENDS,
        columns: &["channel"],
    };

    type Answer = Gone;

    async fn perform(self, call: &Call) -> Result<Answered<Gone>, Problem> {
        let committed = call.on_channel(ChannelCommand::Remove(self.channel.clone())).await?;
        Ok(call.done(Gone { channel: self.channel }, &committed))
    }
}

/// The channels by which nothing gets through at present.
///
/// # Errors
/// If they cannot be read.
pub async fn broken(engine: &Engine, tenant: &TenantId) -> Result<Vec<ChannelView>, Problem> {
    let rows = engine.channels(Some(tenant)).await?;
    let views = rows.iter().map(|row| ChannelView::of(&row.kept));
    Ok(views.filter(|view| view.broken.is_some()).collect())
}

async fn find(
    engine: &Engine,
    tenant: &TenantId,
    name: &ChannelName,
) -> Result<KeptChannel, Problem> {
    let rows = engine.channels(Some(tenant)).await?;
    let found = rows.into_iter().map(|row| row.kept).find(|kept| kept.channel.name == *name);
    found.ok_or_else(Problem::not_found)
}

fn nobody() -> Problem {
    Problem::new("internal", "nobody here carries on channels")
}

fn invalid(field: &str, rule: &str) -> Problem {
    Problem::invalid(vec![Violation { field: field.into(), rule: rule.into() }])
}

/// Reads `22:00-07:00 Europe/Berlin`.
fn quiet(text: &str) -> Result<Quiet, Problem> {
    let rule = "must be hours and a place, like 22:00-07:00 Europe/Berlin";
    let read = || {
        let (hours, place) = text.split_once(' ')?;
        let (from, to) = hours.split_once('-')?;
        Some((minute(from)?, minute(to)?, Text::new("quiet_hours", place.trim()).ok()?))
    };
    let (from, to, place) = read().ok_or_else(|| invalid("quiet_hours", rule))?;
    if zone(place.as_str()).is_none() {
        let rule = format!("names a place whose clocks nobody knows here: `{place}`");
        return Err(invalid("quiet_hours", &rule));
    }
    Ok(Quiet { from, to, zone: place })
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}
