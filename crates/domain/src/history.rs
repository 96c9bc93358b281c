//! History rows: what an event leaves behind for good. They are written with the event that ends
//! what they tell of, so they are never changed.

use serde::{Deserialize, Serialize};

use crate::command::Note;
use crate::event::{Event, Then};
use crate::ids::{PrincipalId, StageName};
use crate::run::{
    Certainty, Death, Finish, Mode, Outcome, Phase, Progress, Purpose, Run, RunResult, Tally,
};
use crate::task::Flow;
use crate::time::Timestamp;
use crate::trail::Trail;

/// What is behind a task: a row of its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "record")]
pub enum Past {
    /// An attempt that ended.
    Attempt(AttemptRecord),
    /// A run that finished.
    Run(RunRecord),
    /// A note for the next holder.
    Checkpoint(CheckpointRecord),
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    pub number: u32,
    pub run: u32,
    pub holder: PrincipalId,
    pub mode: Mode,
    pub purpose: Purpose,
    pub claimed_at: Timestamp,
    pub ended_at: Timestamp,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub certainty: Certainty,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<Death>,
    pub spent_micros: u64,
    /// The version of the task whose entry says why, if anybody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<u64>,
}

/// A run that finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub number: u32,
    pub stage: StageName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u32>,
    pub depth: u8,
    pub opened_at: Timestamp,
    pub finished_at: Timestamp,
    #[serde(flatten)]
    pub finish: Finish,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    pub tally: Tally,
    pub progress: Progress,
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub trail: Trail,
}

/// A note that an attempt left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    pub number: u32,
    pub run: u32,
    pub attempt: u32,
    pub at: Timestamp,
    pub progress: Progress,
    /// Whether its supervisor kept the work, and the agent said nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
    #[serde(flatten)]
    pub note: Note,
}

/// The rows that an event leaves behind, given the task as it was just before.
#[must_use]
pub fn past(before: &Flow, event: &Event, at: Timestamp) -> Vec<Past> {
    if let Event::Checkpointed { number, note, of, snapshot } = event {
        let (live, last) = (before.run.as_ref(), before.last.as_ref());
        let held = live.and_then(Run::held).map(|held| held.attempt);
        let run = live.map(|run| run.number).or(last.map(|last| last.number));
        let (Some(run), Some(attempt)) = (run, of.or(held)) else { return vec![] };
        let (number, note, snapshot) = (*number, (**note).clone(), *snapshot);
        let progress = live.map(|run| run.progress).unwrap_or_default();
        let kept = CheckpointRecord { number, run, attempt, at, progress, snapshot, note };
        return vec![Past::Checkpoint(kept)];
    }
    let Some(run) = &before.run else { return vec![] };
    let finished = |finish: &Finish, result: Option<RunResult>, outcome: Option<&Outcome>| {
        let mut trail = run.trail.clone();
        outcome.into_iter().for_each(|outcome| trail.end(outcome));
        Past::Run(RunRecord {
            number: run.number,
            stage: run.stage.clone(),
            previous: run.previous,
            depth: run.depth,
            opened_at: run.opened_at,
            finished_at: at,
            finish: finish.clone(),
            result,
            tally: run.tally,
            progress: run.progress,
            trail,
        })
    };
    if let Event::RunFinished { finish, result, .. } = event {
        return vec![finished(finish, *result, None)];
    }
    let Some(held) = run.held() else { return vec![] };
    let Event::AttemptEnded { outcome, reason, certainty, death, then, .. } = event else {
        return vec![];
    };
    // Whoever was stopped first was told why then.
    let told = match (&held.phase, reason) {
        (_, Some(_)) => Some(before.version),
        (Phase::Stopping { raised, .. }, None) => Some(*raised),
        (
            Phase::Leased | Phase::Working | Phase::WaitingInput(_) | Phase::Verifying { .. },
            None,
        ) => None,
    };
    let attempt = Past::Attempt(AttemptRecord {
        number: held.attempt,
        run: run.number,
        holder: held.holder.clone(),
        mode: held.mode,
        purpose: held.purpose,
        claimed_at: held.claimed_at,
        ended_at: at,
        outcome: outcome.clone(),
        certainty: *certainty,
        death: *death,
        spent_micros: held.spent_micros,
        told,
    });
    match then {
        Then::Finished { finish, result } => {
            vec![attempt, finished(finish, *result, Some(outcome))]
        }
        Then::Queued | Then::Delayed { .. } | Then::Blocked { .. } | Then::Submitted => {
            vec![attempt]
        }
    }
}
