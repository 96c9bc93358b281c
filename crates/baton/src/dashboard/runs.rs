//! Tasks one below the other, live and ended, newest first.

use baton_domain::time::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::Onlooker;
use super::board::Tasks;
use super::paths::Wish;
use super::sheet::Sheet;
use super::words::{self, ago, pill, who};
use crate::problem::Problem;
use crate::views::{StatsView, TaskView};

/// Rows of one page.
const ROWS: usize = 50;

/// The list as it is now.
pub async fn sheet(onlooker: &Onlooker, wish: &Wish, stats: &StatsView) -> Result<Sheet, Problem> {
    let mut arguments = wish.filter.arguments();
    if let Some(project) = &wish.project {
        arguments.insert("project".into(), json!(project));
    }
    if let Some(after) = wish.after {
        arguments.insert("after".into(), json!(after));
    }
    for (name, value) in [("ended", json!(true)), ("newest", json!(true)), ("limit", json!(ROWS))] {
        arguments.insert(name.into(), value);
    }
    let found: Tasks = onlooker.ask(("task", "list"), Value::Object(arguments)).await?;
    let now = onlooker.now();
    let mut sheet = Sheet::of_pieces("Runs", |pieces| {
        html! {
            @if found.items.is_empty() {
                div.empty {
                    h2 { "Nothing passes this filter." }
                    @if wish.filter.is_empty() { (words::command("baton add \"…\"")) }
                }
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Tasks" {
                    table.list {
                        thead {
                            tr {
                                @for name in ["Task", "State", "Stage", "Title", "Held by", "Tries", "Age"] {
                                    th scope="col" { (name) }
                                }
                            }
                        }
                        tbody {
                            @for task in &found.items {
                                (pieces.put(task.id.to_string(), row(task, now)))
                            }
                        }
                    }
                }
                @if let Some(next) = found.next {
                    @let wish = Wish { after: Some(next), ..wish.clone() };
                    a.more href={ "/runs" (wish.query()) } { "Older ones" }
                }
            }
        }
    });
    let live: u64 = stats.badges.values().sum();
    sheet.chips = html! {
        span.chip { b { (live) } " open" }
        span.chip { b { (stats.ended) } " ended" }
    };
    Ok(sheet)
}

fn row(task: &TaskView, now: Timestamp) -> Markup {
    let run = task.run.as_ref().or(task.last_run.as_ref());
    html! {
        tr id=(task.id) data-row data-task=(task.id) {
            td { a.id href={ "/tasks/" (task.id) } { (task.id) } }
            td { (pill(task.badge)) }
            td { (task.stage) }
            td.title { (task.title) }
            td { @if let Some(holder) = run.and_then(|run| run.holder.as_ref()) { (who(holder.as_str())) } }
            td.number { @if let Some(tries) = run.and_then(|run| run.tries) { (tries) } }
            td.number { (ago(task.created_at, now)) }
        }
    }
}
