//! What the course of an attempt says, done.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use baton_domain::ids::Label;
use baton_domain::run::Death;
use baton_domain::text::{Line, Summary};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

use crate::points::{self, Point};
use crate::protocol::{Checkpoint, Conversation, Work};
use crate::shim::Proof;
use crate::worktree::{self, Taken, UNPROVED};

use super::super::course::{Act, At, Input, Why};
use super::super::ground::{self, Ground};
use super::super::parcel::{self, Blob, Kept, Parcel, Shelf};
use super::follow::Written;
use super::{Driver, now, slept, wall};

/// A shorter sleep of the machine is none: clocks are not read at the same instant.
const SLEPT_MS_MIN: u64 = 1_000;
/// Inputs that a course may answer its own acts with before that is a mistake of ours.
const ECHOES_MAX: usize = 64;
/// How long a snapshot may take on after the end was told; the task's next attempt here waits for it.
const KEEP_LATE_MAX: Duration = Duration::from_secs(5 * 60);
/// What a checkpoint says that holds no new work, but what the agent said.
const LOG_SUMMARY: &str = "What its agent said";

impl Driver {
    /// Feeds the course, and does what it says, also what follows from that.
    pub(super) async fn feed(&mut self, input: Input, at: At) {
        let mut inputs = VecDeque::from([(input, at)]);
        let asleep = slept();
        if asleep.saturating_sub(self.slept) >= SLEPT_MS_MIN {
            let millis = asleep - self.slept;
            self.slept = asleep;
            inputs.push_front((Input::Slept { millis }, now()));
        }
        for _ in 0..ECHOES_MAX {
            let Some((input, at)) = inputs.pop_front() else { return };
            for act in self.course.step(input, at) {
                if let Some(echo) = self.act(act).await {
                    inputs.push_back((echo, now()));
                }
            }
        }
        tracing::error!(attempt = %self.card.dispatch.attempt, "its course goes in circles");
    }

    /// Does what the course says; answers with what came of it at once.
    async fn act(&mut self, act: Act) -> Option<Input> {
        let attempt = self.card.dispatch.attempt;
        match act {
            Act::Tell(report) => {
                let frame = report.frame(attempt, wall());
                if let Err(error) = self.link.tell(frame) {
                    tracing::error!(%attempt, %error, "a report is lost: too many wait");
                }
                None
            }
            Act::Say(reply) => {
                self.say(reply).await;
                None
            }
            Act::Prompt(text) => {
                let Some(bytes) = self.follower.prompt(&text) else { return Some(Input::Deaf) };
                match self.write(&bytes).await {
                    Written::Yes => None,
                    Written::Refused => Some(Input::Deaf),
                    Written::Unheard => Some(Input::Unheard),
                }
            }
            Act::Interrupt => {
                match (self.follower.interrupt(), &self.handle) {
                    (Some(bytes), _) => {
                        self.write(&bytes).await;
                    }
                    (None, Some(handle)) => drop(handle.interrupt().await),
                    (None, None) => {}
                }
                None
            }
            Act::Stop { grace_ms } => self.stop(grace_ms).await,
            Act::Renew { until } => {
                if let Some(handle) = &self.handle
                    && let Err(error) = handle.renew(until.0).await
                {
                    tracing::info!(%attempt, %error, "its fence was not moved");
                    self.doubt(&error);
                }
                None
            }
            Act::Snapshot(why) => self.keep(why),
            Act::Quarantine => {
                self.close_ground().await;
                None
            }
            Act::Lift => {
                if let Some(ground) = &mut self.ground
                    && let Err(error) = ground.open()
                {
                    tracing::warn!(%attempt, %error, "its worktree stays closed");
                }
                None
            }
            Act::Over => {
                self.over = true;
                None
            }
        }
    }

    /// Nobody works in its folder again: something of it may still run. If that cannot be written down, it
    /// stays in use for as long as this worker lives.
    async fn close_ground(&mut self) {
        let attempt = self.card.dispatch.attempt;
        tracing::warn!(%attempt, "something of it may still run");
        if self.ground.is_none() && self.started {
            self.find_ground().await;
        }
        let Some(mut ground) = self.ground.take() else { return };
        match ground.close(UNPROVED, attempt) {
            Ok(()) => self.ground = Some(ground),
            Err(error) => {
                tracing::error!(%attempt, %error, "its folder was not closed");
                ground.hold();
                std::mem::forget(ground);
            }
        }
    }

    /// Begins to keep the work. A plain folder stays where it is, for the next attempt on this machine.
    pub(super) fn keep(&mut self, why: Why) -> Option<Input> {
        let attempt = self.card.dispatch.attempt;
        let Some(worktree) = self.ground.as_ref().and_then(Ground::worktree) else {
            if why == Why::Stop && self.bring_log(BTreeMap::new(), None) {
                self.delivering = true;
                return None;
            }
            if why != Why::Timer {
                self.tell_talk(BTreeMap::new(), None);
            }
            return Some(Input::Kept);
        };
        self.check_begins();
        let before = self.handed();
        let shelf = Shelf::of(&self.premises.attempt(attempt));
        let keep = move || parcel::keep(&worktree, attempt.number, before.as_ref(), &shelf);
        self.keeping = Some((why, spawn_blocking(keep)));
        None
    }

    /// The work on the task that the server has: of this attempt, or what it began from.
    fn handed(&self) -> Option<Work> {
        let own = self.courier.handed(self.card.dispatch.attempt);
        own.or_else(|| self.card.dispatch.work.clone())
    }

    /// A snapshot is taken, or could not be.
    pub(super) async fn kept(&mut self, kept: Result<Result<Kept, worktree::Error>, JoinError>) {
        let why = self.keeping.take().map(|(why, _)| why);
        let attempt = self.card.dispatch.attempt;
        let mut kept_as = Err("its work was not kept".to_owned());
        match kept {
            Ok(Ok(Kept { taken, packed })) => {
                kept_as = Ok(taken.snapshot().clone());
                points::pass(Point::SnapshotTaken);
                let tree = taken.snapshot().tree.to_string();
                match packed {
                    Some((work, blobs)) => self.send(&taken, work, blobs),
                    None if why != Some(Why::Timer) => {
                        let work = self.handed().filter(|work| holds(work, &taken));
                        let git = ground::told(&taken, None);
                        let is_last = why == Some(Why::Stop);
                        if !is_last || !self.bring_log(git.clone(), work.clone()) {
                            self.tell_talk(git, work);
                        }
                    }
                    None => {}
                }
                self.feed(Input::Moved { tree }, now()).await;
            }
            Ok(Err(error)) => tracing::warn!(%attempt, %error, "its work was not kept"),
            Err(error) => tracing::warn!(%attempt, %error, "its work was not kept"),
        }
        self.check_kept(kept_as).await;
        // Whoever has the run next begins with what the server has by then.
        if why == Some(Why::Stop) && self.courier.is_busy(attempt) {
            self.delivering = true;
            return;
        }
        self.feed(Input::Kept, now()).await;
    }

    /// Goes on with a snapshot that was still being taken when the end was told: the server waits only so long
    /// for the proof, and takes the work later as well.
    pub(super) async fn keep_late(&mut self) {
        let late = async {
            while let Some((why, keeping)) = &mut self.keeping {
                let (why, taken) = (*why, keeping.await);
                self.kept(taken).await;
                // What was kept while it still ran is not the last of it.
                if why != Why::Stop && self.course.keeps_work() {
                    self.keep(Why::Stop);
                }
            }
        };
        if timeout(KEEP_LATE_MAX, late).await.is_err() {
            let attempt = self.card.dispatch.attempt;
            tracing::warn!(%attempt, "the last of its work was not kept: it took too long");
        }
    }

    /// Has a snapshot handed in. It is told once it is there.
    fn send(&mut self, taken: &Taken, work: Work, mut blobs: Vec<Blob>) {
        let git = ground::told(taken, work.bundles.last());
        let log = self.log_blob();
        let said = log.as_ref().map(|blob| blob.digest.clone());
        blobs.extend(log);
        let frame = self.checkpoint(git, Some(work));
        self.post(Parcel { frame: Checkpoint { log: said, ..frame }, blobs });
    }

    /// Has what its agent said handed in without any work; false if the server has it.
    fn bring_log(&mut self, git: BTreeMap<Label, Line>, work: Option<Work>) -> bool {
        let Some(log) = self.log_blob() else { return false };
        let summary = Summary::new("summary", LOG_SUMMARY).ok();
        let frame = self.checkpoint(git, work);
        let frame = Checkpoint { summary, log: Some(log.digest.clone()), ..frame };
        self.post(Parcel { frame, blobs: vec![log] });
        true
    }

    /// What its agent said, as a file to be sent; none if the server has it.
    fn log_blob(&self) -> Option<Blob> {
        let attempt = self.card.dispatch.attempt;
        let bytes = self.log.unbrought()?;
        let kept = Shelf::of(&self.premises.attempt(attempt)).hold(&bytes);
        kept.map_err(|error| tracing::warn!(%attempt, %error, "its log was not kept")).ok()
    }

    /// What is told of it with its work, or with its log.
    fn checkpoint(&mut self, git: BTreeMap<Label, Line>, work: Option<Work>) -> Checkpoint {
        let (attempt, session) = (self.card.dispatch.attempt, self.course.conversation());
        self.talked = session.as_ref().map(Conversation::line);
        Checkpoint { attempt, seq: 0, summary: None, git, session, work, log: None }
    }

    fn post(&mut self, parcel: Parcel) {
        let attempt = self.card.dispatch.attempt;
        match self.courier.post(attempt, &parcel) {
            Ok(()) => self.log.is_brought(),
            Err(error) => tracing::warn!(%attempt, %error, "its work was not handed in"),
        }
    }

    /// Tells the conversation to go on with, if it is another than before.
    fn tell_talk(&mut self, git: BTreeMap<Label, Line>, work: Option<Work>) {
        let (attempt, session) = (self.card.dispatch.attempt, self.course.conversation());
        let line = session.as_ref().map(Conversation::line);
        if line.is_none() || line == self.talked {
            return;
        }
        self.talked = line;
        let frame = Checkpoint { attempt, seq: 0, summary: None, git, session, work, log: None };
        if let Err(error) = self.link.tell(frame) {
            tracing::warn!(%attempt, %error, "a conversation was not told");
        }
    }

    async fn stop(&mut self, grace_ms: u64) -> Option<Input> {
        if !self.started {
            self.ended = true;
            return Some(Input::Stopped(Proof { death: Death::NotStarted, survivor: false }));
        }
        points::pass(Point::StopWanted);
        // Without a connection the shim is being looked for, and is stopped then: the course asks again.
        if let Some(handle) = &self.handle
            && let Err(error) = handle.stop(Some(grace_ms)).await
        {
            tracing::info!(attempt = %self.card.dispatch.attempt, %error, "it was not told to stop");
            self.doubt(&error);
        }
        None
    }

    /// A shim that does not answer in time is looked for anew, which ends with force if it stands still: its
    /// connection alone would stay open for ever.
    fn doubt(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::TimedOut {
            self.handle = None;
        }
    }
}

/// Whether this is the work that a snapshot holds.
fn holds(work: &Work, taken: &Taken) -> bool {
    work.snapshot.as_str() == taken.snapshot().commit.as_str()
}
