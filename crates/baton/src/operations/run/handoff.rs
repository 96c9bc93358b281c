//! What the next holder gets: gathered from what was recorded, for whichever agent comes next.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::contract::{Finding, Term};
use baton_domain::event::{Event, Requeue};
use baton_domain::history::{AttemptRecord, CheckpointRecord};
use baton_domain::ids::{AttemptId, RunId, TaskId};
use baton_domain::limits::{CHILDREN_MAX, LINEAGE_MAX};
use baton_domain::task::Flow;
use baton_store::read::{RunFull, RunNow};
use baton_store::{Entry, Filter, TaskRow};

use super::words;
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::operations::recent::Recent;
use crate::problem::Problem;
use crate::shape::choices::Word as _;
use crate::shape::{RunRef, When, record};
use crate::views::{
    AttemptView, BlockView, HandoffItem, HandoffSection, HandoffView, Room, RunView,
};

/// Relatives whose results are read; each costs a look at its entries.
const RESULTS_MAX: usize = 16;

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
    let lineage = lineage(call, run).await?;
    let recent = Recent::of(call, &row.flow).await?;
    let reasons = reasons(&recent);
    let attempts = lineage.iter().flat_map(|full| &full.attempts);
    let holders: BTreeMap<u32, String> =
        attempts.clone().map(|one| (one.number, one.holder.to_string())).collect();
    let checkpoints = lineage.iter().flat_map(|full| &full.checkpoints);
    let sections = [
        HandoffSection::of(Room::GOAL, vec![goal(row)]),
        HandoffSection::of(Room::CONTRACT, contract(row)),
        HandoffSection::of(Room::BLOCK, block(call, row, run).await?),
        HandoffSection::of(
            Room::CHECKPOINTS,
            checkpoints.map(|one| checkpoint(run.task, one, &holders)).collect(),
        ),
        HandoffSection::of(
            Room::ATTEMPTS,
            attempts.map(|one| attempt(run.task, one, &reasons)).collect(),
        ),
        HandoffSection::of(Room::QUESTIONS, questions(&recent)),
        HandoffSection::of(Room::FINDINGS, findings(&recent)),
        HandoffSection::of(Room::RELATIVES, relatives(call, &row.flow).await?),
        HandoffSection::of(Room::OPEN_ITEMS, open_items(&recent)),
    ];
    Ok(HandoffView::of(run, sections.into_iter().flatten().collect()))
}

/// The run and those that it tries again, oldest first.
async fn lineage(call: &Call, run: RunId) -> Result<Vec<RunFull>, Problem> {
    let mut found = vec![];
    let mut next = Some(run);
    while let Some(id) = next.take()
        && found.len() <= usize::from(LINEAGE_MAX)
    {
        let full = call.run(id).await?;
        let previous = match &full.row.run {
            RunNow::Live(run, _) => run.previous,
            RunNow::Finished(run) => run.previous,
        };
        next = previous.map(|number| RunId { number, ..id });
        found.push(full);
    }
    found.reverse();
    Ok(found)
}

fn goal(row: &TaskRow) -> HandoffItem {
    let body = row.brief.body.as_ref().map(|body| format!("\n\n{body}")).unwrap_or_default();
    let about = format!("the goal of {}", row.flow.id);
    HandoffItem::new(row.flow.creator.to_string(), about)
        .at(When(row.flow.created_at))
        .quoting(&format!("{}{body}", row.brief.title))
}

fn contract(row: &TaskRow) -> Vec<HandoffItem> {
    let line = |(id, term): (_, &Term)| {
        let (sort, text) = match term {
            Term::Artifact { path, bytes_min } => {
                (format!("a file of at least {bytes_min} bytes"), path.to_string())
            }
            Term::Gate { command, .. } => ("a command that succeeds".into(), command.to_string()),
            Term::Criterion { text, check: None } => ("something true".into(), text.to_string()),
            Term::Criterion { text, check: Some(check) } => {
                ("something true, by a command".into(), format!("{text}\n{check}"))
            }
            Term::Review => ("the agreement of somebody else".into(), String::new()),
        };
        HandoffItem::new("the contract", format!("line {id}, {sort}")).quoting(&text)
    };
    row.brief.contract.lines.iter().map(line).collect()
}

/// Why the run is parked, or was when its holder picked it up.
async fn block(call: &Call, row: &TaskRow, run: RunId) -> Result<Vec<HandoffItem>, Problem> {
    let live = RunView::live(&row.flow, row.lease.as_ref()).filter(|live| live.id == run);
    let Some(mut view) = live else { return Ok(vec![]) };
    words::fill(call, &row.flow, &mut view).await?;
    let item = |block: BlockView| {
        let condition = block.condition.map(|line| format!("\ncondition: {line}"));
        let reason = block.reason.map(|reason| reason.to_string()).unwrap_or_default();
        HandoffItem::new("the last holder", format!("blocked: {}", block.kind.word()))
            .at(block.since)
            .quoting(&format!("{reason}{}", condition.unwrap_or_default()))
    };
    Ok(view.block.map(item).into_iter().collect())
}

fn checkpoint(
    task: TaskId,
    record: &CheckpointRecord,
    holders: &BTreeMap<u32, String>,
) -> HandoffItem {
    let id = AttemptId { task, number: record.attempt };
    let from = match holders.get(&record.attempt) {
        Some(holder) => format!("{id} ({holder})"),
        None => id.to_string(),
    };
    let note = &record.note;
    let mut text = note.summary.to_string();
    if let Some(cursor) = &note.cursor {
        text.push_str(&format!("\ngo on at: {cursor}"));
    }
    for evidence in &note.evidence {
        let summary = evidence.summary.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        text.push_str(&format!("\nevidence: {} {}{summary}", evidence.kind, evidence.reference));
    }
    for (name, value) in &note.git {
        text.push_str(&format!("\ngit {name}: {value}"));
    }
    let done = record.progress;
    let about =
        format!("checkpoint {}, {} items done, {} failed", record.number, done.done, done.failed);
    HandoffItem::new(from, about).at(When(record.at)).quoting(&text)
}

fn attempt(task: TaskId, record: &AttemptRecord, reasons: &BTreeMap<u32, String>) -> HandoffItem {
    let view = AttemptView::ended(task, record);
    let mut about = view.outcome.unwrap_or_default();
    if let Some(code) = &view.code {
        about.push_str(&format!(", code {code}"));
    }
    if let Some(deadline) = view.deadline {
        about.push_str(&format!(", deadline {}", deadline.word()));
    }
    about.push_str(&format!(", effects {}", record.certainty.word()));
    let reason = reasons.get(&record.number).map_or("", |reason| reason);
    HandoffItem::new(format!("{} ({})", view.id, view.holder), about)
        .at(When(record.ended_at))
        .quoting(reason)
}

/// Why attempts ended. One that was stopped first was given its reason then.
fn reasons(recent: &Recent) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    let mut stopping = None;
    for (_, event) in recent.events() {
        if let Event::Stopping { reason, .. } = event {
            stopping = reason.as_ref();
        }
        if let Event::AttemptEnded { attempt, reason, .. } = event {
            let before = stopping.take();
            if let Some(reason) = reason.as_ref().or(before) {
                found.insert(*attempt, reason.to_string());
            }
        }
    }
    found
}

fn questions(recent: &Recent) -> Vec<HandoffItem> {
    let item = |(entry, event): (&Entry, &Event)| {
        let said = |about: &str, text: &str| {
            let from = entry.actor.principal.to_string();
            Some(HandoffItem::new(from, about).at(When(entry.at)).quoting(text))
        };
        if let Event::Asked { question } = event {
            return said("question", question.as_str());
        }
        if let Event::Answered { answer } = event {
            return said("answer of a person", answer.as_str());
        }
        if let Event::Requeued { why: Requeue::Unblocked, reason: Some(reason) } = event {
            return said("unblocked", reason.as_str());
        }
        None
    };
    recent.events().filter_map(item).collect()
}

/// What was found of the last submission that was checked.
fn findings(recent: &Recent) -> Vec<HandoffItem> {
    let last = recent.last(|entry, event| {
        let Event::Verified { receipts, .. } = event else { return None };
        Some((entry, receipts))
    });
    let Some((entry, receipts)) = last else { return vec![] };
    let from = entry.actor.principal.to_string();
    let item = |receipt: &baton_domain::contract::Receipt| {
        let (word, reason) = match &receipt.finding {
            Finding::Holds { .. } => ("holds", ""),
            Finding::Fails { reason, .. } => ("fails", reason.as_str()),
            Finding::Waived { reason } => ("is waived", reason.as_str()),
        };
        HandoffItem::new(from.clone(), format!("line {} {word}", receipt.line))
            .at(When(receipt.at))
            .quoting(reason)
    };
    receipts.iter().map(item).collect()
}

/// The tasks above, the nearest last, and the tasks below.
async fn relatives(call: &Call, flow: &Flow) -> Result<Vec<HandoffItem>, Problem> {
    let mut rows = vec![];
    for id in &flow.ancestors {
        rows.push(("a task above", call.task(*id).await?));
    }
    let children =
        Filter { parent: Some(flow.id), ended: true, count_max: CHILDREN_MAX, ..Filter::default() };
    let children = call.engine().tasks(&call.caller().tenant, children).await?;
    rows.extend(children.rows.into_iter().map(|row| ("a task below", row)));
    let mut items = vec![];
    for (place, (word, row)) in rows.iter().enumerate() {
        let result = if place < RESULTS_MAX { result(call, &row.flow).await? } else { None };
        let result = result.map(|text| format!("\nresult: {text}")).unwrap_or_default();
        // Not as of now: the same records always give the same packet.
        let badge = row.flow.badge(row.flow.ended_at.unwrap_or(row.flow.created_at));
        let item = HandoffItem::new(row.flow.id.to_string(), format!("{word}, {}", badge.word()))
            .quoting(&format!("{}{result}", row.brief.title));
        items.push(item);
    }
    Ok(items)
}

/// What was said of it when it was last submitted.
async fn result(call: &Call, flow: &Flow) -> Result<Option<String>, Problem> {
    if flow.last.is_none() {
        return Ok(None);
    }
    let recent = Recent::of(call, flow).await?;
    Ok(recent.last(|_, event| {
        let Event::Submitted { summary, .. } = event else { return None };
        summary.as_ref().map(ToString::to_string)
    }))
}

/// Items that failed and were not done since.
fn open_items(recent: &Recent) -> Vec<HandoffItem> {
    let mut open: Vec<(String, HandoffItem)> = vec![];
    for (entry, event) in recent.events() {
        let Event::Progressed { report } = event else { continue };
        let done: BTreeSet<_> = report.done.iter().map(|item| item.as_str()).collect();
        open.retain(|(item, _)| !done.contains(item.as_str()));
        for failed in &report.failed {
            open.retain(|(item, _)| *item != failed.item.as_str());
            let text = format!("{}\nfailed: {}", failed.item, failed.reason);
            let from = entry.actor.principal.to_string();
            let item = HandoffItem::new(from, "an item that failed").at(When(entry.at));
            open.push((failed.item.to_string(), item.quoting(&text)));
        }
    }
    open.into_iter().map(|(_, item)| item).collect()
}
