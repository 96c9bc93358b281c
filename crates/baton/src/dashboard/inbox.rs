//! The inbox: what waits for a person, what happens if nobody acts, and the answer in place.

use baton_domain::ids::TaskId;
use baton_domain::run::Mark;
use baton_domain::time::Timestamp;
use baton_domain::view::Need;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::sheet::Sheet;
use super::words::{self, ago, plain, tone_of_need, until};
use super::{Onlooker, task};
use crate::problem::Problem;
use crate::views::{CheckpointView, InboxItem, RunView, StatsView};

/// Tasks that are shown at once; whoever has more waiting answers these first.
const SHOWN: usize = 50;
/// Checkpoints of the picked task that are shown.
const NOTES: usize = 5;

#[derive(Deserialize)]
struct Items {
    items: Vec<InboxItem>,
    next: Option<TaskId>,
}

#[derive(Deserialize)]
struct Notes {
    items: Vec<CheckpointView>,
}

/// What is shown of the picked task beside the item itself.
struct Picked {
    item: InboxItem,
    run: Option<RunView>,
    notes: Vec<CheckpointView>,
}

/// What is to be looked at first.
pub async fn first(onlooker: &Onlooker) -> Result<Option<TaskId>, Problem> {
    let found: Items = onlooker.ask(("inbox", "list"), json!({ "limit": SHOWN })).await?;
    let first = found.items.iter().min_by_key(|item| order(item));
    Ok(first.map(|item| item.task))
}

/// The inbox as it is now, with this task opened.
pub async fn sheet(onlooker: &Onlooker, wanted: Option<TaskId>) -> Result<Sheet, Problem> {
    let (mut found, stats) = load(onlooker).await?;
    found.items.sort_by_key(order);
    // Whoever has opened a task stays with it: another one in its place could be answered by mistake.
    let item = match wanted {
        Some(task) => found.items.iter().find(|item| item.task == task),
        None => None,
    };
    let picked = match item.cloned() {
        Some(item) => Some(pick(onlooker, item).await?),
        None => None,
    };
    let now = onlooker.now();
    let main = html! {
        @if found.items.is_empty() {
            (nothing(&stats))
        } @else {
            div.inbox {
                (list(&found, picked.as_ref(), now))
                @match (&picked, wanted) {
                    (Some(picked), _) => (detail(picked, now)),
                    (None, Some(task)) => article.detail {
                        p { a.id href={ "/tasks/" (task) } { (task) } " does not wait for you any more." }
                    },
                    (None, None) => article.detail { p.none { "Choose what to look at." } },
                }
            }
        }
    };
    let mut sheet = Sheet::whole("Inbox", &main);
    sheet.inbox = stats.inbox;
    sheet.chips = chips(&stats);
    Ok(sheet)
}

async fn load(onlooker: &Onlooker) -> Result<(Items, StatsView), Problem> {
    let items = onlooker.ask(("inbox", "list"), json!({ "limit": SHOWN }));
    let stats = onlooker.ask(("stats", "show"), json!({}));
    let (items, stats) = tokio::join!(items, stats);
    Ok((items?, stats?))
}

async fn pick(onlooker: &Onlooker, item: InboxItem) -> Result<Picked, Problem> {
    let task = item.task;
    let run = onlooker.ask(("run", "show"), json!({ "run": task }));
    let notes =
        onlooker.ask::<Notes>(("checkpoint", "list"), json!({ "task": task, "limit": 500 }));
    let (run, notes) = tokio::join!(run, notes);
    // A task may wait for a person before it has a run at all.
    let run = match run {
        Err(problem) if problem.code() == "not_found" => None,
        other => Some(other?),
    };
    let mut notes = notes?.items;
    notes.reverse();
    notes.truncate(NOTES);
    Ok(Picked { item, run, notes })
}

fn order(item: &InboxItem) -> (u8, Option<Timestamp>) {
    (rank(item.need), item.since.map(|since| since.0))
}

/// Whoever waits on the line comes first; what only stands there comes last.
fn rank(need: Need) -> u8 {
    match need {
        Need::Question => 0,
        Need::Input | Need::Approval | Need::Review | Need::Verdict => 1,
        Need::Failure | Need::Limit | Need::Recurring => 2,
        Need::Silent | Need::StopUnverified => 3,
        Need::EndedWithoutResult | Need::DependencyFailed | Need::ChildrenUndone => 4,
        Need::Starved => 5,
    }
}

fn chips(stats: &StatsView) -> Markup {
    html! {
        @for (need, count) in &stats.needs {
            span class={ "chip " (tone_of_need(*need).class()) } {
                b { (count) } " " (plain(need).to_lowercase())
            }
        }
    }
}

fn nothing(stats: &StatsView) -> Markup {
    let busy: u64 = stats.badges.values().sum();
    html! {
        div.empty {
            h2 { "Nothing needs you." }
            p { (busy) " tasks are open, " (stats.ended) " have ended." }
            @if busy == 0 { p { "Add the first one:" } (words::command("baton add \"…\"")) }
        }
    }
}

fn list(found: &Items, picked: Option<&Picked>, now: Timestamp) -> Markup {
    let is_here = |item: &InboxItem| {
        picked.is_some_and(|own| own.item.task == item.task && own.item.need == item.need)
    };
    html! {
        ul.items {
            @for item in &found.items {
                @let here = is_here(item);
                li id={ "item-" (item.task) "-" (plain(&item.need).replace(' ', "-")) } {
                    a class={ "card " (tone_of_need(item.need).class()) }
                        href={ "/inbox?task=" (item.task) } data-row
                        aria-current=[here.then_some("true")] {
                        span.head {
                            span.id { (item.task) }
                            span.kind { (plain(&item.need)) }
                            @if let Some(since) = item.since { (ago(since, now)) }
                        }
                        strong { (item.title) }
                        @if let Some(said) = &item.words { span.words { (said) } }
                    }
                }
            }
            @if found.next.is_some() { li.more { "There is more; these come first." } }
        }
    }
}

fn detail(picked: &Picked, now: Timestamp) -> Markup {
    let Picked { item, run, notes } = picked;
    html! {
        article.detail id={ "detail-" (item.task) } {
            p.line {
                span class={ "pill " (tone_of_need(item.need).class()) } { (plain(&item.need)) }
                a.id href={ "/tasks/" (item.task) } { (item.task) }
                @if let Some(attempt) = run.as_ref().and_then(|run| run.attempt) {
                    span { (attempt) }
                }
                @if let Some(since) = item.since { span { "for " (ago(since, now)) } }
            }
            h2 { (item.title) }
            @if let Some(said) = &item.words { p.said { (said) } }
            (actions(item))
            @if let Some(run) = run { (marks(run, now)) }
            p.otherwise {
                "If nobody acts: " (item.otherwise)
                @if let Some(at) = item.otherwise_at { ", in " (until(at, now)) }
                "."
            }
            p { (words::command(&item.command)) }
            @if !notes.is_empty() {
                h3 { "How far it is" }
                (task::notes(notes, now))
            }
        }
    }
}

/// What can be done about it, right here.
fn actions(item: &InboxItem) -> Markup {
    let task = item.task;
    match item.need {
        Need::Question | Need::Input => html! {
            form.act data-method="POST" data-path={ "/v1/runs/" (task) "/answer" } {
                label.sr for={ "answer-" (task) } { "Answer" }
                textarea id={ "answer-" (task) } data-answer name="answer" rows="3" maxlength="8192" required
                    placeholder="Your answer. It goes to the agent, or to the next one." {}
                div.buttons {
                    button.primary type="submit" { "Answer" kbd { "⌘↵" } }
                }
            }
        },
        Need::Approval => html! {
            div.buttons {
                (button("Approve", "primary", &format!("/v1/tasks/{task}/approve"), None))
                (asking("Reject…", &format!("/v1/tasks/{task}/reject"), "Why it shall not be done"))
            }
        },
        Need::Failure | Need::EndedWithoutResult | Need::Recurring | Need::Limit => html! {
            div.buttons {
                @if item.command.starts_with("baton run retry") {
                    (asking("Try again…", &format!("/v1/runs/{task}/retry"), "Why, and what is new"))
                } @else {
                    (asking("Let it go on…", &format!("/v1/runs/{task}/unblock"), "Why it may"))
                }
                (asking("Close…", &format!("/v1/tasks/{task}/close"), "Why nobody wants it"))
            }
        },
        Need::Review => html! {
            div.buttons {
                (asking("Let it go on…", &format!("/v1/tasks/{task}/unhold"), "What was found"))
            }
        },
        // A verdict needs more than a button: how sure, and what is missing.
        Need::Verdict => html! {},
        Need::Silent => html! {
            div.buttons {
                (asking("Take it away…", &format!("/v1/runs/{task}/force-release"), "Why"))
            }
        },
        Need::ChildrenUndone => html! {
            div.buttons {
                (asking("Close…", &format!("/v1/tasks/{task}/close"), "Why it ends so"))
            }
        },
        Need::StopUnverified | Need::Starved | Need::DependencyFailed => html! {
            div.buttons { a.button href={ "/tasks/" (task) } { "Look at it" } }
        },
    }
}

fn button(name: &str, class: &str, path: &str, body: Option<&str>) -> Markup {
    html! {
        form.act data-method="POST" data-path=(path) {
            @if let Some(reason) = body { input type="hidden" name="reason" value=(reason); }
            button class=(class) type="submit" { (name) }
        }
    }
}

/// A button that wants to know why before it does anything.
pub fn asking(name: &str, path: &str, why: &str) -> Markup {
    html! {
        details.asking {
            summary { (name) }
            form.act data-method="POST" data-path=(path) {
                input name="reason" maxlength="2048" required placeholder=(why) aria-label=(why);
                button.primary type="submit" { (name.trim_end_matches('…')) }
            }
        }
    }
}

/// How far the last answer got: whoever answered wants to know whether it was acted upon.
fn marks(run: &RunView, now: Timestamp) -> Markup {
    let Some(answer) = &run.answer else { return html! {} };
    let reached = |mark: Mark| answer.mark as u8 >= mark as u8;
    html! {
        p.marks {
            @for mark in [Mark::Sent, Mark::Delivered, Mark::Applied] {
                span class=(if reached(mark) { "good" } else { "quiet" }) {
                    (if reached(mark) { "✓ " } else { "○ " }) (plain(&mark).to_lowercase())
                }
            }
            @if let Some(at) = answer.at { span.quiet { (ago(at, now)) " ago" } }
            @if let Some(text) = &answer.text { q { (text) } }
        }
    }
}
