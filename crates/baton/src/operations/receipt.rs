//! Receipts: what was found of the lines of a contract.

use baton_domain::event::Event;
use baton_domain::ids::{LineId, RunId, TaskId};
use baton_domain::limits::LINEAGE_MAX;
use baton_domain::task::Flow;
use baton_store::Entry;
use baton_store::read::{About, Happened, PAGE_MAX, RunNow};

use super::heard::Heard;
use super::history::PAGES_MAX;
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, record};
use crate::views::ReceiptView;

record! {
    /// Which receipts.
    pub struct List {
        /// Of which task.
        task: TaskId,
        /// Only of this line.
        line: Option<LineId>,
        /// After this version of the task.
        after: Option<u64>,
        /// At most so many; what was found at once stays together.
        limit: Option<PageSize>,
    }

    /// Part of the receipts of a task.
    pub struct Receipts {
        /// Oldest first.
        items: Vec<ReceiptView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<u64>,
    }

    /// Which receipt.
    pub struct Show {
        /// Of which task.
        task: TaskId,
        /// The last one of this line.
        line: LineId,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("receipt", "list"),
        "/v1/tasks/{task}/receipts",
        &["line", "found", "at", "reason"],
        "List what was found of the lines of a contract",
    );

    type Answer = Receipts;

    async fn perform(self, call: &Call) -> Result<Answered<Receipts>, Problem> {
        let (_, as_of) = call.told(self.task).await?;
        let count_max = PageSize::or_usual(self.limit);
        let (mut items, mut next): (Vec<ReceiptView>, _) = (vec![], Some(self.after.unwrap_or(0)));
        for _ in 0..PAGES_MAX {
            let Some(after) = next else { break };
            let (found, more) = page(call, self.task, self.line.as_ref(), after + 1).await?;
            next = more.map(|from| from - 1);
            for together in found.chunk_by(|one, two| one.version == two.version) {
                if !items.is_empty() && items.len() + together.len() > count_max {
                    next = items.last().map(|last| last.version);
                    return Ok(Answered::read(Receipts { items, next }, as_of));
                }
                items.extend_from_slice(together);
            }
        }
        Ok(Answered::read(Receipts { items, next }, as_of))
    }
}

impl Operation for Show {
    const ABOUT: Declaration = Declaration::look(
        ("receipt", "show"),
        "/v1/tasks/{task}/receipts/{line}",
        &["line", "found", "at", "reason"],
        "Show the last that was found of a line of a contract",
    );

    type Answer = ReceiptView;

    async fn perform(self, call: &Call) -> Result<Answered<ReceiptView>, Problem> {
        let (row, as_of) = call.told(self.task).await?;
        if let Some(last) = last_known(call, &row.flow, &self.line).await? {
            return Ok(Answered::read(last, as_of));
        }
        // What a later check of the same run left out is found by a walk back from the end.
        let mut end = row.flow.version + 1;
        for _ in 0..PAGES_MAX {
            let from = end.saturating_sub(PAGE_MAX as u64);
            let (found, _) = page(call, self.task, Some(&self.line), from).await?;
            if let Some(last) = found.into_iter().rfind(|receipt| receipt.version < end) {
                return Ok(Answered::read(last, as_of));
            }
            if from == 0 {
                break;
            }
            end = from;
        }
        Err(Problem::not_found())
    }
}

/// The last receipt of a line among those of the last check of each run: every run knows where that
/// is, so nothing is searched.
async fn last_known(
    call: &Call,
    flow: &Flow,
    line: &LineId,
) -> Result<Option<ReceiptView>, Problem> {
    let mut versions = vec![];
    for number in (1..=flow.runs).rev().take(usize::from(LINEAGE_MAX) + 1) {
        let live = flow.run.as_ref().filter(|run| run.number == number);
        let verified = match live {
            Some(run) => run.trail.verified,
            None => match call.run(RunId { task: flow.id, number }).await?.row.run {
                RunNow::Live(run, _) => run.trail.verified,
                RunNow::Finished(run) => run.trail.verified,
            },
        };
        versions.extend(verified);
    }
    let found = Heard::at(call, flow.id, versions).await?;
    Ok(found.last(|entry, _| of_entry(flow.id, entry, Some(line)).pop()))
}

/// The receipts in an entry.
fn of_entry(task: TaskId, entry: &Entry, line: Option<&LineId>) -> Vec<ReceiptView> {
    let (About::Task(_, version), Happened::ToTask(events)) = (entry.about, &entry.happened) else {
        return vec![];
    };
    let receipts = events.iter().filter_map(|event| {
        let Event::Verified { receipts, .. } = event else { return None };
        Some(receipts)
    });
    let wanted = receipts.flatten().filter(|one| line.is_none_or(|line| one.line == *line));
    wanted.map(|one| ReceiptView::of(task, version, one)).collect()
}

/// The receipts in a page of entries, and the version to go on from.
async fn page(
    call: &Call,
    task: TaskId,
    line: Option<&LineId>,
    from: u64,
) -> Result<(Vec<ReceiptView>, Option<u64>), Problem> {
    let list = call.engine().entries_of(&call.caller().tenant, task, from, PAGE_MAX).await?;
    let found = list.rows.iter().flat_map(|entry| of_entry(task, entry, line)).collect();
    Ok((found, list.next))
}
