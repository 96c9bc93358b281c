//! `baton` alone: what needs you, what is at work, and the next command.

use serde_json::{Map, Value};

use crate::client::Failure;
use crate::operations;

use super::render::clean::line;
use super::{Output, Session, render};

/// Lines per heading; the rest is counted.
const LINES_MAX: usize = 8;

/// Shows how things stand, or how to start.
pub(super) async fn show(session: &mut Session<'_>) -> Result<u8, Failure> {
    let tasks = match ask(session, "task", "list").await {
        Ok(tasks) => tasks,
        Err(failure) if failure.code() == "unreachable" => {
            started(session, &failure);
            return Ok(0);
        }
        Err(failure) => return Err(failure),
    };
    if session.globals.output != Output::Text {
        let text = render::json(&tasks);
        session.say(&text);
        return Ok(0);
    }
    // What cannot be counted is no reason to show nothing.
    let stats = ask(session, "stats", "show").await.unwrap_or_default();
    let project = match tasks["items"].as_array().is_some_and(Vec::is_empty) {
        true => founded(session).await,
        false => None,
    };
    let text = summary(&tasks, &stats, project.as_deref());
    session.say(&text);
    Ok(0)
}

/// The project that a first task could go to: the one that is meant here, or else any.
async fn founded(session: &Session<'_>) -> Option<String> {
    let told = session.asked(("project", "list"), []).await.ok()?;
    let mut names = told["items"].as_array()?.iter().filter_map(|one| one["id"].as_str());
    let meant = session.project();
    names.find(|name| meant.is_none_or(|meant| meant.as_str() == *name)).map(line)
}

async fn ask(session: &Session<'_>, noun: &str, verb: &str) -> Result<Value, Failure> {
    let entry = operations::find(noun, verb).expect("the table has it");
    let mut arguments = Map::new();
    let project = session.globals.project.as_ref().or(session.around.project.as_ref());
    if let Some(project) = project {
        arguments.insert("project".to_owned(), project.as_str().into());
    }
    session.ask(entry, arguments).await
}

fn started(session: &mut Session<'_>, failure: &Failure) {
    if session.globals.output != Output::Text {
        let text = render::json(&serde_json::json!({ "server": "unreachable" }));
        return session.say(&text);
    }
    let part = |value: &Value| line(value.as_str().unwrap_or_default());
    let (why, next) = (part(&failure.body["detail"]), part(&failure.body["next"][0]));
    let version = env!("CARGO_PKG_VERSION");
    // What cannot be started here is looked for.
    let (state, next) = match next.as_str() {
        "baton serve" => ("not running", "baton serve     start the server; leave it running"),
        _ => ("cannot be reached", "baton doctor    look for what is wrong"),
    };
    session.say(&format!(
        "baton {version}   server: {state}\n  {why}\n\nnext: {next}\n      \
         baton demo      watch a short story; touches nothing here\n",
    ));
}

/// The tasks under two headings, and what to do about them.
pub(super) fn summary(tasks: &Value, stats: &Value, project: Option<&str>) -> String {
    let items = tasks["items"].as_array().map_or(&[][..], Vec::as_slice);
    let needs: Vec<_> = items.iter().filter(|task| waits_for_person(task)).collect();
    let held = |task: &&Value| task["run"]["attempt"].is_string() && !waits_for_person(task);
    let working: Vec<_> = items.iter().filter(held).collect();
    let others = items.len() - needs.len() - working.len();
    let more = if tasks["next"].is_string() { " or more" } else { "" };
    let mut text =
        format!("{} need you · {} at work · {others} other{more}\n", needs.len(), working.len());
    text.push_str(&exhausted(&stats["exhausted"]));
    heading("NEEDS YOU", &needs, &mut text);
    heading("AT WORK", &working, &mut text);
    let next = match (needs.first(), items.is_empty(), project) {
        (Some(_), _, _) => "baton inbox".to_owned(),
        (None, true, Some(project)) => format!("baton add \"your first task\" -P {project}"),
        (None, true, None) => {
            "baton project add NAME, then baton add \"your first task\" -P NAME".to_owned()
        }
        (None, false, _) => "baton ls".to_owned(),
    };
    text.push_str(&format!("\nnext: {next}\n"));
    text
}

/// That queued work waits for accounts alone, if it does.
pub(super) fn exhausted(told: &Value) -> String {
    let Some(accounts) = told["accounts"].as_array() else { return String::new() };
    let names: Vec<_> = accounts.iter().filter_map(Value::as_str).map(line).collect();
    let until = match told["until"].as_str() {
        Some(until) => format!("the first opens at {}", line(until)),
        None => "none opens by itself".to_owned(),
    };
    format!("queued work waits: every account is exhausted ({}); {until}\n", names.join(", "))
}

fn waits_for_person(task: &Value) -> bool {
    task["needs"].as_array().is_some_and(|needs| !needs.is_empty())
}

fn heading(name: &str, tasks: &[&Value], text: &mut String) {
    if tasks.is_empty() {
        return;
    }
    text.push_str(&format!("\n{name}\n"));
    for task in tasks.iter().take(LINES_MAX) {
        let part = |name: &str| line(task[name].as_str().unwrap_or_default());
        let (id, badge, stage, title) = (part("id"), part("badge"), part("stage"), part("title"));
        text.push_str(&format!("  {id:<6}  {badge:<18}  {stage:<8}  {title}\n"));
    }
    if tasks.len() > LINES_MAX {
        text.push_str(&format!("  … and {} more\n", tasks.len() - LINES_MAX));
    }
}
