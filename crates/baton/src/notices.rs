//! Tells people what needs them, by the channels that they added. Any number of servers may do this
//! at once: whoever carries a channel on takes it first, and what was told is noted afterwards, so
//! that nothing is missed, and only a crash in between tells something twice, under the same id.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_domain::channel::{Channel, ChannelCommand, KeptChannel, Way};
use baton_domain::ids::{ChannelName, TenantId};
use baton_domain::task::{Ending, Stage};
use baton_domain::time::{Millis, Timestamp};
use baton_domain::view::Need;
use baton_store::read::{About as Subject, PAGE_MAX};
use baton_store::{Actor, Aim, ChannelRow, Cursor, Filter, Order};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use crate::engine::Engine;
use crate::messenger::{Messenger, Telling};
use crate::operations;
use crate::shape::When;
use crate::shape::choices::Word as _;
use crate::telling::{About, NOTICES_MAX, Progress};
use crate::views::InboxItem;

use address::Place;
use webhook::Message;

pub use address::Range;

mod address;
mod desktop;
mod webhook;

/// How often channels are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How long a tenant in which nothing happened is not looked at: some needs come with time alone.
const UNSEEN_MAX: Millis = Millis::seconds(15);
/// Entries that are looked through at once for what is done.
const ENTRIES_MAX: usize = 500;
/// Entries in which nothing was done that may be looked through again after a start.
const LAG_MAX: u64 = 5_000;
/// Who carries on the channels of a database that one server has for itself.
const ALONE: &str = "alone";
/// What a trial is told as.
const TRIAL: &str = "test";

/// Who carries on the channels of all tenants.
pub struct Notices {
    engine: Arc<Engine>,
    allowed: Vec<Range>,
    programs: Vec<PathBuf>,
    /// What this process calls itself to the others.
    by: String,
    looked: Mutex<HashMap<(TenantId, ChannelName), Looked>>,
}

/// When a channel was last looked at, how far its tenant was then, and which version of it.
#[derive(Clone, Copy)]
struct Looked {
    at: Timestamp,
    head: u64,
    version: u64,
}

/// Something to tell, with everything that is said of it.
struct Notice {
    kind: &'static str,
    title: String,
    words: String,
    data: Value,
}

impl Notices {
    /// Nobody is told before it runs. `alone`: no other server has the same database.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        alone: bool,
        allowed: Vec<Range>,
        programs: Vec<PathBuf>,
    ) -> Arc<Self> {
        // Where nobody else can be at work, whoever comes after a crash is the one before it.
        let by = if alone { ALONE.to_owned() } else { format!("{:032x}", engine.nonce().0) };
        Arc::new(Self { engine, allowed, programs, by, looked: Mutex::default() })
    }

    /// Goes on until it is dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            // A panic ends this look and not all of them.
            if AssertUnwindSafe(self.look()).catch_unwind().await.is_err() {
                tracing::error!("telling people broke");
            }
            sleep(EVERY).await;
        }
    }

    async fn look(&self) {
        let rows = match self.engine.channels(None).await {
            Ok(rows) => rows,
            Err(error) => return tracing::warn!(%error, "channels cannot be read"),
        };
        for row in rows {
            if let Err(error) = self.carry_on(&row).await {
                let channel = row.kept.channel.name.as_str();
                tracing::warn!(%error, channel, "a channel was not carried on");
            }
        }
    }

    /// One look at one channel: what is new, what is due, and telling it.
    async fn carry_on(&self, row: &ChannelRow) -> Result<(), String> {
        let (tenant, channel) = (&row.tenant, &row.kept.channel);
        let before = Progress::read(&row.kept.progress);
        let now = self.engine.now();
        if before.waiting() == 0 && !self.may_have_changed(row, now).await? {
            return Ok(());
        }
        let items = self.needs(tenant, channel).await?;
        let (done, cursor) = self.done(tenant, channel, before.cursor).await?;
        let mut progress = before.clone();
        let needs: Vec<_> = items.iter().map(about).collect();
        progress.see(&needs, done, cursor, now);
        let due = progress.due(channel, &self.by, now);
        if due.is_empty() {
            let lag = progress.cursor.saturating_sub(before.cursor);
            let same = Progress { cursor: before.cursor, ..progress.clone() } == before;
            if same && lag < LAG_MAX {
                return Ok(());
            }
            return self.note(row, row.kept.version, &progress).await.map(drop);
        }
        progress.take(&self.by, now);
        let Some(seen) = self.note(row, row.kept.version, &progress).await? else {
            return Ok(());
        };
        for about in due {
            let told = match self.notice(tenant, &about, &items).await? {
                Some(notice) => self.tell(tenant, channel, &about.key(), &notice).await,
                // It is gone, so there is nothing to tell.
                None => Ok(()),
            };
            let now = self.engine.now();
            match told {
                Ok(()) => progress.tell(&about, now),
                Err(why) => {
                    progress.fail(&about, &why, now);
                    break;
                }
            }
        }
        progress.leave();
        self.note(row, seen, &progress).await.map(drop)
    }

    /// Whether anything has happened in a tenant since its channels were looked at, or may have by
    /// the passing of time.
    async fn may_have_changed(&self, row: &ChannelRow, now: Timestamp) -> Result<bool, String> {
        let head = self.engine.head_lately(&row.tenant).await.map_err(|error| error.to_string())?;
        let version = row.kept.version;
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        // A channel that is gone is forgotten here after a while.
        looked.retain(|_, last| now < last.at + UNSEEN_MAX);
        let key = (row.tenant.clone(), row.kept.channel.name.clone());
        let same =
            looked.get(&key).is_some_and(|last| (last.head, last.version) == (head, version));
        if !same {
            looked.insert(key, Looked { at: now, head, version });
        }
        Ok(!same)
    }

    async fn needs(&self, tenant: &TenantId, channel: &Channel) -> Result<Vec<InboxItem>, String> {
        let mut all: Vec<InboxItem> = vec![];
        let mut after = None;
        while all.len() < NOTICES_MAX {
            let filter = Filter { inbox: true, after, count_max: PAGE_MAX, ..Filter::default() };
            let found = operations::inbox_of(&self.engine, tenant, filter).await;
            let (items, next, _) = found.map_err(|problem| problem.body()["detail"].to_string())?;
            let wanted = |need: &Need| channel.needs.is_empty() || channel.needs.contains(need);
            all.extend(items.into_iter().filter(|item| wanted(&item.need)));
            after = next;
            if after.is_none() {
                break;
            }
        }
        all.truncate(NOTICES_MAX);
        Ok(all)
    }

    /// What was done since a position, and how far that goes.
    async fn done(
        &self,
        tenant: &TenantId,
        channel: &Channel,
        cursor: u64,
    ) -> Result<(Vec<About>, u64), String> {
        if !channel.done {
            return Ok((vec![], cursor));
        }
        let after = Cursor { incarnation: self.engine.incarnation(), position: cursor };
        let page = match self.engine.entries(tenant, after, ENTRIES_MAX).await {
            Ok(page) => page,
            Err(baton_store::Error::CursorExpired { floor }) => return Ok((vec![], floor)),
            Err(error) => return Err(error.to_string()),
        };
        let reached = page.rows.last().map_or(cursor, |entry| entry.position);
        let mut done = vec![];
        for entry in page.rows {
            let Subject::Task(task, _) = entry.about else { continue };
            let row = self.engine.task(tenant, task).await.map_err(|error| error.to_string())?;
            let Some(row) = row.what else { continue };
            // The entry in which it ended, and no later one.
            let ended = row.flow.ended_at == Some(entry.at);
            if ended && matches!(row.flow.stage, Stage::Ended(Ending::Done { .. })) {
                done.push(About { task, need: None, since: Some(entry.at) });
            }
        }
        Ok((done, reached))
    }

    /// Everything that is said of something; none if it is gone.
    async fn notice(
        &self,
        tenant: &TenantId,
        of: &About,
        items: &[InboxItem],
    ) -> Result<Option<Notice>, String> {
        if let Some(item) = items.iter().find(|item| about(item) == *of) {
            let words = item.words.clone().unwrap_or_else(|| item.command.clone());
            return Ok(Some(Notice {
                kind: item.need.word(),
                title: format!("{} {}: {}", item.task, phrase(item.need.word()), item.title),
                words,
                data: json!(item),
            }));
        }
        let row = self.engine.task(tenant, of.task).await.map_err(|error| error.to_string())?;
        let Some(row) = row.what.filter(|_| of.need.is_none()) else { return Ok(None) };
        let (title, project) = (row.brief.title.to_string(), row.flow.project.to_string());
        Ok(Some(Notice {
            kind: "done",
            title: format!("{} is done: {title}", of.task),
            words: format!("baton show {}", of.task),
            data: json!({
                "task": of.task, "title": title, "project": project,
                "since": of.since.map(|at| When(at).to_string()),
                "command": format!("baton show {}", of.task),
            }),
        }))
    }

    async fn tell(
        &self,
        tenant: &TenantId,
        channel: &Channel,
        key: &str,
        notice: &Notice,
    ) -> Result<(), String> {
        match &channel.way {
            Way::Desktop => desktop::show(&self.programs, &notice.title, &notice.words).await,
            Way::Webhook { url } => {
                let at = self.engine.now();
                let body = json!({
                    "type": notice.kind, "timestamp": When(at).to_string(), "data": notice.data,
                });
                let id = self.id(tenant, channel, key);
                let message = Message { id, at, body: body.to_string() };
                let secret = self.signing(tenant, channel);
                webhook::send(url.as_str(), &secret, &message, &self.allowed).await
            }
        }
    }

    /// The same for the same thing by the same channel, whichever server tells it.
    fn id(&self, tenant: &TenantId, channel: &Channel, key: &str) -> String {
        let mut hash = Sha256::new();
        for part in [tenant.as_str(), channel.name.as_str(), key] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        hash.update(channel.nonce.0.to_be_bytes());
        let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("msg_{}", &digits[..32])
    }

    fn signing(&self, tenant: &TenantId, channel: &Channel) -> [u8; 32] {
        let nonce = channel.nonce.0.to_be_bytes();
        let (tenant, name) = (tenant.as_str().as_bytes(), channel.name.as_str().as_bytes());
        self.engine.keyring().lasting(&[b"webhook", tenant, name, &nonce])
    }

    /// Notes how far a channel is; the next version, or none if somebody else was faster.
    async fn note(
        &self,
        row: &ChannelRow,
        seen: u64,
        progress: &Progress,
    ) -> Result<Option<u64>, String> {
        let (channel, progress) = (row.kept.channel.name.clone(), progress.text());
        let order = Order {
            tenant: row.tenant.clone(),
            actor: Actor::clockwork(),
            aim: Aim::Channel(ChannelCommand::Note { channel, seen, progress }),
            request: None,
        };
        match self.engine.submit(order).await {
            Ok(_) => Ok(Some(seen + 1)),
            Err(baton_store::Error::Refused(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Messenger for Notices {
    fn try_out<'a>(&'a self, tenant: &'a TenantId, kept: &'a KeptChannel) -> Telling<'a> {
        let notice = Notice {
            kind: TRIAL,
            title: "Baton can reach you here".to_owned(),
            words: format!("The channel {} works.", kept.channel.name),
            data: json!({ "channel": kept.channel.name }),
        };
        let key = format!("{TRIAL} {:032x}", self.engine.nonce().0);
        Box::pin(async move { self.tell(tenant, &kept.channel, &key, &notice).await })
    }

    fn objects(&self, channel: &Channel) -> Option<(&'static str, String)> {
        let Way::Webhook { url } = &channel.way else { return None };
        match Place::read(url.as_str()) {
            Err(rule) => Some(("webhook", rule)),
            Ok(place) if !place.tls && self.allowed.is_empty() => {
                Some(("webhook", "must begin with https://".to_owned()))
            }
            Ok(_) => None,
        }
    }

    fn secret(&self, tenant: &TenantId, channel: &Channel) -> String {
        webhook::written(&self.signing(tenant, channel))
    }
}

fn about(item: &InboxItem) -> About {
    About { task: item.task, need: Some(item.need), since: item.since.map(|since| since.0) }
}

/// What a need is called in a sentence.
fn phrase(need: &str) -> String {
    match need {
        "question" => "asks".to_owned(),
        other => format!("needs you ({})", other.replace('_', " ")),
    }
}
