//! One task: where it stands and why, what was tried, what must be true, and what happened.

use baton_domain::ids::{RunId, TaskId};
use baton_domain::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::inbox::asking;
use super::sheet::Sheet;
use super::words::{self, ago, clock, money, pill, plain, until};
use super::{Onlooker, board, timeline};
use crate::problem::Problem;
use crate::shape::choices::Word as _;
use crate::views::{
    AttemptView, CauseView, CheckpointView, ContractLine, EventView, FoundWord, ReceiptView,
    RunView, StatsView, TaskView,
};

/// Attempts, checkpoints and receipts that are read.
const HISTORY_MAX: usize = 500;
/// Events that are shown.
const EVENTS_MAX: usize = 100;

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Attempts {
    items: Vec<AttemptView>,
    live: Option<AttemptView>,
}

#[derive(Deserialize)]
struct Explanation {
    causes: Vec<CauseView>,
}

struct Found {
    task: TaskView,
    run: Option<RunView>,
    attempts: Vec<AttemptView>,
    notes: Vec<CheckpointView>,
    receipts: Vec<ReceiptView>,
    events: Vec<EventView>,
    causes: Vec<CauseView>,
    inbox: u64,
}

/// A task as it is now; of its attempts those of this run, if one is meant.
pub async fn sheet(onlooker: &Onlooker, id: TaskId, only: Option<RunId>) -> Result<Sheet, Problem> {
    let found = load(onlooker, id, only).await?;
    let now = onlooker.now();
    let main = html! {
        div.task {
            (head(&found, only))
            (facts(&found, now))
            (timeline::draw(&found.attempts, &found.notes, now))
            div.halves {
                div {
                    (why(&found.causes, now))
                    @if let Some(body) = &found.task.body {
                        section.panel { h2 { "What should be achieved" } pre.body { (body) } }
                    }
                    (history(&found.events))
                }
                div {
                    (contract(&found, now))
                    section.panel {
                        h2 { "Checkpoints " span.quiet { (found.notes.len()) } }
                        @if found.notes.is_empty() { p.none { "None yet." } }
                        (notes(&newest(&found.notes), now))
                    }
                }
            }
        }
    };
    let mut sheet = Sheet::whole(format!("{id}"), &main);
    sheet.inbox = found.inbox;
    sheet.chips = pill(found.task.badge);
    Ok(sheet)
}

async fn load(onlooker: &Onlooker, id: TaskId, only: Option<RunId>) -> Result<Found, Problem> {
    let many = |with: Value| {
        let mut arguments = json!({ "task": id, "limit": HISTORY_MAX });
        if let Some(run) = only.filter(|_| with == true) {
            arguments["run"] = json!(run);
        }
        arguments
    };
    let task: TaskView = onlooker.ask(("task", "show"), json!({ "task": id })).await?;
    let meant = only.map_or_else(|| json!(id), |run| json!(run));
    let events = json!({ "task": id, "newest": true, "limit": EVENTS_MAX });
    let (run, attempts, notes, receipts, events, causes, stats) = tokio::join!(
        onlooker.ask::<RunView>(("run", "show"), json!({ "run": meant })),
        onlooker.ask::<Attempts>(("attempt", "list"), many(true.into())),
        onlooker.ask::<List<CheckpointView>>(("checkpoint", "list"), many(true.into())),
        onlooker.ask::<List<ReceiptView>>(("receipt", "list"), many(false.into())),
        onlooker.ask::<List<EventView>>(("event", "list"), events),
        onlooker.ask::<Explanation>(("task", "explain"), json!({ "task": id })),
        onlooker.ask::<StatsView>(("stats", "show"), json!({})),
    );
    // A task that nobody began has no run; a run that nobody knows is told as such.
    let run = match run {
        Err(problem) if problem.code() == "not_found" && only.is_none() => None,
        other => Some(other?),
    };
    let Attempts { items: mut all, live } = attempts?;
    all.extend(live);
    Ok(Found {
        task,
        run,
        attempts: all,
        notes: notes?.items,
        receipts: receipts?.items,
        events: events?.items,
        causes: causes?.causes,
        inbox: stats?.inbox,
    })
}

fn newest(notes: &[CheckpointView]) -> Vec<CheckpointView> {
    notes.iter().rev().take(20).cloned().collect()
}

fn head(found: &Found, only: Option<RunId>) -> Markup {
    let task = &found.task;
    html! {
        header.task-head {
            p.line {
                a.id href={ "/tasks/" (task.id) } { (task.id) }
                @if let Some(run) = only { " / " span.id { (run) } }
                span { (task.project) " · " (task.stage) " · " (plain(&task.kind).to_lowercase()) }
            }
            h2 { (task.title) }
            div.buttons {
                @if found.run.as_ref().is_some_and(|run| run.finished_at.is_none()) {
                    (asking("Cancel…", &format!("/v1/runs/{}/cancel", task.id), "Why"))
                }
                @if task.run.is_none() && task.last_run.is_some() && task.ending.is_none() {
                    (asking("Try again…", &format!("/v1/runs/{}/retry", task.id), "Why, and what is new"))
                }
                @if task.ending.is_none() {
                    (asking("Close…", &format!("/v1/tasks/{}/close", task.id), "Why nobody wants it"))
                }
            }
        }
    }
}

/// Who holds it, until when, how often it was tried, and what it cost.
fn facts(found: &Found, now: Timestamp) -> Markup {
    let run = found.run.as_ref();
    let spent: u64 = found.attempts.iter().map(|attempt| attempt.spent_micros).sum();
    let lease = run.and_then(|run| run.lease.as_ref());
    html! {
        dl.facts {
            div {
                dt { "Held by" }
                dd {
                    @match (run.and_then(|run| run.holder.as_ref()), lease) {
                        (Some(holder), Some(lease)) => {
                            (board::ring(lease.expires_at.0, now)) (holder) " · "
                            (until(lease.expires_at, now))
                        }
                        (Some(holder), None) => (holder),
                        (None, _) => span.quiet { "nobody" },
                    }
                }
            }
            div { dt { "State" } dd { @match run { Some(run) => (plain(&run.state)), None => (pill(found.task.badge)) } } }
            div {
                dt { "Attempts" }
                dd { (found.attempts.len()) }
            }
            div { dt { "Spent" } dd { (money(spent)) } }
            div { dt { "Checkpoints" } dd { (found.notes.len()) } }
            div { dt { "Age" } dd { (ago(found.task.created_at, now)) } }
        }
    }
}

fn why(causes: &[CauseView], now: Timestamp) -> Markup {
    html! {
        @if !causes.is_empty() {
            section.panel {
                h2 { "Why it is not moving" }
                ol.causes {
                    @for cause in causes {
                        li {
                            (cause.sentence)
                            @if let Some(said) = &cause.words { " " q { (said) } }
                            @if let Some(since) = cause.since { span.quiet { " for " (ago(since, now)) } }
                            @if let Some(until_) = cause.until { span.quiet { " until " (until(until_, now)) " from now" } }
                            @if let Some(text) = &cause.command { br; (words::command(text)) }
                        }
                    }
                }
            }
        }
    }
}

fn contract(found: &Found, now: Timestamp) -> Markup {
    let held =
        |line: &ContractLine| found.receipts.iter().rev().find(|receipt| receipt.line == line.id);
    let proved = found
        .task
        .contract
        .iter()
        .filter(|line| held(line).is_some_and(|receipt| receipt.found != FoundWord::Fails));
    html! {
        section.panel {
            h2 {
                "Contract "
                span.quiet { (proved.count()) " of " (found.task.contract.len()) }
            }
            @if found.task.contract.is_empty() {
                p.none { "Nothing is asked: what is done is shown as unverified." }
            }
            ul.contract {
                @for line in &found.task.contract {
                    @let receipt = held(line);
                    li class=[receipt.map(|receipt| receipt.found.word())] {
                        strong { (line.id) }
                        @for text in [&line.command, &line.path, &line.text, &line.check].into_iter().flatten() {
                            code { (text) }
                        }
                        span.quiet {
                            (plain(&line.kind).to_lowercase())
                            @match receipt {
                                Some(receipt) => { " · " (receipt.found.word()) " " (ago(receipt.at, now)) " ago" }
                                None => " · no receipt",
                            }
                        }
                        @if let Some(reason) = receipt.and_then(|receipt| receipt.reason.as_ref()) { p { (reason) } }
                    }
                }
            }
        }
    }
}

/// What was left for the next holder.
pub fn notes(notes: &[CheckpointView], now: Timestamp) -> Markup {
    html! {
        ul.notes {
            @for note in notes {
                li {
                    span.id { "#" (note.number) }
                    span { (note.summary) }
                    span.quiet { (ago(note.at, now)) " ago" }
                }
            }
        }
    }
}

/// What happened, the last first.
fn history(events: &[EventView]) -> Markup {
    html! {
        section.panel {
            h2 { "Events" }
            ul.events {
                @for entry in events {
                    li {
                        (clock(entry.at.0))
                        span.who { (entry.actor.principal) }
                        span.what {
                            @for (index, event) in entry.events.iter().enumerate() {
                                @if index > 0 { ", " }
                                (event.word().replace('_', " "))
                            }
                            @if entry.erased == Some(true) { "(erased)" }
                        }
                        details {
                            summary aria-label="As JSON" { "{ }" }
                            pre { (serde_json::to_string_pretty(&entry.events).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}
