//! The inbox: what waits for a person, what happens if nobody acts, and the answer in place.

use baton_domain::ids::TaskId;
use baton_domain::run::Mark;
use baton_domain::time::Timestamp;
use baton_domain::view::{Badge, Need};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::sheet::Sheet;
use super::words::{self, ago, headline, plain, prose, tone_of_need, until, who};
use super::{Onlooker, panels};
use crate::problem::Problem;
use crate::views::{
    ChannelView, CheckpointView, ExhaustedView, InboxItem, RunView, StatsView, TaskView,
};

/// Tasks that are shown at once; whoever has more waiting answers these first.
const SHOWN: usize = 50;
/// Checkpoints of the picked task that are shown.
const NOTES: usize = 5;

#[derive(Deserialize)]
struct Items {
    items: Vec<InboxItem>,
    next: Option<TaskId>,
    exhausted: Option<ExhaustedView>,
    channels: Option<Vec<ChannelView>>,
}

impl Items {
    /// Whether nothing waits for anybody.
    fn is_empty(&self) -> bool {
        let told = self.channels.as_ref().is_none_or(Vec::is_empty);
        self.items.is_empty() && self.exhausted.is_none() && told
    }
}

#[derive(Deserialize)]
struct Notes {
    items: Vec<CheckpointView>,
}

/// The task that somebody looks at, and what it waits for, if it still does.
struct Picked {
    item: Option<InboxItem>,
    task: TaskView,
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
pub async fn sheet(
    onlooker: &Onlooker,
    wanted: Option<TaskId>,
    stats: &StatsView,
) -> Result<Sheet, Problem> {
    let mut found: Items = onlooker.ask(("inbox", "list"), json!({ "limit": SHOWN })).await?;
    found.items.sort_by_key(order);
    // Whoever has opened a task stays with it: another one in its place could be answered by mistake.
    let picked = match wanted {
        Some(task) => pick(onlooker, task, &found.items).await?,
        None => None,
    };
    let now = onlooker.now();
    let main = html! {
        @if found.is_empty() && picked.is_none() {
            (nothing(stats))
        } @else {
            div.inbox {
                (list(&found, picked.as_ref(), now))
                @match &picked {
                    Some(picked) => (detail(picked, now)),
                    None => article.detail { p.none { "Choose what to look at." } },
                }
            }
        }
    };
    let mut sheet = Sheet::whole("Inbox", &main);
    sheet.chips = chips(stats);
    Ok(sheet)
}

/// A task that is gone or was never there is no reason to show nothing.
async fn pick(
    onlooker: &Onlooker,
    id: TaskId,
    items: &[InboxItem],
) -> Result<Option<Picked>, Problem> {
    let item = items.iter().find(|item| item.task == id).cloned();
    let (task, run, notes) = tokio::join!(
        onlooker.ask::<TaskView>(("task", "show"), json!({ "task": id })),
        onlooker.ask::<RunView>(("run", "show"), json!({ "run": id })),
        onlooker.ask::<Notes>(("checkpoint", "list"), json!({ "task": id, "limit": 500 })),
    );
    let task = match task {
        Err(problem) if problem.code() == "not_found" => return Ok(None),
        other => other?,
    };
    // A task may wait for a person before it has a run at all.
    let run = match run {
        Err(problem) if ["not_found", "no_run"].contains(&problem.code()) => None,
        other => Some(other?),
    };
    let notes = notes?.items.into_iter().rev().take(NOTES).collect();
    Ok(Some(Picked { item, task, run, notes }))
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
    let open: u64 = stats.badges.values().sum();
    let running = stats.badges.get(&Badge::Running).copied().unwrap_or(0);
    html! {
        div.empty {
            span.done-sign aria-hidden="true" { "✓" }
            h2 { "Nothing needs you." }
            @if open == 0 {
                p { "Nor does anything run. Add the first task, and start the agents:" }
                (words::command("baton add \"…\" --stage coding"))
                (words::command("baton up"))
            } @else {
                p {
                    (running) " running, " (open - running.min(open)) " waiting, " (stats.ended) " ended. "
                    "What asks for a person will stand here."
                }
                p { a.button href="/board" { "To the board" } }
            }
        }
    }
}

fn list(found: &Items, picked: Option<&Picked>, now: Timestamp) -> Markup {
    let is_here = |item: &InboxItem| {
        let own = picked.and_then(|picked| picked.item.as_ref());
        own.is_some_and(|own| own.task == item.task && own.need == item.need)
    };
    html! {
        ul.items {
            @for item in &found.items {
                @let here = is_here(item);
                li id={ "item-" (item.task) "-" (plain(&item.need).replace(' ', "-")) } {
                    a class={ "card " (tone_of_need(item.need).class()) }
                        href={ "/inbox?task=" (item.task) } data-row data-task=(item.task)
                        aria-current=[here.then_some("true")] {
                        span.head {
                            span.id { (item.task) }
                            span.kind { (plain(&item.need)) }
                            @if let Some(since) = item.since { (ago(since, now)) }
                        }
                        strong { (item.title) }
                        @if let Some(said) = &item.words { span.words { (prose(headline(said).0)) } }
                        @if let Some(at) = item.otherwise_at {
                            span.soon { "in " (until(at, now)) ": " (item.otherwise) }
                        }
                    }
                }
            }
            (of_the_house(found, now))
            @if found.is_empty() { li.none { "Nothing needs you." } }
            @if found.next.is_some() { li.more { "There is more; these come first." } }
        }
    }
}

/// What waits for a person and is of no task: accounts at their limits, and channels that tell nobody.
fn of_the_house(found: &Items, now: Timestamp) -> Markup {
    html! {
        @if let Some(exhausted) = &found.exhausted {
            li #item-exhausted {
                div.card.needs {
                    span.head { span.kind { "Accounts" } }
                    strong { "Queued work waits for accounts alone" }
                    span.words {
                        @for (index, account) in exhausted.accounts.iter().enumerate() { @if index > 0 { ", " } (account) }
                        " at their limits"
                    }
                    span.soon {
                        @match exhausted.until {
                            Some(at) => { "the first opens in " (until(at, now)) },
                            None => "until somebody opens one",
                        }
                    }
                    a href="/agents" { "Look at them" }
                }
            }
        }
        @for channel in found.channels.iter().flatten() {
            @if let Some(why) = &channel.broken {
                li id={ "item-channel-" (channel.name) } {
                    div.card.bad {
                        span.head { span.kind { "Broken channel" } span.id { (channel.name) } }
                        strong { "Nobody is told by " (channel.name) }
                        span.words { (why) }
                        (words::command(&format!("baton channel test {}", channel.name)))
                    }
                }
            }
        }
    }
}

fn detail(picked: &Picked, now: Timestamp) -> Markup {
    let Picked { item, task, run, notes } = picked;
    html! {
        article.detail id={ "detail-" (task.id) } {
            (heads(picked, now))
            @if let Some(item) = item { (words_of(item)) (actions(item)) }
            @if let Some(run) = run { (marks(run, now)) }
            @if let Some(item) = item {
                p.otherwise {
                    b { "If nobody acts" }
                    @if let Some(at) = item.otherwise_at { ", in " (until(at, now)) }
                    ": " (item.otherwise) "."
                }
                p.quiet { "Or in a shell: " (words::command(&item.command)) }
            }
            @if !notes.is_empty() {
                h3 { "How far it is" }
                (panels::notes(notes, now))
            }
            @if let Some(body) = &task.body {
                h3 { "What should be achieved" }
                pre.body { (prose(body.as_str())) }
            }
            p { a href={ "/tasks/" (task.id) } { "Everything about " (task.id) " →" } }
        }
    }
}

fn heads(picked: &Picked, now: Timestamp) -> Markup {
    let Picked { item, task, run, .. } = picked;
    html! {
        p.line {
            @match item {
                Some(item) => span class={ "pill " (tone_of_need(item.need).class()) } { (plain(&item.need)) },
                None => (words::pill(task.badge)),
            }
            a.id href={ "/tasks/" (task.id) } { (task.id) }
            @if let Some(run) = run {
                @if let Some(holder) = &run.holder { (who(holder.as_str())) }
                @if let Some(attempt) = run.attempt { span.quiet { (attempt) } }
            }
            @if let Some(since) = item.as_ref().and_then(|item| item.since) {
                span.quiet { "for " (ago(since, now)) }
            }
        }
        h2 { (task.title) }
        @if item.is_none() { p.none { "It does not wait for you any more." } }
    }
}

/// What was said, its first line as what it is: the question.
fn words_of(item: &InboxItem) -> Markup {
    let Some(said) = &item.words else { return html! {} };
    let (first, rest) = headline(said);
    html! {
        p.said { (prose(first)) }
        @if !rest.is_empty() { p.more-said { (prose(rest)) } }
    }
}

/// What can be done about it, right here.
fn actions(item: &InboxItem) -> Markup {
    let task = item.task;
    match item.need {
        Need::Question | Need::Input => html! {
            form.act data-method="POST" data-path={ "/v1/runs/" (task) "/answer" } data-done="Answered" {
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
                (button("Approve", "primary", &format!("/v1/tasks/{task}/approve"), "Approved"))
                (asking("Reject…", &format!("/v1/tasks/{task}/reject"), "Why it shall not be done", "Rejected"))
            }
        },
        Need::Failure | Need::EndedWithoutResult | Need::Recurring | Need::Limit => html! {
            div.buttons {
                @if item.command.starts_with("baton run retry") {
                    (asking("Try again…", &format!("/v1/runs/{task}/retry"), "Why, and what is new", "Trying again"))
                } @else {
                    (asking("Let it go on…", &format!("/v1/runs/{task}/unblock"), "Why it may", "It goes on"))
                }
                (asking("Close…", &format!("/v1/tasks/{task}/close"), "Why nobody wants it", "Closed"))
            }
        },
        Need::Review => html! {
            div.buttons {
                (asking("Let it go on…", &format!("/v1/tasks/{task}/unhold"), "What was found", "It goes on"))
            }
        },
        // A verdict needs more than a button: how sure, and what is missing.
        Need::Verdict => html! {},
        Need::Silent => html! {
            div.buttons {
                (asking("Take it away…", &format!("/v1/runs/{task}/force-release"), "Why", "Taken away"))
            }
        },
        Need::ChildrenUndone => html! {
            div.buttons {
                (asking("Close…", &format!("/v1/tasks/{task}/close"), "Why it ends so", "Closed"))
            }
        },
        Need::StopUnverified | Need::Starved | Need::DependencyFailed => html! {
            div.buttons { a.button href={ "/tasks/" (task) } { "Look at it" } }
        },
    }
}

fn button(name: &str, class: &str, path: &str, done: &str) -> Markup {
    html! {
        form.act data-method="POST" data-path=(path) data-done=(done) {
            button class=(class) type="submit" { (name) }
        }
    }
}

/// A button that wants to know why before it does anything.
pub fn asking(name: &str, path: &str, why: &str, done: &str) -> Markup {
    html! {
        details.asking {
            summary { (name) }
            form.act data-method="POST" data-path=(path) data-done=(done) {
                input name="reason" maxlength="2048" required placeholder=(why) aria-label=(why);
                button.primary type="submit" { (name.trim_end_matches('…')) }
            }
        }
    }
}

/// How far the last answer got: whoever answered wants to know whether it was acted upon.
fn marks(run: &RunView, now: Timestamp) -> Markup {
    let Some(answer) = &run.answer else { return html! {} };
    let reached = |mark: Mark| answer.mark >= mark;
    html! {
        div.answer {
            @if let Some(text) = &answer.text { q { (text) } }
            p.marks {
                @for mark in [Mark::Sent, Mark::Delivered, Mark::Applied] {
                    span class=(if reached(mark) { "good" } else { "quiet" }) {
                        (if reached(mark) { "✓ " } else { "○ " }) (plain(&mark).to_lowercase())
                    }
                }
                @if let Some(by) = &answer.by { span.quiet { "by " (by) } }
                @if let Some(at) = answer.at { span.quiet { (ago(at, now)) " ago" } }
            }
        }
    }
}
