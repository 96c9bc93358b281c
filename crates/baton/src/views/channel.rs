//! A channel as callers see it. Where a webhook goes is shown as its host alone: the rest of a URL
//! may open something.

use baton_domain::channel::{KeptChannel, Way};
use baton_domain::ids::{ChannelName, PrincipalId};
use baton_domain::view::Need;

use crate::shape::{Span, When, record};
use crate::telling::Progress;

record! {
    /// A way by which people are told.
    pub struct ChannelView {
        /// What people call it.
        name: ChannelName,
        /// Where it leads: `desktop`, or the host of a webhook.
        to: String,
        /// What is told; absent for everything that needs a person.
        needs: Option<Vec<Need>>,
        /// Whether it is told, too, what is done.
        done: bool,
        /// How long it waits before it tells.
        delay: Option<Span>,
        /// When nobody is told.
        quiet: Option<String>,
        /// Who added it.
        added_by: PrincipalId,
        /// How much waits to be told.
        waiting: u64,
        /// How much was told.
        told: u64,
        /// When it last told something.
        told_at: Option<When>,
        /// How much was given up, or did not fit.
        lost: u64,
        /// Since when nothing gets through.
        broken_since: Option<When>,
        /// Why.
        broken: Option<String>,
        /// When it is tried again.
        next_try_at: Option<When>,
    }
}

impl ChannelView {
    /// As it is kept.
    #[must_use]
    pub fn of(kept: &KeptChannel) -> Self {
        let (channel, progress) = (&kept.channel, Progress::read(&kept.progress));
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let hours = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        let quiet = channel.quiet.as_ref();
        Self {
            name: channel.name.clone(),
            to: match &channel.way {
                Way::Desktop => "desktop".to_owned(),
                Way::Webhook { url } => host(url.as_str()),
            },
            needs: (!channel.needs.is_empty()).then(|| channel.needs.iter().copied().collect()),
            done: channel.done,
            delay: (channel.delay.0 > 0).then_some(Span(channel.delay)),
            quiet: quiet.map(|it| format!("{}-{} {}", hours(it.from), hours(it.to), it.zone)),
            added_by: channel.added_by.clone(),
            waiting: count(progress.waiting()),
            told: progress.told,
            told_at: progress.told_at.map(When),
            lost: progress.lost,
            broken_since: progress.trouble.as_ref().map(|it| When(it.since)),
            next_try_at: progress.trouble.as_ref().map(|it| When(it.next_at)),
            broken: progress.trouble.map(|it| it.why),
        }
    }
}

/// `https://hooks.example.com`: all of a URL that opens nothing.
fn host(url: &str) -> String {
    let scheme_end = url.find("://").map_or(0, |at| at + 3);
    let end = url[scheme_end..].find(['/', '?', '#']).map_or(url.len(), |at| scheme_end + at);
    url[..end].to_owned()
}
