//! What live agents say, as long as somebody follows them. Nothing here outlives the process: what is kept of an
//! attempt is brought by its worker as a blob.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::{AttemptId, TenantId};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::views::LogLine;

/// Attempts that are followed at once; the one that nobody asked for longest is forgotten first. With the bound on
/// lines that is at most some tens of megabytes.
const FOLLOWED_MAX: usize = 64;
/// Lines that are remembered of one attempt: what its worker remembers.
pub const LINES_MAX: usize = 2_000;
/// How long a worker may take to tell what its agent said; then the lines that it brought before are shown.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What live agents say.
#[derive(Debug)]
pub struct Logs {
    followed: Mutex<BTreeMap<(TenantId, AttemptId), Followed>>,
    /// Counts up whenever somebody wants to know something.
    asked: watch::Sender<u64>,
}

#[derive(Debug)]
struct Followed {
    lines: VecDeque<LogLine>,
    /// Whether somebody waits for its worker, and nobody has asked it yet.
    asked: bool,
    /// When it was last asked for, counted.
    turn: u64,
    /// Counts the answers of its worker.
    heard: watch::Sender<u64>,
}

impl Default for Logs {
    fn default() -> Self {
        Self { followed: Mutex::default(), asked: watch::Sender::new(0) }
    }
}

impl Logs {
    /// The lines of a live attempt as its worker tells them now; none if it does not tell in time.
    pub async fn fresh(&self, tenant: &TenantId, attempt: AttemptId) -> Option<Vec<LogLine>> {
        let key = (tenant.clone(), attempt);
        let mut heard = self.ask(&key);
        self.asked.send_modify(|count| *count += 1);
        timeout(PATIENCE, heard.changed()).await.ok()?.ok()?;
        let followed = self.lock();
        followed.get(&key).map(|own| own.lines.iter().cloned().collect())
    }

    /// Resolves whenever somebody wants to know something.
    #[must_use]
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }

    /// What is to be asked of whoever has these attempts: which, and after which line. It counts as asked then.
    pub fn take_asked(
        &self,
        tenant: &TenantId,
        has: impl Fn(AttemptId) -> bool,
    ) -> Vec<(AttemptId, u64)> {
        let mut all = self.lock();
        let own = all
            .iter_mut()
            .filter(|((whose, attempt), one)| whose == tenant && one.asked && has(*attempt));
        let taken = own.map(|((_, attempt), one)| {
            one.asked = false;
            (*attempt, one.lines.back().map_or(0, |last| last.number))
        });
        taken.collect()
    }

    /// A worker tells what an agent said.
    pub fn put(&self, tenant: &TenantId, attempt: AttemptId, lines: Vec<LogLine>) {
        let mut all = self.lock();
        // Whoever was followed and forgotten meanwhile is told by nobody.
        let Some(own) = all.get_mut(&(tenant.clone(), attempt)) else { return };
        for line in lines {
            if own.lines.back().is_none_or(|last| last.number < line.number) {
                own.lines.push_back(line);
            }
            if own.lines.len() > LINES_MAX {
                own.lines.pop_front();
            }
        }
        own.heard.send_modify(|count| *count += 1);
    }

    /// Notes that somebody waits for an attempt.
    fn ask(&self, key: &(TenantId, AttemptId)) -> watch::Receiver<u64> {
        let mut all = self.lock();
        let turn = all.values().map(|one| one.turn).max().unwrap_or(0) + 1;
        if all.len() >= FOLLOWED_MAX && !all.contains_key(key) {
            let oldest = all.iter().min_by_key(|(_, one)| one.turn).map(|(key, _)| key.clone());
            oldest.map(|oldest| all.remove(&oldest));
        }
        let own = all.entry(key.clone()).or_insert_with(|| Followed {
            lines: VecDeque::new(),
            asked: false,
            turn,
            heard: watch::Sender::new(0),
        });
        own.asked = true;
        own.turn = turn;
        own.heard.subscribe()
    }

    /// Whoever panicked while it held the lock left every log whole: each change is one line.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(TenantId, AttemptId), Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
