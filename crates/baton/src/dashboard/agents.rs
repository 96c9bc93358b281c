//! Who works: workers with their slots, accounts with their limits, and whoever holds a run.

use std::collections::BTreeMap;

use baton_domain::pool::PoolName;
use baton_domain::run::Mode;
use baton_domain::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::Onlooker;
use super::inbox::asking;
use super::sheet::Sheet;
use super::words::{self, ago, gauge, plain, until, who};
use crate::problem::Problem;
use crate::views::{PauseView, PoolView, RunView, WorkerView};

/// Live runs that are looked through for who holds them.
const RUNS_MAX: usize = 500;
/// Pools that are looked through for accounts.
const POOLS_MAX: usize = 500;

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// Who works now.
pub async fn sheet(onlooker: &Onlooker) -> Result<Sheet, Problem> {
    let (workers, runs, pools) = tokio::join!(
        onlooker.ask::<List<WorkerView>>(("worker", "list"), json!({})),
        onlooker.ask::<List<RunView>>(("run", "list"), json!({ "live": true, "limit": RUNS_MAX })),
        onlooker.ask::<List<PoolView>>(("pool", "list"), json!({ "limit": POOLS_MAX })),
    );
    let (workers, runs, pools) = (workers?.items, runs?.items, pools?.items);
    let now = onlooker.now();
    let mut held: BTreeMap<String, Vec<&RunView>> = BTreeMap::new();
    for run in &runs {
        if let Some(holder) = &run.holder {
            held.entry(holder.to_string()).or_default().push(run);
        }
    }
    let all = pools.iter().find(|pool| pool.pool.0 == PoolName::Scheduler);
    let paused = all.and_then(|pool| pool.paused.as_ref());
    let main = html! {
        div.agents data-roster {
            (everything(paused, now))
            section.panel { h2 { "Workers" } (table(&workers, &held, now)) }
            (accounts(&pools, now))
            section.panel { h2 { "At work" } (holders(&held, now)) }
        }
    };
    let mut sheet = Sheet::whole("Agents", &main);
    let slots: u64 = workers.iter().map(|worker| u64::from(worker.slots)).sum();
    let busy: usize = held.values().map(Vec::len).sum();
    sheet.chips = html! {
        span.chip { b { (workers.len()) } (if workers.len() == 1 { " worker" } else { " workers" }) }
        span.chip { b { (slots) } " slots" }
        span.chip.busy { b { (busy) } " at work" }
        @if paused.is_some() { span.chip.needs { "paused" } }
    };
    Ok(sheet)
}

/// Whether anything starts at all.
fn everything(paused: Option<&PauseView>, now: Timestamp) -> Markup {
    html! {
        @match paused {
            Some(pause) => div.notice {
                p {
                    b { "Paused" } " for " (ago(pause.since, now)) ": nothing starts. " (pause.reason)
                    @if let Some(at) = pause.until { " It ends in " (until(at, now)) "." }
                }
                form.act data-method="POST" data-path="/v1/scheduler/resume" data-done="It goes on" {
                    button type="submit" { "Let it go on" }
                }
            },
            None => div.buttons {
                (asking("Pause everything…", "/v1/scheduler/pause", "Why nothing more shall start", "Paused"))
            },
        }
    }
}

fn table(workers: &[WorkerView], held: &BTreeMap<String, Vec<&RunView>>, now: Timestamp) -> Markup {
    html! {
        @if workers.is_empty() {
            p.none { "No worker is connected to this server. On the machine where agents shall run:" }
            p { (words::command("baton up")) }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Workers" {
                table.list {
                    thead { tr { @for name in ["Worker", "Machine", "Slots", "Last heard", "Agents", "Accounts", "Version", "Holds", "Drain"] { th scope="col" { (name) } } } }
                    tbody { @for worker in workers { (row(worker, held, now)) } }
                }
            }
        }
    }
}

fn row(worker: &WorkerView, held: &BTreeMap<String, Vec<&RunView>>, now: Timestamp) -> Markup {
    let share = worker.busy.saturating_mul(1_000) / u64::from(worker.slots).max(1);
    let runs = held.get(worker.worker.as_str()).map_or(&[][..], Vec::as_slice);
    html! {
        tr id={ "worker-" (worker.worker) "-" (worker.machine) } {
            td { (who(worker.worker.as_str())) }
            td { (worker.machine) }
            td.slots { (worker.busy) "/" (worker.slots) (gauge(share, "Slots that are in use")) }
            td.number { (ago(worker.heard_at, now)) " ago" }
            td { @for agent in &worker.agents { span.label { (agent) } " " } }
            td { @for account in &worker.accounts { span.label { (account) } " " } }
            td { (worker.version) }
            td { @for run in runs { a.id href={ "/tasks/" (run.task) } { (run.task) } " " } }
            td {
                @match &worker.drained {
                    Some(pause) => form.act data-method="POST" data-done="It may take runs again"
                        data-path={ "/v1/workers/" (worker.worker) "/resume" } {
                        span.soon title=(pause.reason) { "drains" }
                        button type="submit" { "Let it take runs" }
                    },
                    None => (asking("Drain…", &format!("/v1/workers/{}/drain", worker.worker), "Why it shall take nothing more", "It drains")),
                }
            }
        }
    }
}

/// Accounts that somebody limits, or that a provider has shut.
fn accounts(pools: &[PoolView], now: Timestamp) -> Markup {
    let accounts: Vec<_> =
        pools.iter().filter(|pool| matches!(pool.pool.0, PoolName::Account(_))).collect();
    html! {
        @if !accounts.is_empty() {
            section.panel {
                h2 { "Accounts" }
                ul.accounts {
                    @for pool in accounts {
                        @let limit = pool.limit.unwrap_or(0);
                        li {
                            strong { (pool.pool.0.to_string().trim_start_matches("account ")) }
                            span {
                                (pool.used) " in use"
                                @if limit > 0 { " of " (limit) }
                            }
                            @if limit > 0 { (gauge(pool.used.saturating_mul(1_000) / limit, "In use")) }
                            @match &pool.paused {
                                Some(pause) => span.soon {
                                    "at its limit: " (pause.reason)
                                    @if let Some(at) = pause.until { ", opens in " (until(at, now)) }
                                },
                                None => span.good { "open" },
                            }
                        }
                    }
                }
            }
        }
    }
}

fn holders(held: &BTreeMap<String, Vec<&RunView>>, now: Timestamp) -> Markup {
    html! {
        @if held.is_empty() { p.none { "Nobody holds a run." } }
        ul.holders {
            @for (holder, runs) in held {
                li {
                    (who(holder))
                    span.quiet { (if runs.iter().any(|run| run.mode == Some(Mode::Supervised)) { "supervised" } else { "without a worker" }) }
                    span {
                        @for run in runs {
                            a.held href={ "/tasks/" (run.task) } {
                                span.id { (run.task) } " " (plain(&run.state).to_lowercase())
                                @if let Some(at) = run.active_at { span.quiet { " · " (ago(at, now)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
