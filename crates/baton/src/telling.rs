//! How far a channel is: what waits to be told, what was told and still stands, and what is in its
//! way. Pure: whoever carries a channel on looks, asks this what is to be done, does it, and notes it.

use baton_domain::channel::Channel;
use baton_domain::ids::TaskId;
use baton_domain::time::{Millis, Timestamp};
use baton_domain::view::Need;
use serde::{Deserialize, Serialize};

pub use quiet::{is_quiet, zone};

mod quiet;

/// What one channel remembers: more than anybody reads, little enough for one row.
pub const NOTICES_MAX: usize = 500;
/// What is told in one go, before others get their turn.
pub const AT_ONCE_MAX: usize = 8;
/// How often one thing is tried to be told: over about four hours.
pub const TRIES_MAX: u32 = 12;
/// The pause after the first failure; each doubles it.
const PAUSE: Millis = Millis::seconds(5);
/// The longest pause: a channel that is mended is used again within it.
const PAUSE_MAX: Millis = Millis::hours(1);
/// How long whoever carries a channel on may take: a little longer than telling all of one go takes at
/// most. If it is killed meanwhile, others wait so long.
const TAKEN: Millis = Millis::seconds(90);
/// How much of a failure is kept.
const WHY_BYTES_MAX: usize = 200;

/// How far a channel is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Entries up to here were looked at for what is done.
    pub cursor: u64,
    /// Who carries it on at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Taken>,
    /// What is to be told, and what was told and still stands.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// What is in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// How much was told.
    #[serde(default)]
    pub told: u64,
    /// When last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// What was given up, or did not fit.
    #[serde(default)]
    pub lost: u64,
}

/// Somebody who carries a channel on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Which process.
    pub by: String,
    /// Until when it is alone with it.
    pub until: Timestamp,
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// Since when it is known.
    pub seen_at: Timestamp,
    /// How often it was tried.
    #[serde(default)]
    pub tries: u32,
    /// Whether it needs to be told no more: it was told, or given up.
    #[serde(default)]
    pub over: bool,
}

/// What a notice is about. The same thing is told once, however often it is seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct About {
    /// Which task.
    pub task: TaskId,
    /// What it needs; none if it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<Need>,
    /// Since when: a second question is another thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What is in the way of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Since when nothing gets through.
    pub since: Timestamp,
    /// What went wrong the last time.
    pub why: String,
    /// How often in a row.
    pub tries: u32,
    /// When it is tried again.
    pub next_at: Timestamp,
}

impl About {
    /// One word that is the same for the same thing.
    #[must_use]
    pub fn key(&self) -> String {
        let since = self.since.map_or(0, |at| at.0);
        format!("{} {:?} {since}", self.task, self.need)
    }
}

impl Progress {
    /// A channel that has told nothing, and is to tell what is done after this position.
    #[must_use]
    pub fn from(cursor: u64) -> Self {
        Self { cursor, ..Self::default() }
    }

    /// Reads what was noted; what cannot be read was noted by a newer binary, and is begun anew.
    #[must_use]
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// As it is noted.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are JSON")
    }

    /// Takes in what needs somebody now and what was done up to a position. What is settled is
    /// forgotten, told or not; what is new begins to wait.
    pub fn see(&mut self, needs: &[About], done: Vec<About>, cursor: u64, now: Timestamp) {
        self.cursor = self.cursor.max(cursor);
        self.notices.retain(|notice| match notice.about.need {
            Some(_) => needs.contains(&notice.about),
            None => !notice.over,
        });
        for about in needs.iter().cloned().chain(done) {
            if self.notices.iter().any(|notice| notice.about == about) {
                continue;
            }
            if self.notices.len() >= NOTICES_MAX {
                self.lost += 1;
                continue;
            }
            self.notices.push(Notice { about, seen_at: now, tries: 0, over: false });
        }
    }

    /// What is to be told now, oldest first. Nothing while it is quiet, while something is in the
    /// way, or while somebody else does it.
    #[must_use]
    pub fn due(&self, channel: &Channel, by: &str, now: Timestamp) -> Vec<About> {
        let quiet = channel.quiet.as_ref().is_some_and(|quiet| is_quiet(quiet, now));
        let barred = self.trouble.as_ref().is_some_and(|trouble| now < trouble.next_at);
        let taken = self.taken.as_ref().is_some_and(|it| it.by != by && now < it.until);
        if quiet || barred || taken {
            return vec![];
        }
        let ripe = |notice: &&Notice| !notice.over && now >= notice.seen_at + channel.delay;
        self.notices.iter().filter(ripe).map(|one| one.about.clone()).take(AT_ONCE_MAX).collect()
    }

    /// Somebody carries it on from now.
    pub fn take(&mut self, by: &str, now: Timestamp) {
        self.taken = Some(Taken { by: by.to_owned(), until: now + TAKEN });
    }

    /// Something was told.
    pub fn tell(&mut self, about: &About, now: Timestamp) {
        self.trouble = None;
        self.told += 1;
        self.told_at = Some(now);
        if let Some(notice) = self.notices.iter_mut().find(|notice| notice.about == *about) {
            notice.over = true;
        }
    }

    /// Something could not be told: everything waits, and at the bound this one thing is given up.
    pub fn fail(&mut self, about: &About, why: &str, now: Timestamp) {
        let before = self.trouble.take();
        let tries = before.as_ref().map_or(0, |trouble| trouble.tries).saturating_add(1);
        let pause = PAUSE.0.saturating_mul(1 << (tries - 1).min(20)).min(PAUSE_MAX.0);
        self.trouble = Some(Trouble {
            since: before.map_or(now, |trouble| trouble.since),
            why: why.chars().take(WHY_BYTES_MAX).collect(),
            tries,
            next_at: now + Millis(pause),
        });
        let Some(notice) = self.notices.iter_mut().find(|notice| notice.about == *about) else {
            return;
        };
        notice.tries += 1;
        if notice.tries >= TRIES_MAX {
            notice.over = true;
            self.lost += 1;
        }
    }

    /// Whoever carried it on has done what it could.
    pub fn leave(&mut self) {
        self.taken = None;
    }

    /// How many wait to be told.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.notices.iter().filter(|notice| !notice.over).count()
    }
}

#[cfg(test)]
mod tests;
