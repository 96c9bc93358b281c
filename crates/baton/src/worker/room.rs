//! What is over is forgotten, and room for more is promised.

use std::collections::BTreeSet;

use tokio::task::spawn_blocking;

use crate::points::{self, Point};

use super::{Sign, Worker, adopt, stock};

impl<T: FnMut(Sign) + Send> Worker<T> {
    /// Forgets what the server has all reports of.
    pub(super) async fn settle(&mut self) {
        let before = self.settling.len();
        let (link, courier) = (self.link.clone(), self.courier.clone());
        self.settling.retain(|attempt| {
            // What is still to be sent is told once it was.
            if courier.is_busy(*attempt) {
                return true;
            }
            !link.forget(*attempt).unwrap_or_else(|error| {
                tracing::warn!(%attempt, %error, "an attempt cannot be forgotten");
                false
            })
        });
        if self.settling.len() < before {
            points::pass(Point::AttemptForgotten);
            self.tidy().await;
        }
    }

    pub(super) async fn tidy(&self) {
        let attempts = self.premises.attempts();
        let live: BTreeSet<_> = self.live.keys().copied().collect();
        match spawn_blocking(move || adopt::tidy(&attempts, &live)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "settled attempts cannot be cleared away"),
            Err(error) => tracing::warn!(%error, "settled attempts cannot be cleared away"),
        }
    }

    /// Lets the server send as much as there is room for; nothing while memory or disk are short.
    pub(super) fn give_room(&mut self) {
        if self.whose.is_none() || self.draining || !self.has_room() {
            return;
        }
        let more = self.stock.promise();
        if more > 0 {
            self.link.credit(more);
        }
        let more = self.yard.promise();
        if more > 0 {
            self.link.credit_merges(more);
        }
        let more = self.checks.promise();
        if more > 0 {
            self.link.credit_checks(more);
        }
    }

    /// Whether nothing is merged or checked.
    pub(super) fn is_still(&self) -> bool {
        self.yard.is_empty() && self.checks.is_empty()
    }

    /// Whether the disk and the memory are enough for one more agent now.
    pub(super) fn has_room(&mut self) -> bool {
        if self.is_full() {
            return false;
        }
        let settings = &self.premises.settings;
        let short = stock::short(&self.premises.data, settings.memory_floor, settings.disk_floor);
        if short.is_some() != self.is_short {
            self.is_short = short.is_some();
            (self.tell)(Sign::Short(short));
        }
        !self.is_short
    }

    /// Whether the disk takes no reports: then nothing new is begun, and that is said.
    fn is_full(&mut self) -> bool {
        let full = !self.link.keep_again();
        if full && !std::mem::replace(&mut self.full, full) {
            (self.tell)(Sign::Full);
        }
        self.full = full;
        full
    }
}
