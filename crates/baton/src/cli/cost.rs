//! `baton cost`: what tasks have cost, and what budgets are left.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use crate::client::Failure;

use super::arguments::spelled;
use super::asking::{entry, named};
use super::render::clean::line;
use super::{Session, upkeep};

/// What people type.
pub(super) const NAME: &str = "cost";
/// Tasks whose attempts are added up; the others are counted.
const TASKS_MAX: u64 = 100;
/// Attempts of one task: more than any rule lets it have.
const ATTEMPTS_MAX: u64 = 500;

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Show what tasks have cost, and what budgets are left")
        .after_help("Without a task: the newest live and ended ones that cost anything.")
        .arg(Arg::new("task").value_name("TASK").help("Only this task, attempt by attempt"))
}

/// Adds it up.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let one = asked.get_one::<String>("task").map(|id| spelled("T-", id));
    let (tasks, more) = match &one {
        Some(id) => {
            (vec![session.asked(("task", "show"), [("task", id.as_str().into())]).await?], false)
        }
        None => newest(session).await?,
    };
    let mut rows = vec![];
    for task in tasks {
        let id = task["id"].as_str().unwrap_or_default().to_owned();
        let attempts = attempts(session, &id).await?;
        let spent = attempts.iter().filter_map(|one| one["spent_micros"].as_u64()).sum::<u64>();
        if spent > 0 || one.is_some() {
            rows.push(Row {
                id,
                title: line(task["title"].as_str().unwrap_or_default()),
                spent,
                attempts,
            });
        }
    }
    let pools = session.asked(("pool", "list"), []).await?;
    let body = json!({
        "items": rows.iter().map(Row::body).collect::<Vec<_>>(),
        "total": dollars(rows.iter().map(|row| row.spent).sum()),
        "more": more,
    });
    upkeep::tell(session, &body, &text(&rows, &pools, one.is_some(), more));
    Ok(0)
}

struct Row {
    id: String,
    title: String,
    spent: u64,
    attempts: Vec<Value>,
}

impl Row {
    fn body(&self) -> Value {
        json!({ "task": self.id, "title": self.title, "spent": dollars(self.spent), "by": self.by() })
    }

    /// Who cost how much.
    fn by(&self) -> BTreeMap<String, String> {
        let mut by: BTreeMap<String, u64> = BTreeMap::new();
        for one in &self.attempts {
            let holder = line(one["holder"].as_str().unwrap_or_default());
            *by.entry(holder).or_default() += one["spent_micros"].as_u64().unwrap_or(0);
        }
        by.into_iter().map(|(who, spent)| (who, dollars(spent))).collect()
    }
}

async fn newest(session: &Session<'_>) -> Result<(Vec<Value>, bool), Failure> {
    let mut arguments =
        named([("limit", TASKS_MAX.into()), ("newest", true.into()), ("ended", true.into())]);
    arguments.extend(named(session.project().map(|project| ("project", project.as_str().into()))));
    let page = session.ask(entry("task", "list"), arguments).await?;
    let items = page["items"].as_array().cloned().unwrap_or_default();
    Ok((items, page["next"].is_string()))
}

async fn attempts(session: &Session<'_>, id: &str) -> Result<Vec<Value>, Failure> {
    let asked = [("task", id.into()), ("limit", ATTEMPTS_MAX.into())];
    let page = session.asked(("attempt", "list"), asked).await?;
    let ended = page["items"].as_array().cloned().unwrap_or_default();
    Ok(ended.into_iter().chain(page.get("live").cloned()).collect())
}

fn text(rows: &[Row], pools: &Value, attempts: bool, more: bool) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{:<6}  {:>10}  {}\n", row.id, dollars(row.spent), row.title));
        for one in row.attempts.iter().filter(|_| attempts) {
            let part = |name: &str| line(one[name].as_str().unwrap_or_default());
            let spent = dollars(one["spent_micros"].as_u64().unwrap_or(0));
            let (id, holder, outcome) = (part("id"), part("holder"), part("outcome"));
            text.push_str(&format!("{:<6}  {spent:>10}  {id}  {holder}  {outcome}\n", ""));
        }
    }
    if rows.is_empty() {
        text.push_str("nothing has cost anything\n");
    } else if rows.len() > 1 {
        let total = dollars(rows.iter().map(|row| row.spent).sum());
        text.push_str(&format!("{:<6}  {total:>10}  all of these\n", ""));
    }
    if more {
        text.push_str(&format!("… only the newest {TASKS_MAX} tasks were looked at\n"));
    }
    for pool in pools["items"].as_array().into_iter().flatten() {
        let part = |value: &Value| line(value.as_str().unwrap_or_default());
        if let Some(limit) = pool["money"]["limit"].as_str() {
            let (name, spent) = (part(&pool["pool"]), part(&pool["money"]["spent"]));
            text.push_str(&format!("budget {name}: {spent} of {}\n", line(limit)));
        }
    }
    text
}

/// Millionths as people write them, with as many digits as say something.
fn dollars(micros: u64) -> String {
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    let cents = part / 10_000;
    match part % 10_000 {
        0 => format!("${whole}.{cents:02}"),
        _ => format!("${whole}.{part:06}").trim_end_matches('0').to_owned(),
    }
}
