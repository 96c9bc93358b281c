//! What the spool of an attempt holds, fed to its course in order.

use std::io;

use crate::adapters::{self, Heard};
use crate::shim::spool::{Reader, Record, Stream};
use crate::shim::{Exit, Note};

use super::super::course::{At, Input};
use super::Driver;

/// Records that are read before anything else is looked at.
const RECORDS_AT_ONCE: usize = 512;

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
                for seen in self.follower.fold(Heard::Exited(gone)) {
                    self.feed(Input::Seen(seen), at).await;
                }
                self.feed(Input::Exited(exit), at).await;
            }
            Some(Note::Stopping { by }) => self.feed(Input::Ending(by), at).await,
            Some(Note::Stopped(proof)) if proof.survivor => {
                self.feed(Input::Stopped(proof), at).await;
            }
            Some(Note::Stopped(proof)) => self.end_with(Input::Stopped(proof)).await,
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
        if self.handle.is_some() && self.write(&bytes).await {
            self.owed = Some(bytes);
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(handle) = &self.handle else { return false };
        match handle.write(bytes).await {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(attempt = %self.card.dispatch.attempt, %error, "it cannot be told");
                false
            }
        }
    }
}
