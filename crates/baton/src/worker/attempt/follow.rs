//! What the spool of an attempt holds, fed to its course in order.

use std::io;

use baton_domain::time::Timestamp;

use crate::adapters::{self, Heard, Reply};
use crate::shim::spool::{Reader, Record, Stream};
use crate::shim::{Exit, Note};

use super::super::course::{At, Input};
use super::{Driver, now, wall};

/// Records that are read before anything else is looked at.
const RECORDS_AT_ONCE: usize = 512;

/// Answers that wait to be said; an agent asks for no more at once.
const UNSAID_MAX: usize = 16;

/// What became of something that an agent was to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It will read it.
    Yes,
    /// It reads nothing more.
    Refused,
    /// Its shim is not there, or does not answer.
    Unheard,
}

/// What the clock on the wall showed then.
fn on_the_wall(at: At) -> Timestamp {
    let ago = i64::try_from(now().since(at)).unwrap_or(i64::MAX);
    Timestamp(wall().0.saturating_sub(ago))
}

impl Driver {
    /// Feeds everything that is in the spool and was not fed.
    pub(super) async fn catch_up(&mut self) {
        loop {
            let records = match self.records() {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(attempt = %self.card.dispatch.attempt, %error, "the spool cannot be read");
                    return;
                }
            };
            if records.is_empty() {
                return;
            }
            for record in records {
                self.fold(&record).await;
            }
            tokio::task::yield_now().await;
        }
    }

    fn records(&mut self) -> io::Result<Vec<Record>> {
        if self.reader.is_none() {
            match Reader::open(&self.place.spool(), 0) {
                Ok(reader) => self.reader = Some(reader),
                // Nothing was ever started.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                Err(error) => return Err(error),
            }
        }
        let Some(reader) = &mut self.reader else { return Ok(vec![]) };
        reader.take(RECORDS_AT_ONCE).collect()
    }

    async fn fold(&mut self, record: &Record) {
        let at = At(record.at);
        let heard = match record.stream {
            Stream::Out => Heard::Out(&record.bytes),
            Stream::Err => Heard::Err(&record.bytes),
            Stream::In => {
                self.owed = None;
                self.prompt_written(at).await;
                Heard::In(&record.bytes)
            }
            Stream::Note => return self.note(&record.bytes, at).await,
        };
        self.log.hear(heard, on_the_wall(at));
        for seen in self.follower.fold(heard) {
            self.feed(Input::Seen(seen), at).await;
        }
        self.pay(at).await;
    }

    /// What the shim itself has to say.
    async fn note(&mut self, bytes: &[u8], at: At) {
        match Note::read(bytes) {
            Some(Note::Started { .. }) => {
                self.feed(Input::Launched, at).await;
                // A program that is told nothing waits for nothing.
                if self.is_told_nothing() {
                    self.prompt_written(at).await;
                }
            }
            Some(Note::Exited(exit)) => {
                let gone = match exit {
                    Exit::Code(code) => adapters::Exit::Code(code),
                    Exit::Signal(signal) => adapters::Exit::Signal(signal),
                };
                self.log.hear(Heard::Exited(gone), on_the_wall(at));
                for seen in self.follower.fold(Heard::Exited(gone)) {
                    self.feed(Input::Seen(seen), at).await;
                }
                self.feed(Input::Exited(exit), at).await;
            }
            Some(Note::Stopping { by }) => self.feed(Input::Ending(by), at).await,
            Some(Note::Stopped(proof)) if proof.survivor => {
                self.feed(Input::Stopped(proof), at).await;
            }
            Some(Note::Stopped(proof)) => self.end_with(proof, Input::Stopped).await,
            Some(Note::Dropped { bytes }) => {
                tracing::warn!(attempt = %self.card.dispatch.attempt, bytes, "the oldest of its spool is gone");
            }
            Some(Note::Frozen { .. } | Note::Thawed) | None => {}
        }
    }

    fn is_told_nothing(&self) -> bool {
        let plan = self.card.program().plan(&self.card.turn(None));
        plan.is_ok_and(|plan| plan.stdin.is_empty())
    }

    async fn prompt_written(&mut self, at: At) {
        if !self.prompted {
            self.prompted = true;
            self.feed(Input::PromptWritten, at).await;
        }
    }

    /// Writes what the program waits for by its protocol, once.
    async fn pay(&mut self, _at: At) {
        let Some(bytes) = self.follower.owed().filter(|bytes| self.owed.as_ref() != Some(bytes))
        else {
            return;
        };
        if self.handle.is_some() && self.write(&bytes).await == Written::Yes {
            self.owed = Some(bytes);
        }
    }

    /// Answers the agent. What cannot be said now is said when its shim is there again; until the agent has
    /// it, nobody tells the server so, and the next attempt is given it with its hand-off.
    pub(super) async fn say(&mut self, reply: Reply) {
        // It does not wait for that any more.
        let Some(bytes) = self.follower.answer(&reply) else { return };
        if self.write(&bytes).await != Written::Yes && self.unsaid.len() < UNSAID_MAX {
            self.unsaid.push_back(reply);
        }
    }

    /// The same for what could not be said.
    pub(super) async fn say_again(&mut self) {
        if self.handle.is_some() {
            for reply in std::mem::take(&mut self.unsaid) {
                self.say(reply).await;
            }
        }
    }

    /// Gives the agent something to read.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Written {
        let Some(handle) = &self.handle else { return Written::Unheard };
        let Err(error) = handle.write(bytes).await else { return Written::Yes };
        tracing::info!(attempt = %self.card.dispatch.attempt, %error, "it cannot be told");
        // Its shim says so; whatever else went wrong is between the two of us.
        let refused = error.kind() == io::ErrorKind::InvalidInput;
        if refused { Written::Refused } else { Written::Unheard }
    }
}
