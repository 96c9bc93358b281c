//! What a worker tells of an attempt, as orders.

use std::collections::BTreeMap;

use baton_domain::Refusal;
use baton_domain::command::{self, Agent, Command, Expect, Note, Proof, Supervisor};
use baton_domain::deadline::Sight;
use baton_domain::history::Past;
use baton_domain::ids::{AttemptId, Label};
use baton_domain::limits::EVIDENCE_MAX;
use baton_domain::pool::{PoolName, Shut};
use baton_domain::project::RecordCommand;
use baton_domain::run::Mark;
use baton_domain::text::{Line, Message, Summary, Text};
use baton_domain::time::Millis;
use baton_store::{Aim, Committed, Error, PastId};

use crate::operations::WORKERS_OWN;
use crate::points::{self, Point};
use crate::problem::Problem;
use crate::protocol::{
    About, Ack, Arrived, Bound, Checkpoint, Conversation, Fenced, LOG_KEPT_AS, Lifecycle, Limit,
    Merged, Phase, Side as _, Trouble, Up, Work,
};
use crate::shape::choices::Word as _;

use super::hello::lost;
use super::post::{Post, holds, standing};
use super::{too_slow, trouble};

/// How long an account rests after a hard limit that does not say until when.
const REST: Millis = Millis::minutes(5);
/// Checkpoints among which a late one is looked for: a worker has a few on its way at most.
const LATE_BACK_MAX: usize = 8;
/// What stands before the words of a request for permission.
const MAY_IT: &str = "The agent asks for permission: ";

/// Why a frame is not carried out.
pub(super) struct Wrong {
    pub(super) code: &'static str,
    pub(super) detail: String,
    pub(super) field: Option<&'static str>,
}

impl Post {
    /// Carries out what a frame tells, once, and settles it. A store in trouble settles nothing: then the
    /// connection ends before a later frame could overtake this one.
    pub(super) async fn report(&self, up: Up) -> Result<(), Problem> {
        let Some((attempt, seq)) = up.concerns() else { return Ok(()) };
        self.heard_of(attempt);
        let settle = |trouble: Trouble| {
            let frame = Text::new("frame", up.word()).ok();
            let about = Some(About { frame, attempt: Some(attempt), seq: Some(seq) });
            self.say(Trouble { about, ..trouble }).map_err(|_| too_slow())
        };
        // Without its token nobody tells how an attempt ends, or that its agent is dead.
        if !self.has_token(attempt) {
            tracing::warn!(%attempt, seq, frame = up.word(), "a frame of an attempt without its token");
            self.ack(attempt, seq)?;
            return self.say(Fenced { attempt, code: lost() }).map_err(|_| too_slow());
        }
        let proof = self.proof(attempt);
        let mut commands = vec![Command::Supervisor(proof.clone(), Supervisor::Heard { seq })];
        match self.commands(&up, &proof).await {
            Ok(more) => commands.extend(more),
            Err(Refused::Frame(Wrong { code, detail, field })) => {
                let field = field.and_then(|field| Text::new("field", field).ok());
                return settle(Trouble { field, ..trouble(code, &detail) });
            }
            Err(Refused::Store(error)) => return Err(error.into()),
        }
        // So that an answer which is given at once finds who waits for it.
        let asked = self.note_question(&up, attempt);
        points::pass(Point::ReportHeard);
        match self.submit(attempt, commands).await {
            Ok(committed) => {
                points::pass(Point::ReportCommitted);
                self.ack(attempt, seq)?;
                self.say_bound(&up, attempt).await?;
                if let (Up::Checkpoint(_), Some(flow)) = (&up, &committed.task) {
                    self.knows_checkpoints(flow, attempt);
                }
                match committed.task {
                    Some(flow) if holds(&flow, attempt) => self.tell(&flow).await,
                    Some(_) | None => {
                        // It is over by its own word, and need not be told so.
                        if let Some(mine) = self.lock().get_mut(&attempt) {
                            mine.told.fenced = true;
                        }
                        Ok(())
                    }
                }
            }
            Err(Error::Refused(Refusal::HeardBefore { heard })) => {
                self.ack(attempt, heard)?;
                self.say_bound(&up, attempt).await
            }
            Err(Error::Refused(Refusal::LeaseLost | Refusal::NotFound)) => {
                tracing::info!(%attempt, seq, frame = up.word(), "a frame of an attempt that is over");
                self.ack(attempt, seq)?;
                self.say(Fenced { attempt, code: lost() }).map_err(|_| too_slow())
            }
            Err(Error::Refused(refusal)) => {
                if asked {
                    self.forget_question(attempt);
                }
                settle(trouble(refusal.code(), &refusal.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Its agent may be started, if that is what the worker waits for.
    async fn say_bound(&self, up: &Up, attempt: AttemptId) -> Result<(), Problem> {
        let Up::Bind(_) = up else { return Ok(()) };
        let row = self.relay.engine().task(&self.caller.tenant, attempt.task).await?.what;
        if row.is_some_and(|row| standing(&row.flow, attempt).is_some()) {
            self.say(Bound { attempt }).map_err(|_| too_slow())?;
        }
        Ok(())
    }

    fn ack(&self, attempt: AttemptId, seq: u64) -> Result<(), Problem> {
        self.say(Ack { attempt, seq }).map_err(|_| too_slow())
    }

    /// Remembers which question is open; whether it was a question.
    fn note_question(&self, up: &Up, attempt: AttemptId) -> bool {
        let id = match up {
            Up::Permission(frame) => Some(&frame.id),
            Up::Question(frame) => Some(&frame.id),
            Up::Lifecycle(frame) => {
                if matches!(frame.phase, Phase::InputReceived | Phase::InputWithdrawn) {
                    self.forget_question(attempt);
                }
                None
            }
            Up::Hello(_)
            | Up::Credit(_)
            | Up::Usage(_)
            | Up::Limit(_)
            | Up::Bind(_)
            | Up::Gates(_)
            | Up::Checkpoint(_)
            | Up::Exited(_)
            | Up::Stopped(_)
            | Up::Lost(_)
            | Up::Released(_)
            | Up::Probed(_)
            | Up::Merged(_)
            | Up::Heartbeat(_)
            | Up::Log(_)
            | Up::Bye(_) => None,
        };
        if let (Some(id), Some(mine)) = (id, self.lock().get_mut(&attempt)) {
            mine.question = Some(id.clone());
        }
        id.is_some()
    }

    fn forget_question(&self, attempt: AttemptId) {
        if let Some(mine) = self.lock().get_mut(&attempt) {
            mine.question = None;
        }
    }

    /// What a frame asks for, besides being heard.
    async fn commands(&self, up: &Up, proof: &Proof) -> Result<Option<Command>, Refused> {
        let supervisor = |says| Ok(Some(Command::Supervisor(proof.clone(), says)));
        let ask = |text| Ok(Some(Command::Agent(proof.clone(), Agent::Ask(text))));
        match up {
            Up::Lifecycle(frame) => lifecycle(frame, proof),
            Up::Usage(frame) => supervisor(Supervisor::Spend { total_micros: frame.total_micros }),
            Up::Limit(frame) => {
                // It acts on something else than the task, so it is asked first whether it counts.
                if self.is_news(frame.attempt, frame.seq).await.map_err(Refused::Store)? {
                    self.limit(frame).await?;
                }
                Ok(None)
            }
            Up::Question(frame) => ask(frame.text.clone()),
            Up::Permission(frame) => ask(permission(&frame.what)),
            Up::Bind(frame) => self.bound(frame, proof).await,
            Up::Gates(frame) => self.found(frame, proof).await,
            Up::Checkpoint(frame) => {
                let usual = || Summary::new("summary", "Snapshot").expect("a word is a text");
                let summary = frame.summary.clone().unwrap_or_else(usual);
                let git = with_own(frame);
                let note = Note { summary, cursor: None, evidence: vec![], git };
                if self.is_kept(frame.attempt, &note).await.map_err(Refused::Store)? {
                    return Ok(None);
                }
                supervisor(Supervisor::Snapshot(Box::new(note)))
            }
            Up::Exited(_) => supervisor(Supervisor::Exited),
            Up::Stopped(frame) => {
                let (death, survivor) = (frame.death, frame.survivor);
                supervisor(Supervisor::Stopped { death, survivor })
            }
            Up::Lost(frame) => {
                let (code, reason) = (frame.code.clone(), frame.reason.clone());
                supervisor(Supervisor::Lost { code, reason })
            }
            Up::Released(frame) => {
                let until = frame.until.map(|until| until.0);
                supervisor(Supervisor::Release { reason: frame.reason.clone(), until })
            }
            Up::Probed(frame) => supervisor(Supervisor::Probed { met: frame.met }),
            Up::Merged(frame) => supervisor(Supervisor::Merged(Box::new(merged(frame)?))),
            Up::Hello(_) | Up::Credit(_) | Up::Heartbeat(_) | Up::Log(_) | Up::Bye(_) => Ok(None),
        }
    }

    /// Whether a snapshot of an attempt that is over was told before: nobody counts what comes late.
    async fn is_kept(&self, attempt: AttemptId, note: &Note) -> Result<bool, Error> {
        if !self.lock().get(&attempt).is_some_and(|mine| mine.told.fenced) {
            return Ok(false);
        }
        let (engine, tenant) = (self.relay.engine(), &self.caller.tenant);
        let Some(row) = engine.task(tenant, attempt.task).await?.what else { return Ok(false) };
        for number in (1..=row.flow.checkpoints).rev().take(LATE_BACK_MAX) {
            let which = PastId::Checkpoint(number);
            if let Some(Past::Checkpoint(kept)) =
                engine.past(tenant, attempt.task, which).await?.what
                && kept.attempt == attempt.number
                && kept.note == *note
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an attempt holds its run, and was not heard under this number.
    async fn is_news(&self, attempt: AttemptId, seq: u64) -> Result<bool, Error> {
        let nothing = Command::Expect(Expect::default());
        match self.submit(attempt, vec![nothing]).await {
            Ok(Committed { lease: Some(lease), .. }) => {
                Ok(lease.attempt == attempt.number && lease.heard < seq)
            }
            Ok(_) | Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Shuts an account that a provider has shut. Of several resets the latest counts, and a notice
    /// that ended nothing changes nothing.
    async fn limit(&self, frame: &Limit) -> Result<(), Refused> {
        if !self.accounts.contains(&frame.account) {
            return Err(Refused::Frame(Wrong {
                code: "invalid",
                detail: "`account` must be one of the hello".to_owned(),
                field: Some("account"),
            }));
        }
        if !frame.hard {
            tracing::info!(account = %frame.account, "an account is near its limit");
            return Ok(());
        }
        let now = self.relay.engine().now();
        let until = frame.resets_at.map_or(now + REST, |at| at.0);
        let reason = Text::new("reason", "its provider limits it").expect("a plain sentence");
        let shut = Shut { reason, since: now, until: Some(until) };
        let pool = PoolName::Account(frame.account.clone());
        let order = self.order(Aim::Record(RecordCommand::KeepShut { pool, shut }, None));
        match self.relay.engine().submit(order).await {
            // A reset that has passed meanwhile shuts nothing.
            Ok(_) | Err(Error::Refused(Refusal::Invalid { .. })) => Ok(()),
            Err(Error::Refused(refusal)) => Err(Refused::Frame(Wrong {
                code: refusal.code(),
                detail: refusal.to_string(),
                field: None,
            })),
            Err(error) => Err(Refused::Store(error)),
        }
    }
}

/// Why a frame does not become an order.
pub(super) enum Refused {
    /// It is wrong.
    Frame(Wrong),
    /// Nobody can tell.
    Store(Error),
}

fn lifecycle(frame: &Lifecycle, proof: &Proof) -> Result<Option<Command>, Refused> {
    let sight = match frame.phase {
        Phase::Accepted => Sight::Preparing,
        Phase::InputReceived => {
            return Ok(Some(Command::Agent(proof.clone(), Agent::Receive(Mark::Applied))));
        }
        Phase::InputWithdrawn => {
            return Ok(Some(Command::Agent(proof.clone(), Agent::Withdraw)));
        }
        Phase::TimedOut => {
            let deadline = frame.deadline.ok_or_else(|| {
                Refused::Frame(Wrong {
                    code: "invalid",
                    detail: "`deadline` is missing: say which one has passed".to_owned(),
                    field: Some("deadline"),
                })
            })?;
            let says = Supervisor::TimedOut(deadline);
            return Ok(Some(Command::Supervisor(proof.clone(), says)));
        }
        Phase::Exceeded => {
            let cap = frame.cap.ok_or_else(|| {
                Refused::Frame(Wrong {
                    code: "invalid",
                    detail: "`cap` is missing: say which one was reached".to_owned(),
                    field: Some("cap"),
                })
            })?;
            let says = Supervisor::Exceeded(cap);
            return Ok(Some(Command::Supervisor(proof.clone(), says)));
        }
        Phase::ProcessStarted => Sight::ProcessStarted,
        Phase::PromptWritten => Sight::PromptWritten,
        Phase::FirstEvent => Sight::FirstEvent,
        Phase::FirstVisibleEvent => Sight::FirstVisibleEvent,
        Phase::Streaming => Sight::Streaming,
        Phase::ToolStarted => Sight::ToolStarted,
        Phase::ToolFinished => Sight::ToolFinished,
        Phase::Progressed => Sight::Progressed,
    };
    Ok(Some(Command::Supervisor(proof.clone(), Supervisor::Report(sight))))
}

/// What became of a car of the train.
fn merged(frame: &Merged) -> Result<command::Merged, Refused> {
    let missing = |field: &'static str| {
        let detail = format!("`{field}` is missing: say it of a car that is {}", frame.how.word());
        Refused::Frame(Wrong { code: "invalid", detail, field: Some(field) })
    };
    let reason = || frame.reason.clone().ok_or_else(|| missing("reason"));
    Ok(match frame.how {
        Arrived::Landed => {
            let commit = frame.commit.as_ref().ok_or_else(|| missing("commit"))?;
            let commit = Line::new("commit", commit.to_string()).map_err(|_| missing("commit"))?;
            let onto = frame.onto.clone().ok_or_else(|| missing("onto"))?;
            command::Merged::Landed { commit, onto, receipts: vec![] }
        }
        Arrived::Unfit => {
            let kind = frame.unfit.ok_or_else(|| missing("unfit"))?;
            command::Merged::Unfit { kind, reason: reason()?, receipts: vec![] }
        }
        Arrived::Waits => command::Merged::Waits { reason: reason()? },
    })
}

/// What is kept of the work tree, with the conversation to go on with and the blobs that hold the work: the next
/// attempt is handed them, wherever it is.
fn with_own(frame: &Checkpoint) -> BTreeMap<Label, Line> {
    let mut git = frame.git.clone();
    // Names that workers keep for themselves are told by fields of their own, and by nothing else.
    git.retain(|name, _| !name.as_str().starts_with(WORKERS_OWN));
    let session = frame.session.as_ref().map_or_else(|| "none".to_owned(), Conversation::line);
    // Nobody kept the work of another attempt.
    let attempt = frame.attempt.number;
    let work = frame.work.clone().map(|work| (Work::KEPT_AS, Work { attempt, ..work }.line()));
    let log = frame.log.as_ref().map(|log| (LOG_KEPT_AS, log.as_str().to_owned()));
    for (name, line) in [(Conversation::KEPT_AS, session)].into_iter().chain(work).chain(log) {
        if let (Ok(name), Ok(line)) = (name.parse(), Line::new("git", line))
            && git.len() < EVIDENCE_MAX
        {
            git.insert(name, line);
        }
    }
    git
}

/// A request for permission as a person reads it.
fn permission(what: &Message) -> Message {
    let room = 8_192 - MAY_IT.len();
    let asked = format!("{MAY_IT}{}", what.cut(room));
    Message::new("what", asked).unwrap_or_else(|_| what.clone())
}
