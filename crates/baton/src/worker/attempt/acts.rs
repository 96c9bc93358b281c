//! What the course of an attempt says, done.

use std::collections::{BTreeMap, VecDeque};

use baton_domain::ids::Label;
use baton_domain::run::Death;
use baton_domain::text::Line;
use tokio::task::{JoinError, spawn_blocking};

use crate::points::{self, Point};
use crate::protocol::Checkpoint;
use crate::shim::Proof;
use crate::worktree::{self, Taken};

use super::super::course::{Act, At, Input, Why};
use super::super::ground::{self, Ground};
use super::{Driver, now, slept, wall};

/// A shorter sleep of the machine is none: clocks are not read at the same instant.
const SLEPT_MS_MIN: u64 = 1_000;
/// Inputs that a course may answer its own acts with before that is a mistake of ours.
const ECHOES_MAX: usize = 64;

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
                    tracing::error!(%attempt, %error, "a report is lost: it cannot be kept");
                }
                None
            }
            Act::Say(reply) => {
                if let Some(bytes) = self.follower.answer(&reply) {
                    self.write(&bytes).await;
                }
                None
            }
            Act::Prompt(text) => {
                let bytes = self.follower.prompt(&text);
                let written = match bytes {
                    Some(bytes) => self.write(&bytes).await,
                    None => false,
                };
                (!written).then_some(Input::Deaf)
            }
            Act::Interrupt => {
                match (self.follower.interrupt(), &self.handle) {
                    (Some(bytes), _) => drop(self.write(&bytes).await),
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
                }
                None
            }
            Act::Snapshot(why) => self.keep(why),
            Act::Quarantine => {
                tracing::warn!(%attempt, "something of it may still run");
                if let Some(ground) = &mut self.ground
                    && let Err(error) = ground.close("its death is not proved")
                {
                    tracing::error!(%attempt, %error, "its worktree was not closed");
                }
                None
            }
            Act::Over => {
                self.over = true;
                None
            }
        }
    }

    /// Begins to keep the work. A plain folder stays where it is, for the next attempt on this machine.
    fn keep(&mut self, why: Why) -> Option<Input> {
        let number = self.card.dispatch.attempt.number;
        match self.ground.as_ref().map(Ground::worktree) {
            Some(worktree) => {
                self.keeping = Some(spawn_blocking(move || worktree.snapshot(number)));
                None
            }
            None => {
                if why != Why::Timer && self.course.conversation().is_some() {
                    self.tell_kept(BTreeMap::new());
                }
                Some(Input::Kept)
            }
        }
    }

    /// A snapshot is taken, or could not be.
    pub(super) async fn kept(&mut self, taken: Result<Result<Taken, worktree::Error>, JoinError>) {
        self.keeping = None;
        let attempt = self.card.dispatch.attempt;
        match taken {
            Ok(Ok(taken)) => {
                points::pass(Point::SnapshotTaken);
                let tree = taken.snapshot().tree.to_string();
                if let Taken::New(_) = &taken {
                    self.tell_kept(ground::told(&taken));
                }
                self.feed(Input::Moved { tree }, now()).await;
            }
            Ok(Err(error)) => tracing::warn!(%attempt, %error, "its work was not kept"),
            Err(error) => tracing::warn!(%attempt, %error, "its work was not kept"),
        }
        self.feed(Input::Kept, now()).await;
    }

    fn tell_kept(&self, git: BTreeMap<Label, Line>) {
        let attempt = self.card.dispatch.attempt;
        let session = self.course.conversation();
        let frame = Checkpoint { attempt, seq: 0, summary: None, git, session };
        if let Err(error) = self.link.tell(frame) {
            tracing::warn!(%attempt, %error, "a snapshot was not told");
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
        }
        None
    }
}
