//! What the next holder gets: gathered from what was recorded, for whichever agent comes next.
//! Everything is read by key, so that it costs the same however much lies behind a run.

mod quotes;

use baton_domain::history::{AttemptRecord, CheckpointRecord};
use baton_domain::ids::{RunId, TaskId};
use baton_domain::limits::{CHILDREN_MAX, LINEAGE_MAX};
use baton_domain::run::{Progress, Run};
use baton_domain::trail::Trail;
use baton_store::read::{RunFull, RunNow};
use baton_store::{Filter, TaskRow};

use super::words;
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::operations::heard::Heard;
use crate::problem::Problem;
use crate::shape::{RunRef, record};
use crate::views::HandoffView;

/// Relatives that are shown; each costs a look at one of its entries. The others are counted.
const RESULTS_MAX: usize = 16;

/// Attempts of one run whose reasons are read: more than there is room to quote.
const REASONS_MAX: usize = 24;

record! {
    /// Which run.
    pub struct Handoff {
        /// Which run; of a task the live one, or else the one that finished last.
        run: RunRef,
    }
}

impl Operation for Handoff {
    const ABOUT: Declaration = Declaration::look(
        ("run", "handoff"),
        "/v1/runs/{run}/handoff",
        &["text"],
        "Read what the next holder of a run gets",
    );

    type Answer = HandoffView;

    async fn perform(self, call: &Call) -> Result<Answered<HandoffView>, Problem> {
        let (row, as_of) = call.told(call.task_of(self.run)?).await?;
        let id = call.run_of(self.run, &row.flow)?;
        Ok(Answered::read(packet(call, &row, id).await?, as_of))
    }
}

/// The packet of a run. The same records always give the same packet.
pub async fn packet(call: &Call, row: &TaskRow, run: RunId) -> Result<HandoffView, Problem> {
    let live = row.flow.run.as_ref().filter(|live| live.number == run.number);
    let legs = match live {
        // Nobody was here before: there is nothing to look for.
        Some(live) if is_fresh(live) => vec![Leg::fresh(run, live)],
        Some(_) | None => lineage(call, run).await?,
    };
    let block = live.and_then(words::parked).cloned();
    let mut versions: Vec<u64> = legs.iter().flat_map(Leg::versions).collect();
    versions.extend(block.as_ref().map(|block| block.raised));
    let said = Heard::at(call, run.task, versions).await?;
    let (relatives, relatives_dropped) = relatives(call, row).await?;
    let behind = Behind { run, legs, block, said, relatives, relatives_dropped };
    Ok(behind.packet(row))
}

/// Everything that a packet is made of, besides the task itself.
struct Behind {
    run: RunId,
    /// The run and those of the task before it, oldest first.
    legs: Vec<Leg>,
    /// Why the run is parked, or was when its holder picked it up.
    block: Option<baton_domain::run::Block>,
    said: Heard,
    relatives: Vec<Relative>,
    /// Relatives beyond those.
    relatives_dropped: u64,
}

/// A run of the lineage with what it left behind.
struct Leg {
    id: RunId,
    trail: Trail,
    progress: Progress,
    attempts: Vec<AttemptRecord>,
    attempts_dropped: u64,
    checkpoints: Vec<CheckpointRecord>,
    checkpoints_dropped: u64,
}

/// A task around this one.
struct Relative {
    word: &'static str,
    row: TaskRow,
    /// What was said of it when it was last submitted.
    result: Option<String>,
}

fn is_fresh(run: &Run) -> bool {
    run.number == 1 && run.checkpoints == 0 && run.trail.ended.is_empty()
}

impl Leg {
    fn fresh(id: RunId, run: &Run) -> Self {
        Self {
            id,
            trail: run.trail.clone(),
            progress: run.progress,
            attempts: vec![],
            attempts_dropped: 0,
            checkpoints: vec![],
            checkpoints_dropped: 0,
        }
    }

    fn of(full: RunFull) -> Self {
        let (trail, progress) = match full.row.run {
            RunNow::Live(run, _) => (run.trail, run.progress),
            RunNow::Finished(run) => (run.trail, run.progress),
        };
        Self {
            id: full.row.id,
            trail,
            progress,
            attempts: full.attempts,
            attempts_dropped: full.attempts_dropped,
            checkpoints: full.checkpoints,
            checkpoints_dropped: full.checkpoints_dropped,
        }
    }

    /// The entries that hold its words.
    fn versions(&self) -> Vec<u64> {
        let Trail { talk, reports, submitted, verified, .. } = &self.trail;
        let reasons = self.attempts.iter().rev().take(REASONS_MAX).filter_map(|one| one.told);
        let kept = talk.last.iter().chain(&reports.last).copied();
        kept.chain(*submitted).chain(*verified).chain(reasons).collect()
    }
}

/// The run and those of the task before it, oldest first: whoever goes on in the next stage, or
/// after the task was moved, needs what is known as much as whoever tries again.
async fn lineage(call: &Call, run: RunId) -> Result<Vec<Leg>, Problem> {
    let mut found = vec![];
    let numbers = (1..=run.number).rev();
    for number in numbers.take(usize::from(LINEAGE_MAX) + 1) {
        found.push(Leg::of(call.run(RunId { number, ..run }).await?));
    }
    found.reverse();
    Ok(found)
}

/// The tasks above, the nearest last, and the tasks below; and how many there are besides.
async fn relatives(call: &Call, row: &TaskRow) -> Result<(Vec<Relative>, u64), Problem> {
    let flow = &row.flow;
    let mut found = vec![];
    for id in &flow.ancestors {
        found.push(Relative { word: "a task above", row: call.task(*id).await?, result: None });
    }
    let children =
        Filter { parent: Some(flow.id), ended: true, count_max: CHILDREN_MAX, ..Filter::default() };
    let children = call.engine().tasks(&call.caller().tenant, children).await?;
    let below = |row| Relative { word: "a task below", row, result: None };
    found.extend(children.rows.into_iter().map(below));
    let dropped = found.len().saturating_sub(RESULTS_MAX) as u64;
    found.truncate(RESULTS_MAX);
    for relative in &mut found {
        let flow = &relative.row.flow;
        let submitted = flow.last.as_ref().and_then(|last| last.submitted);
        relative.result = result(call, flow.id, submitted).await?;
    }
    Ok((found, dropped))
}

async fn result(
    call: &Call,
    task: TaskId,
    submitted: Option<u64>,
) -> Result<Option<String>, Problem> {
    use baton_domain::event::Event;
    let said = Heard::at(call, task, submitted.into_iter().collect()).await?;
    Ok(said.last(|_, event| {
        let Event::Submitted { summary, .. } = event else { return None };
        summary.as_ref().map(ToString::to_string)
    }))
}
