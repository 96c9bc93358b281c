//! A card of the board: what a task is, how it is, and one line of what is going on.

use baton_domain::task::Priority;
use baton_domain::time::Timestamp;
use baton_domain::view::{Badge, Need};
use baton_store::read::RunWord;
use maud::{Markup, html};

use super::words::{
    self, Tone, ago, gauge, headline, money, pill, plain, prose, share, tone, until, who,
};
use crate::shape::choices::Word as _;
use crate::views::{InboxItem, ReceiptView, RunView, TaskView};

/// Whether its contract is being held against what it made.
#[must_use]
pub fn is_checked(task: &TaskView) -> bool {
    let state = task.run.as_ref().map(|run| run.state);
    matches!(state, Some(RunWord::Submitted | RunWord::Verifying))
}

/// One card.
#[must_use]
pub fn draw(
    task: &TaskView,
    said: Option<&InboxItem>,
    receipts: &[ReceiptView],
    now: Timestamp,
) -> Markup {
    let tone = tone(task.badge);
    let ended = task.ending.is_some();
    let class = match tone {
        Tone::Needs | Tone::Bad => tone.class(),
        Tone::Quiet | Tone::Good if ended => "over",
        Tone::Quiet | Tone::Busy | Tone::Checking | Tone::Good => "",
    };
    html! {
        li class={ "card " (class) } id=(task.id) data-row data-task=(task.id) data-stage=(task.stage)
            data-fixed=[task.fixed.as_ref()] draggable="true" {
            div.head {
                span.id { (task.id) }
                (bars(task.priority))
                @if let Some(tries) = tries(task) { span.quiet title="Attempts" { "↻ " (tries) } }
                span.end { (state(task, now)) }
            }
            a.title href={ "/tasks/" (task.id) } { (task.title) }
            (live_line(task, said, now))
            @if is_checked(task) { (gates(task, receipts)) }
            @if !task.labels.is_empty() && !ended {
                div.labels { @for label in &task.labels { span { (label) } } }
            }
            (foot(task, now))
        }
    }
}

fn tries(task: &TaskView) -> Option<u16> {
    task.run.as_ref().and_then(|run| run.tries).filter(|tries| *tries > 0)
}

/// A ring that drains with the lease while somebody works, and the word for how it is otherwise.
fn state(task: &TaskView, now: Timestamp) -> Markup {
    let lease = task.run.as_ref().and_then(|run| run.lease.as_ref());
    match lease.filter(|_| task.badge == Badge::Running) {
        Some(lease) => ring(lease.expires_at.0, length(task), now),
        // In a column of things that nobody has begun, that nobody has begun it is no news.
        None if task.badge == Badge::Waiting && task.waits_for.is_empty() => html! {},
        None => pill(task.badge),
    }
}

fn length(task: &TaskView) -> u64 {
    task.policy.lease.map_or(1, |lease| lease.0.0)
}

/// The ring of a lease; the script drains it.
#[must_use]
pub fn ring(ends: Timestamp, length: u64, now: Timestamp) -> Markup {
    let left = ends.since(now);
    let gone = 100 - (left.0.saturating_mul(100) / length.max(1)).min(100);
    html! {
        svg.ring viewBox="0 0 20 20" role="img" aria-label={ "Lease ends in " (words::short(left)) } {
            circle cx="10" cy="10" r="7.5" {}
            circle.left cx="10" cy="10" r="7.5" pathLength="100" stroke-dasharray="100"
                stroke-dashoffset=(gone) data-lease=(ends.0) data-length=(length)
                transform="rotate(-90 10 10)" {}
        }
    }
}

fn bars(priority: Priority) -> Markup {
    let count = match priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
        Priority::Urgent => 3,
    };
    html! {
        svg class={ "bars " (priority.word()) } viewBox="0 0 14 12" role="img"
            aria-label={ (plain(&priority)) " priority" } {
            @for bar in 0..3u8 {
                rect x=(bar * 5) y=(8 - bar * 4) width="3" height=(4 + bar * 4)
                    class=[(bar < count).then_some("on")] {}
            }
        }
    }
}

/// The one thing to know about it right now.
fn live_line(task: &TaskView, said: Option<&InboxItem>, now: Timestamp) -> Markup {
    if let Some(item) = said {
        return asked(item, now);
    }
    if !task.waits_for.is_empty() {
        let waits: Vec<String> = task.waits_for.iter().map(ToString::to_string).collect();
        return html! { p.line { "After " (waits.join(", ")) } };
    }
    let Some(run) = &task.run else { return html! {} };
    let done = run.items_done.unwrap_or(0);
    html! {
        @match (run.state, run.due_at) {
            (RunWord::Delayed, Some(due)) => p.line { "Goes on in " (until(due, now)) },
            (RunWord::Submitted, _) => p.line { "Waits for somebody who verifies" },
            _ if run.holder.is_some() => p.line {
                span.dot {} (plain(&run.state))
                @if done > 0 { " · " (done) " done" }
                @if let Some(at) = run.active_at { " · " (ago(at, now)) " ago" }
            },
            _ => {}
        }
    }
}

/// What a person is asked for, and the way to it.
fn asked(item: &InboxItem, now: Timestamp) -> Markup {
    let verb = match item.need {
        Need::Question | Need::Input => "Answer",
        Need::Approval | Need::Review | Need::Verdict => "Decide",
        Need::Failure
        | Need::EndedWithoutResult
        | Need::Silent
        | Need::StopUnverified
        | Need::Starved
        | Need::Limit
        | Need::Recurring
        | Need::DependencyFailed
        | Need::ChildrenUndone => "Look",
    };
    html! {
        @match &item.words {
            Some(words) => p.words { (prose(headline(words).0)) },
            None => p.line { (plain(&item.need)) @if let Some(since) = item.since { " for " (ago(since, now)) } },
        }
        p.buttons {
            a.button.primary[verb == "Answer"] href={ "/inbox?task=" (item.task) } { (verb) }
            @if let Some(at) = item.otherwise_at {
                span.soon title=(item.otherwise) { "stops in " (until(at, now)) }
            }
        }
    }
}

/// The lines of its contract, and what was found of each.
fn gates(task: &TaskView, receipts: &[ReceiptView]) -> Markup {
    let found = |id: &baton_domain::ids::LineId| {
        let last = receipts.iter().rev().find(|receipt| receipt.line == *id);
        last.map_or("open", |receipt| receipt.found.word())
    };
    html! {
        div.gates {
            @for line in &task.contract {
                span class=(found(&line.id)) title=(found(&line.id)) { (line.id) }
            }
        }
    }
}

fn foot(task: &TaskView, now: Timestamp) -> Markup {
    let run = task.run.as_ref();
    let since = task.ended_at.or(run.and_then(|run| run.opened_at)).unwrap_or(task.created_at);
    html! {
        div.foot {
            @if let Some(holder) = run.and_then(|run| run.holder.as_ref()) { (who(holder.as_str())) }
            span.end {
                @if let Some(spent) = run.and_then(|run| run.spent_micros).filter(|spent| *spent > 0) {
                    span { (money(spent)) }
                }
                (ago(since, now))
            }
        }
        @if let Some(run) = run { (used(run, now)) }
    }
}

/// How much of its time an attempt has used.
fn used(run: &RunView, now: Timestamp) -> Markup {
    match (run.claimed_at, run.ends_at) {
        (Some(from), Some(to)) => {
            let left = words::short(to.0.since(now));
            gauge(share(from.0, to.0, now), &format!("{left} left of its time"))
        }
        (None, _) | (_, None) => html! {},
    }
}
