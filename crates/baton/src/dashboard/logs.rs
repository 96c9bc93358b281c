//! What the agent of a run said. The page is drawn with the last lines; the script asks for what follows, and adds it.

use maud::{Markup, html};
use serde_json::json;

use super::Onlooker;
use super::words::clock;
use crate::problem::Problem;
use crate::shape::choices::Word as _;
use crate::views::{LogView, RunView};

/// Lines that a page is drawn with; whoever has a script gets all of them.
const LINES: usize = 100;

/// The log of a run.
pub async fn draw(onlooker: &Onlooker, run: Option<&RunView>) -> Result<Markup, Problem> {
    let Some(run) = run else {
        return Ok(html! { p.none { "Nobody has begun it: nothing was said." } });
    };
    let asked = json!({ "run": run.id, "limit": LINES });
    let log: LogView = onlooker.ask(("run", "logs"), asked).await?;
    Ok(html! {
        div.log-head {
            p.quiet {
                @match log.attempt {
                    Some(attempt) => (attempt),
                    None => "no attempt yet",
                }
                @if let Some(at) = log.brought_at { ", as its worker brought it at " (clock(at.0)) }
            }
            label { input #follow type="checkbox" checked[log.live]; "Follow" }
        }
        @if log.items.is_empty() {
            p.none #log-none {
                "Nothing was said yet. Agents without a worker keep their logs to themselves."
            }
        }
        div #log .log tabindex="0" role="log" aria-label="Log" data-own data-run=(run.id) data-last=(log.last)
            data-first=(log.items.first().map_or(0, |line| line.number)) {
            div.block {
                @for line in &log.items {
                    div class=(line.voice.word()) { (clock(line.at.0)) span { (line.text) } }
                }
            }
        }
    })
}
