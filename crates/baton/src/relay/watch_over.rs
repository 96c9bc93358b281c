//! What a worker must hear of its attempts: read from their tasks whenever something changed.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_domain::event::Event;
use baton_domain::ids::{AttemptId, TaskId};
use baton_domain::run::{Mark, Phase};
use baton_domain::task::Flow;
use baton_domain::text::Message;
use baton_store::read::{About, Happened};
use baton_store::{Cursor, Error};
use tokio::time::sleep;

use crate::changes::Listener;
use crate::problem::Problem;
use crate::protocol::{Answer, Cancel, Checkpointed, Fenced, Standing, Stands};

use super::hello::lost;
use super::post::{Post, ToldSoFar, holds, standing, stopping};
use super::proof::asked;
use super::too_slow;

/// At least so long between two looks, so that a busy tenant is not read once per commit and worker.
const GATHER: Duration = Duration::from_millis(20);
/// How long to wait after a look that the store could not answer.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// Entries that one look reads at once.
const ENTRIES_AT_ONCE: usize = 256;

impl Post {
    /// Tells the worker what changes, until nobody may listen any more.
    pub(super) async fn watch_over(&self, mut listener: Listener) -> Problem {
        // Whoever listens before it looks misses nothing in between.
        let mut after = None;
        let mut all = true;
        loop {
            match self.look(&mut after, all).await {
                Ok(()) => {
                    if let Err(error) = listener.heard().await {
                        return error.into();
                    }
                    sleep(GATHER).await;
                }
                Err(Looked::Store(error)) => {
                    // The place was moved on already: what could not be read is read again, all of it.
                    tracing::debug!(%error, "a worker's attempts cannot be looked at");
                    after = None;
                    sleep(AFTER_TROUBLE).await;
                }
                Err(Looked::Full) => return too_slow(),
            }
            all = after.is_none();
        }
    }

    /// Looks at the attempts whose tasks have changed, or at all of them.
    async fn look(&self, after: &mut Option<Cursor>, all: bool) -> Result<(), Looked> {
        let tasks = match after {
            Some(_) if !all => self.changed(after).await?,
            Some(_) | None => {
                let engine = self.relay.engine();
                let position = engine.head(&self.caller.tenant).await.map_err(Looked::Store)?;
                *after = Some(Cursor { incarnation: engine.incarnation(), position });
                self.tasks()
            }
        };
        for task in tasks {
            let told = self.relay.engine().task(&self.caller.tenant, task).await;
            if let Some(row) = told.map_err(Looked::Store)?.what {
                self.tell(&row.flow).await.map_err(|_| Looked::Full)?;
            }
        }
        Ok(())
    }

    fn tasks(&self) -> BTreeSet<TaskId> {
        self.lock().keys().map(|attempt| attempt.task).collect()
    }

    /// Tasks of the worker's attempts that have changed since the last look.
    async fn changed(&self, after: &mut Option<Cursor>) -> Result<BTreeSet<TaskId>, Looked> {
        let mut changed = BTreeSet::new();
        while let Some(cursor) = *after {
            let engine = self.relay.engine();
            let page = engine.entries(&self.caller.tenant, cursor, ENTRIES_AT_ONCE).await;
            let page = match page {
                Ok(page) => page,
                Err(Error::CursorExpired { .. }) => {
                    *after = None;
                    break;
                }
                Err(error) => return Err(Looked::Store(error)),
            };
            let mine = self.tasks();
            changed.extend(page.rows.iter().filter_map(|entry| match entry.about {
                About::Task(task, _) if mine.contains(&task) => Some(task),
                About::Task(..) | About::Records(_) => None,
            }));
            let position = page.rows.last().map_or(cursor.position, |last| last.position);
            *after = Some(Cursor { position, ..cursor });
            if !page.more {
                break;
            }
        }
        Ok(changed)
    }

    /// Tells the worker what it has to know of its attempts of this task, each thing once.
    pub(super) async fn tell(&self, flow: &Flow) -> Result<(), Problem> {
        let mine: Vec<AttemptId> =
            self.lock().keys().filter(|attempt| attempt.task == flow.id).copied().collect();
        for attempt in mine {
            if !holds(flow, attempt) {
                if self.tells(attempt, |told| std::mem::replace(&mut told.fenced, true)) {
                    self.say(Fenced { attempt, code: lost() }).map_err(|_| too_slow())?;
                }
            } else if let Some(why) = stopping(flow, attempt) {
                if self.tells(attempt, |told| std::mem::replace(&mut told.stop, true)) {
                    self.say(Cancel { attempt, why }).map_err(|_| too_slow())?;
                }
            } else {
                self.tell_checkpoint(flow, attempt)?;
                self.tell_standing(flow, attempt).await?;
                self.tell_answer(flow, attempt).await?;
            }
        }
        Ok(())
    }

    /// Whether something is told now, given what marks it as told and answers whether it was before.
    fn tells(&self, attempt: AttemptId, mark: impl FnOnce(&mut ToldSoFar) -> bool) -> bool {
        self.lock().get_mut(&attempt).is_some_and(|mine| !mark(&mut mine.told))
    }

    /// That the agent left a checkpoint, whose work is worth keeping.
    fn tell_checkpoint(&self, flow: &Flow, attempt: AttemptId) -> Result<(), Problem> {
        if self.tells(attempt, |told| known(told, flow)) {
            self.say(Checkpointed { attempt }).map_err(|_| too_slow())?;
        }
        Ok(())
    }

    /// The worker itself made the last checkpoint.
    pub(super) fn knows_checkpoints(&self, flow: &Flow, attempt: AttemptId) {
        self.tells(attempt, |told| known(told, flow));
    }

    /// How the run stands, when that changed: an agent that waits for a person is not hung.
    async fn tell_standing(&self, flow: &Flow, attempt: AttemptId) -> Result<(), Problem> {
        let Some(how) = standing(flow, attempt) else { return Ok(()) };
        // A run that was handed over, and one of which nothing was said, is worked on.
        let known = |before: Option<Standing>| before.unwrap_or(Standing::Working) == how;
        if self.tells(attempt, |told| known(told.stands.replace(how))) {
            let asks = match how {
                Standing::Verifying => {
                    let row = self.relay.engine().task(&self.caller.tenant, flow.id).await?;
                    row.what.map(|row| asked(&row.brief))
                }
                Standing::Working | Standing::Waiting | Standing::Held => None,
            };
            self.say(Stands { attempt, how, asks }).map_err(|_| too_slow())?;
        }
        Ok(())
    }

    /// The answer to the question that the agent waits on, until the worker says that it has it.
    async fn tell_answer(&self, flow: &Flow, attempt: AttemptId) -> Result<(), Problem> {
        let Some(run) = flow.run.as_ref() else { return Ok(()) };
        let waits = run.held().is_some_and(|held| matches!(held.phase, Phase::WaitingInput(_)));
        let Some(answer) = run.answer.filter(|answer| !waits && answer.mark == Mark::Sent) else {
            return Ok(());
        };
        let id = self.lock().get(&attempt).and_then(|mine| mine.question.clone());
        let Some(id) = id else { return Ok(()) };
        if !self.tells(attempt, |told| told.answer.replace(answer.given) == Some(answer.given)) {
            return Ok(());
        }
        let (engine, tenant) = (self.relay.engine(), &self.caller.tenant);
        let said = engine.entries_at(tenant, flow.id, vec![answer.given]).await?;
        let text = said.iter().find_map(|entry| answered(&entry.happened));
        let Some(text) = text else { return Ok(()) };
        self.say(Answer { attempt, id, text }).map_err(|_| too_slow())
    }
}

/// Whether nothing was added to the checkpoints of a task since they were last looked at.
fn known(told: &mut ToldSoFar, flow: &Flow) -> bool {
    told.checkpoints.replace(flow.checkpoints).is_none_or(|before| before >= flow.checkpoints)
}

/// Why a look ended early.
enum Looked {
    /// Something could not be read.
    Store(Error),
    /// The worker has left too much unread.
    Full,
}

fn answered(happened: &Happened) -> Option<Message> {
    let Happened::ToTask(events) = happened else { return None };
    events.iter().find_map(|event| {
        if let Event::Answered { answer } = event { Some(answer.clone()) } else { None }
    })
}
