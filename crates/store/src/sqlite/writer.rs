//! The one writer: takes what waits, judges it in memory, writes it, commits once, and only then
//! answers. There is no artificial delay; a batch is whatever arrived during the last commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_domain::key::KeyId;
use baton_domain::time::Timestamp;
use rusqlite::ErrorCode;
use tokio::sync::oneshot;

use super::books::Books;
use super::checkpoint::Checkpointer;
use super::orders::{Desk, Fail, last_words};
use super::place::Place;
use super::{Options, load};
use crate::chain::Seal;
use crate::gauges::Gauges;
use crate::inbox::{Inbox, Job, Work};
use crate::order::{Aim, Committed, Order};
use crate::{Clock, Error, Freed};

/// Orders in one transaction: bounds how long the first of them waits.
const BATCH_MAX: usize = 512;

/// Tasks that one sweep may set aside because writing them breaks: each costs reading the books anew.
const ASIDE_MAX: usize = 16;

/// What can be told from the books alone.
pub(super) fn read_books(gauges: &Gauges, books: &Books) {
    let ends = books.tenants.iter().filter_map(|ledger| ledger.expiring.first());
    let overdue = ends.map(|(at, _)| at.0).min().unwrap_or(i64::MAX);
    gauges.overdue_since.store(overdue, Ordering::Relaxed);
    let live = books.tenants.iter().map(|ledger| ledger.live.len()).sum();
    gauges.live.store(live, Ordering::Relaxed);
}

/// The writer and everything it owns.
pub(super) struct Writer {
    pub(super) desk: Desk,
    pub(super) inbox: Arc<Inbox>,
    pub(super) gauges: Arc<Gauges>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) place: Place,
    pub(super) checkpointer: Checkpointer,
    pub(super) options: Options,
    pub(super) last: Timestamp,
    pub(super) looked_at: Timestamp,
    /// How often the sweep at hand was begun anew.
    pub(super) aside_since: usize,
    /// How far the entries of each tenant were when the bell was last rung.
    pub(super) heads: Vec<u64>,
}

/// What is written beside orders, and who waits for it.
#[derive(Default)]
struct Notes {
    seals: Vec<(i64, Seal)>,
    uses: Vec<(KeyId, Timestamp)>,
    replies: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Writer {
    /// Works until the end. A panic is a fault like any other, or callers would wait for ever.
    pub(super) fn run(self) {
        let (inbox, gauges) = (Arc::clone(&self.inbox), Arc::clone(&self.gauges));
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {
            gauges.stop("the writer broke");
            refuse(&inbox, &gauges, vec![]);
        }
    }

    /// Works until the inbox is closed and empty, or a fault ends it.
    fn work(mut self) {
        loop {
            let batch = self.inbox.take(BATCH_MAX);
            if batch.is_empty() {
                break;
            }
            // The checkpointer may have met a fault meanwhile: nothing is begun after that.
            if self.gauges.stopped().is_some() {
                return refuse(&self.inbox, &self.gauges, batch);
            }
            if let Err(fault) = self.carry_out(batch) {
                tracing::error!(%fault, "the store stops");
                self.gauges.stop(&fault);
                return refuse(&self.inbox, &self.gauges, vec![]);
            }
        }
        self.checkpointer.finish(&self.desk.pen.conn, &self.gauges);
    }

    /// One batch, one `now`, one commit. An order that cannot be carried out is undone with all the
    /// others, and then only the others are carried out once more: that costs nothing as long as
    /// nothing breaks.
    fn carry_out(&mut self, batch: Vec<Work>) -> Result<(), String> {
        let (mut jobs, mut notes) = (vec![], Notes::default());
        for work in batch {
            match work {
                Work::Order(job) => jobs.push(*job),
                Work::Seal(new, reply) => {
                    notes.seals.extend(new);
                    notes.replies.push(reply);
                }
                Work::Uses(uses, reply) => {
                    notes.uses.extend(uses);
                    notes.replies.push(reply);
                }
            }
        }
        while let Some((at, why)) = self.pass(&mut jobs, &mut notes)? {
            self.start_over()?;
            let broken = jobs.remove(at);
            let after = jobs.split_off(at);
            tracing::error!(why, aim = broken.order.aim.word(), "an order broke and was undone");
            if let (Aim::Sweep(_), true) = (&broken.order.aim, self.aside_since < ASIDE_MAX) {
                // What broke it is set aside, so that time passes for everybody else.
                self.aside_since += 1;
                jobs.push(broken);
            } else {
                drop(broken.reply.send(Err(Error::Internal(why))));
            }
            jobs.extend(after);
        }
        self.aside_since = 0;
        Ok(())
    }

    /// Carries out what is there, commits and answers; or tells which order broke, with everything
    /// undone and nobody answered. Any other fault but a full disk is fatal: what a failed write
    /// left behind only a fresh start can tell.
    fn pass(
        &mut self,
        jobs: &mut Vec<Job>,
        notes: &mut Notes,
    ) -> Result<Option<(usize, String)>, String> {
        let now = self.clock.now().max(self.last);
        self.last = now;
        self.look_at_disk(now);
        let full = self.gauges.full.load(Ordering::Relaxed);
        let mut fault = self.desk.end_silence(now, full).err();
        let mut answers = Vec::with_capacity(jobs.len());
        let mut swept = false;
        for (at, job) in jobs.iter().enumerate() {
            if fault.is_some() {
                break;
            }
            swept |= matches!(job.order.aim, Aim::Sweep(_));
            match self.attempt(&job.order, full, now) {
                Ok(committed) => answers.push(Ok(committed)),
                Err(Fail::Answer(error)) => answers.push(Err(error)),
                Err(Fail::Broken(why)) => return Ok(Some((at, why))),
                Err(Fail::Sql(error)) => fault = Some(error),
            }
        }
        if fault.is_none() {
            fault = self.write_notes(notes, full).err();
        }
        let rows = self.desk.pen.rows;
        let ended = match fault {
            None => self.desk.pen.commit(),
            Some(error) => Err(error),
        };
        let (jobs, replies) = (std::mem::take(jobs), std::mem::take(notes).replies);
        match ended {
            Ok(wrote) => {
                self.after_commit(now, wrote, swept);
                // Whoever waits for work hears of it no later than whoever made it.
                self.ring();
                for (job, answer) in jobs.into_iter().zip(answers) {
                    // A caller that has gone away will find its answer by its request key.
                    drop(job.reply.send(answer));
                }
                replies.into_iter().for_each(|reply| drop(reply.send(Ok(()))));
                self.checkpointer.written(rows, &self.desk.pen.conn, &self.gauges)?;
            }
            Err(error) => self.recover(&error, jobs, replies)?,
        }
        Ok(None)
    }

    /// Seals are always written; when keys were used is not worth the last of the disk.
    fn write_notes(&mut self, notes: &Notes, full: bool) -> rusqlite::Result<()> {
        for (key, seal) in &notes.seals {
            self.desk.pen.seal(*key, seal)?;
        }
        if full { Ok(()) } else { self.desk.pen.touch_keys(&notes.uses) }
    }

    /// A panic is the matter of the order that brought it about.
    fn attempt(&mut self, order: &Order, full: bool, now: Timestamp) -> Result<Committed, Fail> {
        let desk = AssertUnwindSafe(|| self.desk.carry_out(order, full, now));
        catch_unwind(desk).unwrap_or_else(|panic| Err(Fail::Broken(last_words(panic.as_ref()))))
    }

    /// Undoes everything since the last commit, in the database and in the books.
    fn start_over(&mut self) -> Result<(), String> {
        self.desk.pen.roll_back().map_err(|error| error.to_string())?;
        self.desk.freed.clear();
        // A sweep that was undone did not happen.
        let swept_at = Timestamp(self.gauges.swept_at.load(Ordering::Relaxed));
        let books = load::books(&self.desk.pen.conn, swept_at);
        self.desk.books = books.map_err(|error| error.to_string())?;
        Ok(())
    }

    fn after_commit(&mut self, now: Timestamp, wrote: bool, swept: bool) {
        if wrote {
            self.gauges.committed_at.store(now.0, Ordering::Relaxed);
        }
        if swept && !self.gauges.full.load(Ordering::Relaxed) {
            self.gauges.swept_at.store(now.0, Ordering::Relaxed);
        }
        // An amnesty that did not fit is remembered only here: nobody must rely on it.
        if !self.gauges.full.load(Ordering::Relaxed) {
            self.place.remember_watch(self.desk.books.watched_at);
        }
        read_books(&self.gauges, &self.desk.books);
    }

    fn ring(&mut self) {
        let mut freed: Vec<Freed> = std::mem::take(&mut self.desk.freed);
        let ledgers = &self.desk.books.tenants;
        self.heads.resize(ledgers.len(), 0);
        for (head, ledger) in self.heads.iter_mut().zip(ledgers) {
            if std::mem::replace(head, ledger.position) != ledger.position {
                freed.push(Freed::Entries(ledger.id.clone()));
            }
        }
        if !freed.is_empty() {
            (self.options.bell)(&freed);
        }
    }

    /// A full disk undoes the batch cleanly and is survived; anything else ends the store.
    fn recover(
        &mut self,
        error: &rusqlite::Error,
        jobs: Vec<Job>,
        notes: Vec<oneshot::Sender<Result<(), Error>>>,
    ) -> Result<(), String> {
        let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        let undone = self.desk.pen.roll_back();
        let survived = full && undone.is_ok() && self.desk.pen.conn.is_autocommit();
        let fault = error.to_string();
        if survived {
            self.fill_up();
        } else {
            self.gauges.stop(&fault);
        }
        // Refusals are undone, too: they may rest on what an order before them seemed to do.
        let why = || if survived { Error::DiskFull } else { Error::Unknown(fault.clone()) };
        jobs.into_iter().for_each(|job| drop(job.reply.send(Err(why()))));
        notes.into_iter().for_each(|reply| drop(reply.send(Err(why()))));
        if survived { self.start_over() } else { Err(fault) }
    }

    /// There is no room left at all.
    fn fill_up(&mut self) {
        self.gauges.full.store(true, Ordering::Relaxed);
        self.place.release_ballast();
        tracing::warn!("the disk is full: only ends of work are accepted");
    }

    /// Looks for room now and then; while the disk is full, before every batch.
    fn look_at_disk(&mut self, now: Timestamp) {
        if self.checkpointer.met_full_disk() {
            self.fill_up();
        }
        let full = self.gauges.full.load(Ordering::Relaxed);
        if !full && now.since(self.looked_at) < super::LOOK_EVERY {
            return;
        }
        self.looked_at = now;
        // Where nobody can tell, trying is the only way to find out.
        let free = (self.options.free_bytes)().unwrap_or(u64::MAX);
        if free < self.options.free_bytes_min && !full {
            self.gauges.full.store(true, Ordering::Relaxed);
        }
        if full && free >= self.options.free_bytes_min && self.place.restore_ballast().is_ok() {
            self.gauges.full.store(false, Ordering::Relaxed);
            // What was only remembered is granted once more, and now it is kept.
            let swept_at = Timestamp(self.gauges.swept_at.load(Ordering::Relaxed));
            self.desk.books.watched_at = swept_at;
            tracing::info!("there is room on the disk again");
        }
    }
}

/// Takes nothing more, and tells everybody who waits that nothing happened.
fn refuse(inbox: &Inbox, gauges: &Gauges, mut rest: Vec<Work>) {
    inbox.close();
    let why = gauges.stopped().unwrap_or_default();
    loop {
        for work in rest {
            let stopped = Error::Stopped(why.clone());
            match work {
                Work::Order(job) => drop(job.reply.send(Err(stopped))),
                Work::Seal(_, reply) | Work::Uses(_, reply) => drop(reply.send(Err(stopped))),
            }
        }
        rest = inbox.take(BATCH_MAX);
        if rest.is_empty() {
            return;
        }
    }
}
