//! What workers keep with the checkpoints of an attempt for themselves: the work, and what its agent said.

use baton_domain::history::{CheckpointRecord, Past};
use baton_domain::ids::{Digest, RunId, TaskId};
use baton_store::PastId;

use crate::call::Call;
use crate::problem::Problem;
use crate::protocol::{LOG_KEPT_AS, Work};

/// Runs of a task whose checkpoints are looked through for work; one is rarely more than a few back.
const RUNS_BACK_MAX: usize = 32;

/// The newest work on a task that the server has, of this run or of one before it.
pub async fn newest_work(
    call: &Call,
    checkpoints: u32,
    id: RunId,
) -> Result<Option<Work>, Problem> {
    if checkpoints == 0 {
        return Ok(None);
    }
    for number in (1..=id.number).rev().take(RUNS_BACK_MAX) {
        let run = call.run(RunId { number, ..id }).await?;
        // What came late may be older than what came before it.
        let newest = run.checkpoints.iter().filter_map(work_of).max_by_key(Work::age);
        if newest.is_some() {
            return Ok(newest);
        }
        if run.checkpoints_dropped > 0 {
            let shown = run.checkpoints.first().map_or(checkpoints + 1, |first| first.number);
            return long_ago(call, id.task, shown).await;
        }
    }
    Ok(None)
}

/// The same among all checkpoints before this one: an agent may leave many, and change nothing.
async fn long_ago(call: &Call, task: TaskId, before: u32) -> Result<Option<Work>, Problem> {
    for number in (1..before).rev() {
        if let Past::Checkpoint(one) = call.past(task, PastId::Checkpoint(number)).await?
            && let Some(work) = work_of(&one)
        {
            return Ok(Some(work));
        }
    }
    Ok(None)
}

/// The work that a checkpoint holds.
pub(super) fn work_of(one: &CheckpointRecord) -> Option<Work> {
    under(one, Work::KEPT_AS).and_then(Work::read)
}

/// The log that a checkpoint holds.
pub(super) fn log_of(one: &CheckpointRecord) -> Option<Digest> {
    under(one, LOG_KEPT_AS).and_then(|line| Digest::new(line).ok())
}

fn under<'a>(one: &'a CheckpointRecord, name: &str) -> Option<&'a str> {
    let kept = one.note.git.iter().find(|(own, _)| own.as_str() == name);
    kept.map(|(_, line)| line.as_str())
}
