//! What a worker tells of an attempt, as orders.

use std::collections::BTreeMap;

use baton_domain::Refusal;
use baton_domain::command::{Agent, Command, Note, Proof, Supervisor};
use baton_domain::deadline::Sight;
use baton_domain::ids::{AttemptId, Label};
use baton_domain::limits::EVIDENCE_MAX;
use baton_domain::pool::{PoolName, Shut};
use baton_domain::project::RecordCommand;
use baton_domain::run::Mark;
use baton_domain::text::{Line, Message, Summary, Text};
use baton_domain::time::Millis;
use baton_store::{Aim, Error};

use crate::points::{self, Point};
use crate::problem::Problem;
use crate::protocol::{
    About, Ack, Checkpoint, Conversation, Fenced, Lifecycle, Limit, Phase, Side as _, Trouble, Up,
};

use super::hello::lost;
use super::post::{Post, holds};
use super::{too_slow, trouble};

/// How long an account rests after a hard limit that does not say until when.
const REST: Millis = Millis::minutes(5);
/// What stands before the words of a request for permission.
const MAY_IT: &str = "The agent asks for permission: ";

/// Why a frame is not carried out.
struct Wrong {
    code: &'static str,
    detail: String,
    field: Option<&'static str>,
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
            Err(Error::Refused(Refusal::HeardBefore { heard })) => self.ack(attempt, heard),
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

    fn ack(&self, attempt: AttemptId, seq: u64) -> Result<(), Problem> {
        self.say(Ack { attempt, seq }).map_err(|_| too_slow())
    }

    /// Remembers which question is open; whether it was a question.
    fn note_question(&self, up: &Up, attempt: AttemptId) -> bool {
        let id = match up {
            Up::Permission(frame) => Some(&frame.id),
            Up::Question(frame) => Some(&frame.id),
            Up::Lifecycle(frame) => {
                if frame.phase == Phase::InputReceived {
                    self.forget_question(attempt);
                }
                None
            }
            Up::Hello(_)
            | Up::Credit(_)
            | Up::Usage(_)
            | Up::Limit(_)
            | Up::Gate(_)
            | Up::Checkpoint(_)
            | Up::Exited(_)
            | Up::Stopped(_)
            | Up::Lost(_)
            | Up::Released(_)
            | Up::Probed(_)
            | Up::Heartbeat(_)
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
            Up::Limit(frame) => self.limit(frame).await.map(|()| None),
            Up::Question(frame) => ask(frame.text.clone()),
            Up::Permission(frame) => ask(permission(&frame.what)),
            Up::Gate(_) => Err(Refused::Frame(Wrong {
                code: "not_yet",
                detail: "gates are not taken in yet".to_owned(),
                field: None,
            })),
            Up::Checkpoint(frame) => {
                let usual = || Summary::new("summary", "Snapshot").expect("a word is a text");
                let summary = frame.summary.clone().unwrap_or_else(usual);
                let git = with_session(frame);
                let note = Note { summary, cursor: None, evidence: vec![], git };
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
            Up::Hello(_) | Up::Credit(_) | Up::Heartbeat(_) | Up::Bye(_) => Ok(None),
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
enum Refused {
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

/// What is kept of the work tree, with the conversation to go on with: the next attempt is handed it, wherever it is.
fn with_session(frame: &Checkpoint) -> BTreeMap<Label, Line> {
    let mut git = frame.git.clone();
    let line = frame.session.as_ref().map_or_else(|| "none".to_owned(), Conversation::line);
    if let (Ok(name), Ok(line)) = (Conversation::KEPT_AS.parse(), Line::new("session", line))
        && git.len() < EVIDENCE_MAX
    {
        git.insert(name, line);
    }
    git
}

/// A request for permission as a person reads it.
fn permission(what: &Message) -> Message {
    let room = 8_192 - MAY_IT.len();
    let asked = format!("{MAY_IT}{}", what.cut(room));
    Message::new("what", asked).unwrap_or_else(|_| what.clone())
}
