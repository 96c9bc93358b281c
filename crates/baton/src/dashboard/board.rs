//! The board: tasks by stage, those that have a problem on top, each card with one live line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use baton_domain::ids::{ProjectId, TaskId};
use baton_domain::pool::PoolName;
use baton_domain::view::Badge;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::paths::Wish;
use super::sheet::{Pieces, Sheet};
use super::words::{self, Tone, heading, money, plain, tone};
use super::{Onlooker, card};
use crate::problem::Problem;
use crate::views::{InboxItem, PoolView, ProjectView, ReceiptView, StatsView, TaskView};

/// Cards of one column; what is more stands in the list.
const CARDS_MAX: usize = 50;
/// Projects that can be chosen from.
const PROJECTS_MAX: usize = 100;
/// Pools that are looked through for the limits of columns and the budget.
const POOLS_MAX: usize = 500;
/// Cards whose receipts are looked up: those that are being checked are few.
const CHECKED_MAX: usize = 20;
/// Receipts of one card.
const RECEIPTS_MAX: usize = 64;

#[derive(Deserialize)]
pub struct Tasks {
    pub items: Vec<TaskView>,
    pub next: Option<TaskId>,
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

struct Column {
    name: String,
    cards: Vec<TaskView>,
    count: u64,
    more: bool,
    /// How many may be at work in it at once, and are.
    limit: Option<(u64, u64)>,
}

/// Everything that a board shows.
struct Found {
    projects: Vec<ProjectView>,
    project: ProjectView,
    columns: Vec<Column>,
    said: BTreeMap<TaskId, InboxItem>,
    receipts: BTreeMap<TaskId, Vec<ReceiptView>>,
    stats: StatsView,
    /// What was spent today, and what may be.
    day: Option<PoolView>,
}

/// The board as it is now.
pub async fn sheet(onlooker: &Onlooker, wish: &Wish) -> Result<Sheet, Problem> {
    let Some(found) = load(onlooker, wish).await? else { return Ok(no_project()) };
    let now = onlooker.now();
    let empty = wish.filter.is_empty() && found.columns.iter().all(|column| column.count == 0);
    let mut sheet = Sheet::of_pieces("Board", |pieces| {
        html! {
            @if found.projects.len() > 1 { (chooser(&found, wish)) }
            @if let Some(paused) = &found.project.paused {
                p.notice { b { "Paused" } ": nothing starts here. " (paused.reason) }
            }
            @if empty { (no_task(&found.project)) }
            nav.stages aria-label="Stages" {
                @for column in &found.columns {
                    a href={ "#stage-" (column.name) } data-stage=(column.name) {
                        (heading(&column.name)) " " span.quiet { (column.count) }
                    }
                }
            }
            div #board .board data-project=(found.project.id) {
                @for (index, column) in found.columns.iter().enumerate() {
                    (draw(column, index, &found, pieces, (wish, now)))
                }
            }
        }
    });
    sheet.chips = chips(&found);
    let stages = found.project.stages.iter().map(|stage| stage.name.to_string()).collect();
    sheet.project = Some((found.project.id.to_string(), stages));
    Ok(sheet)
}

fn draw(
    column: &Column,
    index: usize,
    found: &Found,
    pieces: &mut Pieces,
    (wish, now): (&Wish, baton_domain::time::Timestamp),
) -> Markup {
    let last = index + 1 == found.columns.len();
    // Nobody puts a task there by hand: the last stage lets it in, with its proof.
    let shut = last.then_some("only a run that passed the last stage makes a task done");
    let dot = if index == 0 {
        "dot-backlog".to_owned()
    } else if last {
        "dot-done".to_owned()
    } else {
        format!("dot-{}", (index - 1) % 3)
    };
    let needs = column.cards.iter().any(|card| tone(card.badge) == Tone::Needs);
    html! {
        section.column id={ "stage-" (column.name) } aria-label=(heading(&column.name))
            data-stage=(column.name) data-shut=[shut] data-needs[needs] {
            h2 {
                span class={ "dot " (dot) } {}
                (heading(&column.name)) " "
                span.quiet { (column.count) }
                @if let Some((used, limit)) = column.limit {
                    span.wip.full[used >= limit] title="At work, of how many may be at once" {
                        (used) "/" (limit) @if used >= limit { " full" }
                    }
                }
            }
            p.why role="status" {}
            ul {
                @for task in &column.cards {
                    @let said = found.said.get(&task.id);
                    @let receipts = found.receipts.get(&task.id).map_or(&[][..], Vec::as_slice);
                    (pieces.put(task.id.to_string(), card::draw(task, said, receipts, now)))
                }
            }
            @if column.more { (more(column, &found.project, wish)) }
            @if column.cards.is_empty() { p.none { "Nothing here." } }
        }
    }
}

async fn load(onlooker: &Onlooker, wish: &Wish) -> Result<Option<Found>, Problem> {
    let (projects, pools) = tokio::join!(
        onlooker.ask::<List<ProjectView>>(("project", "list"), json!({ "limit": PROJECTS_MAX })),
        onlooker.ask::<List<PoolView>>(("pool", "list"), json!({ "limit": POOLS_MAX })),
    );
    let (projects, pools) = (projects?.items, pools?.items);
    let wanted = |project: &&ProjectView| wish.project.as_ref().is_none_or(|id| *id == project.id);
    let Some(project) = projects.iter().find(wanted).cloned() else { return Ok(None) };
    let (stats, items) = tokio::join!(
        onlooker.ask::<StatsView>(("stats", "show"), json!({ "project": project.id })),
        onlooker.ask::<List<InboxItem>>(
            ("inbox", "list"),
            json!({ "project": project.id, "limit": CARDS_MAX })
        ),
    );
    let (stats, items) = (stats?, items?.items);
    let columns = columns(onlooker, &project, wish, (&stats, &pools)).await?;
    let receipts = receipts(onlooker, &columns).await?;
    let said = items.into_iter().map(|item| (item.task, item)).collect();
    let today = [PoolName::ProjectDayBudget(project.id.clone()), PoolName::DayBudget];
    let day = today.iter().find_map(|name| pools.iter().find(|pool| pool.pool.0 == *name));
    let day = day.cloned();
    Ok(Some(Found { projects, project, columns, said, receipts, stats, day }))
}

/// What was found of the tasks that are being checked.
async fn receipts(
    onlooker: &Onlooker,
    columns: &[Column],
) -> Result<BTreeMap<TaskId, Vec<ReceiptView>>, Problem> {
    let cards = columns.iter().flat_map(|column| &column.cards);
    let checked = cards.filter(|card| !card.contract.is_empty() && card::is_checked(card));
    let mut all = BTreeMap::new();
    for card in checked.take(CHECKED_MAX) {
        let asked = json!({ "task": card.id, "limit": RECEIPTS_MAX });
        let found = onlooker.ask::<List<ReceiptView>>(("receipt", "list"), asked).await?;
        all.insert(card.id, found.items);
    }
    Ok(all)
}

async fn columns(
    onlooker: &Onlooker,
    project: &ProjectView,
    wish: &Wish,
    (stats, pools): (&StatsView, &[PoolView]),
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
        let limit = limit(pools, project, name);
        let (name, more) = (name.to_owned(), found.next.is_some());
        columns.push(Column { name, cards, count, more, limit });
    }
    Ok(columns)
}

/// How many are at work in a column, and how many may be.
fn limit(pools: &[PoolView], project: &ProjectView, stage: &str) -> Option<(u64, u64)> {
    let stage = project.stages.iter().find(|own| own.name.as_str() == stage)?;
    let name = PoolName::Stage(project.id.clone(), stage.name.clone());
    let pool = pools.iter().find(|pool| pool.pool.0 == name)?;
    pool.limit.map(|limit| (pool.used, limit))
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

fn no_task(project: &ProjectView) -> Markup {
    html! {
        div.empty.short {
            h2 { "Nothing to do in " (project.id) "." }
            p { "A task goes into the backlog, or to work at once with " code { "--stage" } ":" }
            (words::command(&format!("baton add \"…\" --project {} --stage coding", project.id)))
            p.quiet { "Or press " kbd { "c" } "." }
        }
    }
}

fn chooser(found: &Found, wish: &Wish) -> Markup {
    let url = |id: &ProjectId| {
        let wish = Wish { project: Some(id.clone()), after: None, ..wish.clone() };
        format!("/board{}", wish.query())
    };
    html! {
        nav.projects aria-label="Projects" {
            @for project in &found.projects {
                @let here = project.id == found.project.id;
                a href=(url(&project.id)) aria-current=[here.then_some("true")] {
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

fn chips(found: &Found) -> Markup {
    let stats = &found.stats;
    let count = |badge: Badge| stats.badges.get(&badge).copied().unwrap_or(0);
    let shown = [Badge::Running, Badge::Silent, Badge::Failed, Badge::StopUnverified];
    let spent = found.day.as_ref().map(|pool| (pool.settled + pool.used, pool.limit));
    html! {
        @if stats.inbox > 0 {
            a.chip.needs href="/inbox" {
                b { (stats.inbox) } (if stats.inbox == 1 { " needs you" } else { " need you" })
            }
        }
        @for badge in shown {
            @if count(badge) > 0 {
                span class={ "chip " (tone(badge).class()) } {
                    b { (count(badge)) } " " (plain(&badge).to_lowercase())
                }
            }
        }
        @if let Some((spent, limit)) = spent {
            span.chip {
                b { (money(spent)) } @if let Some(limit) = limit { " of " (money(limit)) } " today"
            }
        }
    }
}
