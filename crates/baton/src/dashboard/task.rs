//! One task: where it stands and why, what was tried, what must be true, and what happened.

use baton_domain::ids::{RunId, TaskId};
use baton_domain::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::inbox::asking;
use super::paths::{Screen, Tab};
use super::sheet::Sheet;
use super::words::{
    ago, clock, gauge, heading, money, pill, plain, prose, share, short, until, who,
};
use super::{Onlooker, activity, card, diff, logs, panels, timeline};
use crate::problem::Problem;
use crate::views::{
    AttemptView, CauseView, CheckpointView, EventView, HandoffView, ReceiptView, RunView, TaskView,
};

/// Attempts, checkpoints and receipts that are read.
const HISTORY_MAX: usize = 500;
/// Events that are read: those of the last hours, for whoever is busy.
const EVENTS_MAX: usize = 300;
/// Checkpoints that are shown; all of them are on the timeline.
const NOTES_MAX: usize = 10;

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
    handoff: Option<HandoffView>,
}

/// A task as it is now; of its attempts those of this run, if one is meant.
pub async fn sheet(
    onlooker: &Onlooker,
    (id, only): (TaskId, Option<RunId>),
    tab: Tab,
) -> Result<Sheet, Problem> {
    let found = load(onlooker, id, only, tab).await?;
    let now = onlooker.now();
    let part = match tab {
        Tab::Activity => activity::draw(&found.events),
        Tab::Logs => logs::draw(onlooker, found.run.as_ref()).await?,
        Tab::Diff => diff::draw(onlooker, found.run.as_ref()).await?,
        Tab::Events => history(&found.events),
        Tab::Handoff => packet(found.handoff.as_ref()),
    };
    let past = timeline::Past {
        attempts: &found.attempts,
        notes: &found.notes,
        events: &found.events,
        ends_at: found.run.as_ref().and_then(|run| run.ends_at).map(|at| at.0),
    };
    let main = html! {
        div.task {
            (head(&found, only))
            (facts(&found, now))
            (timeline::draw(&past, now))
            div.halves {
                div {
                    (panels::why(&found.causes, now))
                    section.panel.tabbed {
                        (tabs(&found, (id, only), tab))
                        (part)
                    }
                }
                div {
                    (panels::contract(&found.task.contract, &found.receipts, now))
                    section.panel {
                        h2 { "Checkpoints " span.quiet { (found.notes.len()) } }
                        @if found.notes.is_empty() { p.none { "None yet." } }
                        (panels::notes(&newest(&found.notes), now))
                    }
                    @if let Some(body) = &found.task.body {
                        section.panel { h2 { "What should be achieved" } pre.body { (prose(body.as_str())) } }
                    }
                }
            }
        }
    };
    let mut sheet = Sheet::whole(format!("{id}"), &main);
    sheet.chips = pill(found.task.badge);
    Ok(sheet)
}

async fn load(
    onlooker: &Onlooker,
    id: TaskId,
    only: Option<RunId>,
    tab: Tab,
) -> Result<Found, Problem> {
    let of_run = || {
        let mut arguments = json!({ "task": id, "limit": HISTORY_MAX });
        if let Some(run) = only {
            arguments["run"] = json!(run);
        }
        arguments
    };
    let task: TaskView = onlooker.ask(("task", "show"), json!({ "task": id })).await?;
    let meant: Value = only.map_or_else(|| json!(id), |run| json!(run));
    let events = json!({ "task": id, "newest": true, "limit": EVENTS_MAX });
    let (run, attempts, notes, receipts, events, causes) = tokio::join!(
        onlooker.ask::<RunView>(("run", "show"), json!({ "run": meant })),
        onlooker.ask::<Attempts>(("attempt", "list"), of_run()),
        onlooker.ask::<List<CheckpointView>>(("checkpoint", "list"), of_run()),
        onlooker.ask::<List<ReceiptView>>(
            ("receipt", "list"),
            json!({ "task": id, "limit": HISTORY_MAX })
        ),
        onlooker.ask::<List<EventView>>(("event", "list"), events),
        onlooker.ask::<Explanation>(("task", "explain"), json!({ "task": id })),
    );
    // A task that nobody began has no run; a run that nobody knows is told as such.
    let run = match run {
        Err(problem) if problem.code() == "no_run" && only.is_none() => None,
        other => Some(other?),
    };
    let handoff = match tab {
        Tab::Handoff if run.is_some() => {
            Some(onlooker.ask(("run", "handoff"), json!({ "run": meant })).await?)
        }
        Tab::Activity | Tab::Logs | Tab::Diff | Tab::Events | Tab::Handoff => None,
    };
    let Attempts { items: mut all, live } = attempts?;
    all.extend(live.filter(|live| only.is_none_or(|run| live.run == run)));
    let receipts = receipts?.items.into_iter().filter(|receipt| is_of(receipt, run.as_ref()));
    Ok(Found {
        task,
        attempts: all,
        notes: notes?.items,
        receipts: receipts.collect(),
        events: events?.items,
        causes: causes?.causes,
        handoff,
        run,
    })
}

/// Whether a receipt is of this run: what was found of an earlier one proves nothing of it.
fn is_of(receipt: &ReceiptView, run: Option<&RunView>) -> bool {
    let Some(run) = run else { return false };
    let after = run.opened_at.is_none_or(|opened| receipt.at >= opened);
    after && run.finished_at.is_none_or(|finished| receipt.at <= finished)
}

fn newest(notes: &[CheckpointView]) -> Vec<CheckpointView> {
    notes.iter().rev().take(NOTES_MAX).cloned().collect()
}

fn head(found: &Found, only: Option<RunId>) -> Markup {
    let task = &found.task;
    let run = found.run.as_ref();
    html! {
        header.task-head {
            div {
                p.line {
                    a.id href={ "/tasks/" (task.id) } { (task.id) }
                    @if let Some(run) = only.or(run.map(|run| run.id)) { span.id { "/ " (run) } }
                    span { (task.project) " · " (heading(task.stage.as_str())) " · " (plain(&task.kind).to_lowercase()) }
                    @for label in &task.labels { span.label { (label) } }
                }
                h2 { (task.title) }
            }
            div.buttons {
                @if run.is_some_and(|run| run.finished_at.is_none() && task.run.is_some()) {
                    (asking("Cancel…", &format!("/v1/runs/{}/cancel", task.id), "Why", "Cancelled"))
                }
                @if task.run.is_none() && task.last_run.is_some() && task.ending.is_none() {
                    (asking("Try again…", &format!("/v1/runs/{}/retry", task.id), "Why, and what is new", "Trying again"))
                }
                @if task.ending.is_none() {
                    (asking("Close…", &format!("/v1/tasks/{}/close", task.id), "Why nobody wants it", "Closed"))
                }
                @if !task.needs.is_empty() {
                    a.button.primary href={ "/inbox?task=" (task.id) } { "Answer" }
                }
            }
        }
    }
}

/// Who holds it, until when, how often it was tried, and what it cost.
fn facts(found: &Found, now: Timestamp) -> Markup {
    let spent: u64 = found.attempts.iter().map(|attempt| attempt.spent_micros).sum();
    let budget = found.task.policy.budget_micros.filter(|budget| *budget > 0);
    let faults = found.attempts.iter().filter(|one| one.code.is_some()).count();
    html! {
        dl.facts {
            (holder(found, now))
            (time_left(found, now))
            div {
                dt { "Attempts" }
                dd { (found.attempts.len()) }
                @if faults > 0 { dd.quiet { (faults) " failed" } }
            }
            div {
                dt { "Spent" }
                dd { (money(spent)) @if let Some(budget) = budget { span.quiet { " of " (money(budget)) } } }
                @if let Some(budget) = budget {
                    dd { (gauge(spent.saturating_mul(1_000) / budget, "Spent of what an attempt may")) }
                }
            }
            div { dt { "Checkpoints" } dd { (found.notes.len()) } @if let Some(last) = found.notes.last() { dd.quiet { "last " (ago(last.at, now)) " ago" } } }
            div { dt { "Age" } dd { (ago(found.task.created_at, now)) } dd.quiet { "by " (found.task.creator) } }
        }
    }
}

fn holder(found: &Found, now: Timestamp) -> Markup {
    let run = found.run.as_ref();
    let lease = run.and_then(|run| run.lease.as_ref());
    let length = found.task.policy.lease.map_or(1, |lease| lease.0.0);
    html! {
        div.wide {
            dt { "Lease" }
            @match (run.and_then(|run| run.holder.as_ref()), lease) {
                (Some(holder), Some(lease)) => {
                    dd {
                        (card::ring(lease.expires_at.0, length, now)) (who(holder.as_str())) " · "
                        (until(lease.expires_at, now))
                    }
                    @if let Some(at) = run.and_then(|run| run.active_at) { dd.quiet { "last sign of work " (ago(at, now)) " ago" } }
                }
                (Some(holder), None) => dd { (who(holder.as_str())) },
                (None, _) => {
                    dd { "nobody holds it" }
                    @if let Some(run) = run { dd.quiet { (plain(&run.state).to_lowercase()) } }
                }
            }
        }
    }
}

fn time_left(found: &Found, now: Timestamp) -> Markup {
    let run = found.run.as_ref();
    let ends = run.and_then(|run| run.claimed_at.zip(run.ends_at));
    html! {
        div {
            dt { "Deadline" }
            @match ends {
                Some((from, to)) => {
                    dd { "in " (until(to, now)) }
                    dd { (gauge(share(from.0, to.0, now), &format!("{} left", short(to.0.since(now))))) }
                }
                None => dd.quiet { "none runs" },
            }
        }
    }
}

fn tabs(found: &Found, (id, only): (TaskId, Option<RunId>), here: Tab) -> Markup {
    let url = |tab: Tab| Screen::Task(id, only, tab).url();
    html! {
        nav.tabs aria-label="Parts of this task" {
            @for tab in Tab::ALL {
                a href=(url(tab)) aria-current=[(tab == here).then_some("page")] {
                    (tab.name())
                    @if tab == Tab::Events { " " span.quiet { (found.events.len()) } }
                }
            }
        }
    }
}

/// What the next holder gets.
fn packet(handoff: Option<&HandoffView>) -> Markup {
    let Some(handoff) = handoff else {
        return html! { p.none { "Nobody has begun it: there is nothing to hand on." } };
    };
    html! {
        p.quiet { "What the next holder is told, built from what was recorded. Quotes are data, not instructions." }
        @for section in &handoff.sections {
            section.quotes {
                h3 { (plain_word(&section.name)) }
                @if section.dropped > 0 { p.quiet { (section.dropped) " more are not shown" } }
                @for item in &section.items {
                    p {
                        b { (item.from) } ": " (item.about)
                        @if let Some(at) = item.at { " " span.quiet { (clock(at.0)) } }
                    }
                    @if let Some(text) = &item.text { blockquote { (prose(text)) } }
                }
            }
        }
    }
}

fn plain_word(name: &str) -> String {
    heading(&name.replace('_', " "))
}

/// What happened, the last first.
fn history(events: &[EventView]) -> Markup {
    html! {
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
                    span.quiet { (entry.actor.origin) }
                    details {
                        summary aria-label="As JSON" { "{ }" }
                        pre { (serde_json::to_string_pretty(&entry.events).unwrap_or_default()) }
                    }
                }
            }
        }
    }
}
