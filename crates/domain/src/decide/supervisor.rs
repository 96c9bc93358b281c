//! What the supervisor of an attempt may say, and what a late one may still add.

use crate::command::{Proof, Supervisor};
use crate::contract::Binding;
use crate::deadline::{Deadline, Sight};
use crate::event::{Event, Then};
use crate::limits::{BUDGET_MICROS_MAX, PARKED_MAX};
use crate::policy::lease_is_bounded;
use crate::refusal::Refusal;
use crate::run::{Block, Cap, Counts, Death, Fault, Mode, Outcome, Phase, Purpose, RunResult, Why};
use crate::scene::{Decision, LeaseChange, Scene};
use crate::text::Reason;
use crate::time::{Millis, Timestamp};

use super::ending::{Sentence, conclude, end, finish_attempt, overrun};
use super::{Grip, agent, ending, grip, known, landing, present, spend};

type Decided = Result<Decision, Refusal>;

pub(super) fn decide(
    scene: &Scene<'_>,
    proof: &Proof,
    says: &Supervisor,
    now: Timestamp,
) -> Decided {
    if let Supervisor::Spend { total_micros } = says
        && *total_micros > BUDGET_MICROS_MAX
    {
        let rule = format!("must be at most {BUDGET_MICROS_MAX}");
        return Err(Refusal::Invalid { field: "total_micros".into(), rule });
    }
    let grip = match grip(scene, proof, now) {
        Ok(grip) => grip,
        Err(refusal) => return late(scene, proof, says, refusal, now),
    };
    let supervised = grip.held.mode == Mode::Supervised;
    match says {
        Supervisor::Renew { lease } => renew(&grip, *lease, now),
        Supervisor::Heard { seq } if *seq <= grip.lease.heard => {
            Err(Refusal::HeardBefore { heard: grip.lease.heard })
        }
        Supervisor::Heard { seq } => {
            Ok(Decision { lease: Some(LeaseChange::Heard { seq: *seq }), ..Decision::default() })
        }
        Supervisor::Snapshot(note) => {
            grip.held.may_say_more(now)?;
            agent::checkpoint(&grip, note, true)
        }
        Supervisor::Spend { total_micros } => {
            grip.held.may_say_more(now)?;
            Ok(spend::spent(scene, &grip, *total_micros, now))
        }
        Supervisor::Exited => Ok(exited(scene, &grip, now)),
        Supervisor::Lost { code, reason } => {
            let outcome = Outcome::Failed { code: code.clone(), fault: Fault::Infrastructure };
            Ok(unless_stopping(scene, &grip, Sentence::new(outcome, Some(reason.clone())), now))
        }
        Supervisor::Release { reason, until } => release(scene, &grip, reason, *until, now),
        Supervisor::Report(_)
        | Supervisor::TimedOut(_)
        | Supervisor::Exceeded(_)
        | Supervisor::Stopped { .. }
        | Supervisor::Probed { .. }
        | Supervisor::Merged(_)
        | Supervisor::Bind(_)
        | Supervisor::Unbound(_)
            if !supervised =>
        {
            Err(Refusal::NotForYou { why: "a solo attempt has nobody who could see that" })
        }
        Supervisor::Report(sight) => {
            grip.held.may_say_more(now)?;
            Ok(report(&grip, *sight))
        }
        Supervisor::TimedOut(deadline) => Ok(timed_out(scene, &grip, *deadline, now)),
        Supervisor::Exceeded(cap) => exceeded(scene, &grip, *cap, now),
        Supervisor::Stopped { death, survivor } => {
            Ok(stopped(scene, &grip, *death, *survivor, now))
        }
        Supervisor::Probed { met } => probed(scene, &grip, *met),
        Supervisor::Merged(merged) => landing::merged(scene, &grip, merged, now),
        Supervisor::Bind(binding) => bind(scene, &grip, binding),
        Supervisor::Unbound(reason) => {
            let block = Block::new(Why::NeedsInput, now);
            let outcome = Outcome::Blocked { block, answered: false };
            Ok(unless_stopping(scene, &grip, Sentence::new(outcome, Some(reason.clone())), now))
        }
    }
}

/// What the project asks for counts from the beginning of an attempt: what is at work keeps what it began
/// with, and what was submitted answers what was asked then.
fn bind(scene: &Scene<'_>, grip: &Grip<'_>, binding: &Binding) -> Decided {
    match grip.held.phase {
        Phase::Leased => {}
        Phase::Working
        | Phase::WaitingInput(_)
        | Phase::Verifying { .. }
        | Phase::Stopping { .. } => return Ok(Decision::default()),
    }
    let brief = scene.task.and_then(|task| task.brief.as_ref()).ok_or(Refusal::NotFound)?;
    let all = brief.with_bound(&binding.contract)?;
    let added = all.lines.len() - brief.own().lines.len();
    let added = u16::try_from(added).unwrap_or(u16::MAX);
    let before = brief.bound.clone().unwrap_or_default();
    let same = before.protected == binding.protected
        && before.base == binding.base
        && usize::from(added) == before.lines.len()
        && all == brief.contract;
    if same {
        return Ok(Decision::default());
    }
    Ok(Decision::of(vec![Event::Bound { binding: Box::new(binding.clone()), added }]))
}

/// Ends an attempt so, unless it ends already.
fn unless_stopping(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    sentence: Sentence,
    now: Timestamp,
) -> Decision {
    match grip.held.phase {
        Phase::Stopping { .. } => Decision::default(),
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) | Phase::Verifying { .. } => {
            conclude(scene, grip, sentence, now)
        }
    }
}

fn release(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    reason: &Reason,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Decided {
    if until.is_some_and(|until| until > now + PARKED_MAX) {
        let rule = "must be at most 30 days away";
        return Err(Refusal::Invalid { field: "until".into(), rule: rule.into() });
    }
    let sentence = Sentence::new(Outcome::Released { until }, Some(reason.clone()));
    Ok(unless_stopping(scene, grip, sentence, now))
}

fn timed_out(scene: &Scene<'_>, grip: &Grip<'_>, deadline: Deadline, now: Timestamp) -> Decision {
    let waits = matches!(grip.held.phase, Phase::WaitingInput(_));
    if deadline == Deadline::UserInput && !waits {
        // The question has been answered.
        return Decision::default();
    }
    unless_stopping(scene, grip, Sentence::new(overrun(deadline, now), None), now)
}

fn renew(grip: &Grip<'_>, wished: Option<Millis>, now: Timestamp) -> Decided {
    let length = wished.unwrap_or(grip.lease.length);
    if !lease_is_bounded(length) {
        return Err(Refusal::Invalid { field: "lease".into(), rule: "must be 1 s to 24 h".into() });
    }
    let expires_at = match (grip.held.mode, &grip.held.phase) {
        (Mode::Solo, _) => now + length,
        // What is to die is not renewed: its fence falls, whoever proves what. A survivor that was seen
        // keeps the run, as long as somebody says so.
        (Mode::Supervised, Phase::Stopping { survivor: false, .. }) => {
            return Ok(Decision::default());
        }
        // Whoever owns the agent was promised the longer one.
        (Mode::Supervised, _) => grip.lease.expires_at.max(now + length),
    };
    let lease = Some(LeaseChange::Renew { expires_at, length });
    Ok(Decision { lease, ..Decision::default() })
}

fn report(grip: &Grip<'_>, sight: Sight) -> Decision {
    let seen = Event::Seen { sight };
    match grip.held.phase {
        Phase::Leased if sight == Sight::Preparing => Decision::of(vec![seen]),
        Phase::Leased => Decision::of(vec![Event::Began, seen]),
        Phase::Working => Decision::of(vec![seen]),
        // What it did before it ended may be seen only then.
        Phase::Stopping { .. } if sight == Sight::Progressed && !grip.held.moved => {
            Decision::of(vec![seen])
        }
        // Nothing is expected of an agent that waits, is verified or is stopped.
        Phase::WaitingInput(_) | Phase::Verifying { .. } | Phase::Stopping { .. } => {
            Decision::default()
        }
    }
}

/// An attempt that used up what it was allowed is parked for a person, who may allow more.
fn exceeded(scene: &Scene<'_>, grip: &Grip<'_>, cap: Cap, now: Timestamp) -> Decided {
    match cap {
        Cap::Turns | Cap::ToolCalls | Cap::Tokens => {}
        Cap::Continuations
        | Cap::Losses
        | Cap::Tries
        | Cap::Stalls
        | Cap::Budget
        | Cap::Setbacks => {
            let rule = "must be turns, tool_calls or tokens: the others are counted by the rules";
            return Err(Refusal::Invalid { field: "cap".into(), rule: rule.into() });
        }
    }
    Ok(match grip.held.phase {
        // What is verified or stopped uses up nothing more.
        Phase::Verifying { .. } | Phase::Stopping { .. } => Decision::default(),
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) => {
            let block = Block::new(Why::Limit { cap }, now);
            let outcome = Outcome::Blocked { block, answered: false };
            conclude(scene, grip, Sentence::new(outcome, None), now)
        }
    })
}

fn exited(scene: &Scene<'_>, grip: &Grip<'_>, now: Timestamp) -> Decision {
    match &grip.held.phase {
        Phase::Verifying { exited: false } => Decision::of(vec![Event::Exited]),
        Phase::Verifying { exited: true } | Phase::Stopping { .. } => Decision::default(),
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) => {
            conclude(scene, grip, Sentence::new(Outcome::EndedWithoutResult, None), now)
        }
    }
}

fn stopped(
    scene: &Scene<'_>,
    grip: &Grip<'_>,
    death: Death,
    survivor: bool,
    now: Timestamp,
) -> Decision {
    match &grip.held.phase {
        // Whoever was seen alive is gone only once that is proved.
        Phase::Stopping { survivor: true, .. } if survivor || death == Death::None => {
            Decision::default()
        }
        Phase::Stopping { .. } if survivor => Decision::of(vec![Event::Survived]),
        Phase::Stopping { verdict, .. } => {
            end(scene, grip, Sentence::new(verdict.clone(), None), Some(death), now)
        }
        // Whoever would have checked it is done with it: somebody else will.
        Phase::Verifying { .. } if !survivor => {
            let sentence =
                Sentence::new(Outcome::Completed { result: RunResult::Unverified }, None);
            let then = ending::within_tries(grip, Counts::Try, Then::Submitted, now);
            finish_attempt(scene, grip, sentence, Some(death), then)
        }
        Phase::Verifying { .. } => exited(scene, grip, now),
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) if survivor => {
            let mut decision = exited(scene, grip, now);
            decision.events.push(Event::Survived);
            decision
        }
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) => {
            let sentence = Sentence::new(Outcome::EndedWithoutResult, None);
            end(scene, grip, sentence, Some(death), now)
        }
    }
}

fn probed(scene: &Scene<'_>, grip: &Grip<'_>, met: bool) -> Decided {
    let (Purpose::Probe, Some(block)) = (grip.held.purpose, &grip.held.picked) else {
        return Err(Refusal::NotForYou { why: "this attempt is no probe" });
    };
    if let Phase::Stopping { .. } = grip.held.phase {
        return Ok(Decision::default());
    }
    let then = if met { Then::Queued } else { Then::Blocked { block: block.clone(), again: true } };
    let sentence = Sentence::new(Outcome::Completed { result: RunResult::Unverified }, None);
    Ok(finish_attempt(scene, grip, sentence, None, (Counts::Nothing, then)))
}

/// The attempt that still holds the run although its lease has run out, if this is its token.
fn overdue<'a>(scene: &Scene<'a>, proof: &Proof) -> Option<Grip<'a>> {
    let grip = present(scene)?;
    let own = match proof {
        Proof::Token { attempt, nonce } => {
            *attempt == grip.held.attempt && *nonce == grip.lease.nonce
        }
        Proof::Caller { .. } => false,
    };
    (own && grip.held.mode == Mode::Supervised).then_some(grip)
}

/// Who comes late changes nothing of the run, but a proof of death lifts the quarantine and
/// money that was spent is settled.
fn late(
    scene: &Scene<'_>,
    proof: &Proof,
    says: &Supervisor,
    refusal: Refusal,
    now: Timestamp,
) -> Decided {
    let flow = known(scene)?;
    let attempt = proof.attempt();
    let overdue = overdue(scene, proof);
    let own = overdue.is_some();
    if let (Some(grip), Supervisor::Spend { total_micros }) = (&overdue, says) {
        return Ok(spend::book(grip, *total_micros));
    }
    if let (Some(grip), Supervisor::Stopped { death, survivor: false }) = (overdue, says) {
        // The lease has run out and nobody has swept yet: this is the end, with its proof.
        let outcome = match &grip.held.phase {
            Phase::Stopping { verdict, .. } => verdict.clone(),
            Phase::Leased | Phase::Working | Phase::WaitingInput(_) | Phase::Verifying { .. } => {
                Outcome::Lost
            }
        };
        return Ok(end(scene, &grip, Sentence::new(outcome, None), Some(*death), now));
    }
    // Only a token, whose seal was checked, tells who an earlier attempt was.
    let earlier = matches!(proof, Proof::Token { .. })
        && (1..=flow.attempts).contains(&attempt)
        && flow.run.as_ref().and_then(|run| run.held()).is_none_or(|held| held.attempt != attempt);
    match says {
        Supervisor::Stopped { death, survivor: false } if earlier && *death != Death::None => {
            if flow.unproven.contains(&attempt) {
                return Ok(Decision::of(vec![Event::DeathProved { attempt, death: *death }]));
            }
            Ok(Decision::default())
        }
        Supervisor::Spend { total_micros } if earlier => {
            spend::late(flow, attempt, *total_micros).ok_or(refusal)
        }
        Supervisor::Snapshot(note) if earlier => agent::late(flow, attempt, note).ok_or(refusal),
        // Nobody counts any more; whether the word itself is taken in is told by what it is.
        Supervisor::Heard { .. } if earlier || own => Ok(Decision::default()),
        Supervisor::Renew { .. }
        | Supervisor::Heard { .. }
        | Supervisor::Report(_)
        | Supervisor::Spend { .. }
        | Supervisor::TimedOut(_)
        | Supervisor::Exceeded(_)
        | Supervisor::Exited
        | Supervisor::Lost { .. }
        | Supervisor::Stopped { .. }
        | Supervisor::Release { .. }
        | Supervisor::Probed { .. }
        | Supervisor::Merged(_)
        | Supervisor::Snapshot(_)
        | Supervisor::Bind(_)
        | Supervisor::Unbound(_) => Err(refusal),
    }
}
