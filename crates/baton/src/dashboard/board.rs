//! The board: tasks by stage, those that have a problem on top, each card with one live line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use baton_domain::ids::{ProjectId, TaskId};
use baton_domain::task::Priority;
use baton_domain::time::Timestamp;
use baton_domain::view::Badge;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Onlooker;
use super::paths::Wish;
use super::sheet::Sheet;
use super::words::{self, Tone, ago, pill, plain, tone};
use crate::problem::Problem;
use crate::views::{InboxItem, ProjectView, RunView, StatsView, TaskView};

/// Cards of one column; what is more stands in the list.
const CARDS_MAX: usize = 50;
/// Projects that can be chosen from.
const PROJECTS_MAX: usize = 100;

#[derive(Deserialize)]
pub struct Tasks {
    pub items: Vec<TaskView>,
    pub next: Option<TaskId>,
}

#[derive(Deserialize)]
struct Projects {
    items: Vec<ProjectView>,
}

#[derive(Deserialize)]
struct Items {
    items: Vec<InboxItem>,
}

struct Column {
    name: String,
    cards: Vec<TaskView>,
    count: u64,
    more: bool,
}

/// The board as it is now.
pub async fn sheet(onlooker: &Onlooker, wish: &Wish) -> Result<Sheet, Problem> {
    let projects: Projects =
        onlooker.ask(("project", "list"), json!({ "limit": PROJECTS_MAX })).await?;
    let wanted = |project: &&ProjectView| wish.project.as_ref().is_none_or(|id| *id == project.id);
    let Some(project) = projects.items.iter().find(wanted) else {
        return Ok(no_project());
    };
    let (stats, items) = tokio::join!(
        onlooker.ask::<StatsView>(("stats", "show"), json!({ "project": project.id })),
        onlooker
            .ask::<Items>(("inbox", "list"), json!({ "project": project.id, "limit": CARDS_MAX })),
    );
    let (stats, items) = (stats?, items?);
    let columns = load(onlooker, project, wish, &stats).await?;
    let said: BTreeMap<TaskId, &InboxItem> =
        items.items.iter().map(|item| (item.task, item)).collect();
    let now = onlooker.now();
    let mut sheet = Sheet::of_pieces("Board", |pieces| {
        html! {
            @if projects.items.len() > 1 { (chooser(&projects.items, &project.id, wish)) }
            div.board {
                @for column in &columns {
                    section.column aria-label=(column.name) {
                        h2 {
                            (column.name) " "
                            span.quiet { (column.count) }
                        }
                        ul {
                            @for card in &column.cards {
                                (pieces.put(
                                    card.id.to_string(),
                                    draw(card, said.get(&card.id).copied(), now),
                                ))
                            }
                        }
                        @if column.more { (more(column, project, wish)) }
                        @if column.cards.is_empty() { p.none { "Nothing here." } }
                    }
                }
            }
        }
    });
    sheet.inbox = onlooker.ask::<StatsView>(("stats", "show"), json!({})).await?.inbox;
    sheet.chips = chips(&stats);
    Ok(sheet)
}

async fn load(
    onlooker: &Onlooker,
    project: &ProjectView,
    wish: &Wish,
    stats: &StatsView,
) -> Result<Vec<Column>, Problem> {
    let stages = project.stages.iter().map(|stage| stage.name.as_str());
    let names: Vec<&str> =
        std::iter::once("backlog").chain(stages).chain(std::iter::once("done")).collect();
    let mut columns = vec![];
    for name in names {
        let mut arguments: Map<String, Value> = wish.filter.arguments();
        let elsewhere = arguments.get("stage").is_some_and(|stage| stage != name);
        arguments.insert("project".into(), json!(project.id));
        arguments.insert("stage".into(), name.into());
        arguments.insert("limit".into(), CARDS_MAX.into());
        if name == "done" {
            arguments.insert("ended".into(), true.into());
            arguments.insert("newest".into(), true.into());
        }
        let found = if elsewhere {
            Tasks { items: vec![], next: None }
        } else {
            onlooker.ask::<Tasks>(("task", "list"), Value::Object(arguments)).await?
        };
        let mut cards = found.items;
        if name != "done" {
            cards.sort_by_key(|card| (rank(card), Reverse(card.priority), card.id));
        }
        let of_stats = stats.columns.iter().find(|column| column.stage.as_str() == name);
        let shown = u64::try_from(cards.len()).unwrap_or(u64::MAX);
        let count = if wish.filter.is_empty() {
            of_stats.map_or(shown, |column| column.count)
        } else {
            shown
        };
        columns.push(Column { name: name.to_owned(), cards, count, more: found.next.is_some() });
    }
    Ok(columns)
}

/// What has a problem stands on top.
fn rank(card: &TaskView) -> u8 {
    match tone(card.badge) {
        Tone::Needs => 0,
        Tone::Bad => 1,
        Tone::Busy | Tone::Checking => 2,
        Tone::Quiet | Tone::Good => 3,
    }
}

fn no_project() -> Sheet {
    let main = html! {
        div.empty {
            h2 { "No project yet." }
            p { "In the repository that agents shall work in:" }
            (words::command("baton init"))
        }
    };
    Sheet::whole("Board", &main)
}

fn chooser(projects: &[ProjectView], here: &ProjectId, wish: &Wish) -> Markup {
    let url = |id: &ProjectId| {
        let wish = Wish { project: Some(id.clone()), after: None, ..wish.clone() };
        format!("/board{}", wish.query())
    };
    html! {
        nav.projects aria-label="Projects" {
            @for project in projects {
                a href=(url(&project.id)) aria-current=[(project.id == *here).then_some("true")] {
                    (project.id)
                    @if project.paused.is_some() { span.quiet { " paused" } }
                }
            }
        }
    }
}

fn more(column: &Column, project: &ProjectView, wish: &Wish) -> Markup {
    let text = format!("stage:{} {}", column.name, wish.filter);
    let filter = crate::filter::Filter::read(&text);
    let wish = Wish { project: Some(project.id.clone()), filter, after: None };
    html! { a.more href={ "/runs" (wish.query()) } { "All of them" } }
}

fn chips(stats: &StatsView) -> Markup {
    let count = |badge: Badge| stats.badges.get(&badge).copied().unwrap_or(0);
    let shown = [Badge::Running, Badge::Silent, Badge::Failed, Badge::StopUnverified];
    html! {
        @if stats.inbox > 0 {
            a.chip.needs href="/inbox" { b { (stats.inbox) } (if stats.inbox == 1 { " needs you" } else { " need you" }) }
        }
        @for badge in shown {
            @if count(badge) > 0 {
                span class={ "chip " (tone(badge).class()) } {
                    b { (count(badge)) } " " (plain(&badge).to_lowercase())
                }
            }
        }
        @if stats.claims_waiting > 0 {
            span.chip { b { (stats.claims_waiting) } " waiting for work" }
        }
    }
}

/// One card.
fn draw(card: &TaskView, said: Option<&InboxItem>, now: Timestamp) -> Markup {
    let tone = tone(card.badge);
    let class = if matches!(tone, Tone::Needs | Tone::Bad) { tone.class() } else { "" };
    html! {
        li class={ "card " (class) } id=(card.id) data-row data-task=(card.id) {
            div.head {
                span.id { (card.id) }
                (bars(card.priority))
                @if let Some(tries) = tries(card) { span.quiet title="Attempts" { "↻" (tries) } }
                span.end { (state(card, now)) }
            }
            a.title href={ "/tasks/" (card.id) } { (card.title) }
            (live_line(card, said))
            @if !card.labels.is_empty() {
                div.labels { @for label in &card.labels { span { (label) } } }
            }
            @if let Some(run) = &card.run { (foot(run, card, now)) }
        }
    }
}

fn tries(card: &TaskView) -> Option<u16> {
    card.run.as_ref().and_then(|run| run.tries).filter(|tries| *tries > 1)
}

/// A ring that drains with the lease while somebody works, and the word for how it is otherwise.
fn state(card: &TaskView, now: Timestamp) -> Markup {
    let lease = card.run.as_ref().and_then(|run| run.lease.as_ref());
    match lease.filter(|_| card.badge == Badge::Running) {
        Some(lease) => ring(lease.expires_at.0, now),
        None => pill(card.badge),
    }
}

/// The ring of a lease; the script drains it.
pub fn ring(ends: Timestamp, now: Timestamp) -> Markup {
    let left = words::short(ends.since(now));
    html! {
        svg.ring viewBox="0 0 20 20" role="img" aria-label={ "Lease ends in " (left) } {
            circle cx="10" cy="10" r="7.5" {}
            circle.left cx="10" cy="10" r="7.5" pathLength="100" data-lease=(ends.0)
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
        svg.bars viewBox="0 0 14 12" role="img" aria-label={ (plain(&priority)) " priority" } {
            @for bar in 0..3u8 {
                rect x=(bar * 5) y=(8 - bar * 4) width="3" height=(4 + bar * 4)
                    class=[(bar < count).then_some("on")] {}
            }
        }
    }
}

/// The one thing to know about it right now.
fn live_line(card: &TaskView, said: Option<&InboxItem>) -> Markup {
    if let Some(said) = said.and_then(|item| item.words.as_deref()) {
        return html! { p.words { (said) } };
    }
    let Some(run) = &card.run else {
        let waits: Vec<String> = card.waits_for.iter().map(ToString::to_string).collect();
        return html! { @if !waits.is_empty() { p.quiet { "After " (waits.join(", ")) } } };
    };
    let done = run.items_done.unwrap_or(0);
    html! {
        @if run.holder.is_some() {
            p.line {
                span.dot {} (plain(&run.state)) @if done > 0 { " · " (done) " done" }
            }
        }
    }
}

fn foot(run: &RunView, card: &TaskView, now: Timestamp) -> Markup {
    let since = run.opened_at.unwrap_or(card.created_at);
    html! {
        div.foot {
            @if let Some(holder) = &run.holder { span { (holder) } }
            span.end { (ago(since, now)) }
        }
    }
}
