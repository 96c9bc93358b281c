//! Receipts: what was found of the lines of a contract.

use baton_domain::event::Event;
use baton_domain::ids::{LineId, TaskId};
use baton_store::read::{About as Of, Happened, PAGE_MAX};

use super::history::PAGES_MAX;
use crate::call::Call;
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::record;
use crate::views::ReceiptView;

record! {
    /// Which receipts.
    pub struct List {
        /// Of which task.
        task: TaskId,
        /// Only of this line.
        line: Option<LineId>,
        /// From this version of the task on.
        from: Option<u64>,
    }

    /// Part of the receipts of a task.
    pub struct Receipts {
        /// Oldest first.
        items: Vec<ReceiptView>,
        /// Name it as `from` to go on; absent at the end.
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
    const ABOUT: About = About {
        noun: "receipt",
        verb: "list",
        summary: "List what was found of the lines of a contract",
        method: Method::Get,
        path: "/v1/tasks/{task}/receipts",
        level: Level::Read,
        speaker: Speaker::Anyone,
        hints: Hints::READS,
        columns: &["line", "found", "at", "reason"],
    };

    type Answer = Receipts;

    async fn perform(self, call: &Call) -> Result<Answered<Receipts>, Problem> {
        let (_, as_of) = call.told(self.task).await?;
        let (mut items, mut next) = (vec![], Some(self.from.unwrap_or(0)));
        for _ in 0..PAGES_MAX {
            let Some(from) = next else { break };
            let (found, more) = page(call, self.task, self.line.as_ref(), from).await?;
            items.extend(found);
            next = more;
            if !items.is_empty() {
                break;
            }
        }
        Ok(Answered::read(Receipts { items, next }, as_of))
    }
}

impl Operation for Show {
    const ABOUT: About = About {
        noun: "receipt",
        verb: "show",
        summary: "Show the last that was found of a line of a contract",
        method: Method::Get,
        path: "/v1/tasks/{task}/receipts/{line}",
        level: Level::Read,
        speaker: Speaker::Anyone,
        hints: Hints::READS,
        columns: &["line", "found", "at", "reason"],
    };

    type Answer = ReceiptView;

    async fn perform(self, call: &Call) -> Result<Answered<ReceiptView>, Problem> {
        let (row, as_of) = call.told(self.task).await?;
        // The last one is what is asked for, so the walk goes back from the end.
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

/// The receipts in a page of entries, and the version to go on from.
async fn page(
    call: &Call,
    task: TaskId,
    line: Option<&LineId>,
    from: u64,
) -> Result<(Vec<ReceiptView>, Option<u64>), Problem> {
    let list = call.engine().entries_of(&call.caller().tenant, task, from, PAGE_MAX).await?;
    let mut found = vec![];
    for entry in &list.rows {
        let (Of::Task(_, version), Happened::ToTask(events)) = (entry.about, &entry.happened)
        else {
            continue;
        };
        for event in events {
            let Event::Verified { receipts, .. } = event else { continue };
            let wanted = receipts.iter().filter(|one| line.is_none_or(|line| one.line == *line));
            found.extend(wanted.map(|one| ReceiptView::of(task, version, one)));
        }
    }
    Ok((found, list.next))
}
