//! `baton board`: the live tasks by their stages, in a terminal.

use clap::{ArgMatches, Command};
use serde_json::Value;

use crate::client::Failure;

use super::asking::named;
use super::render::clean::line;
use super::{Output, Session, asking, render};

/// What people type.
pub(super) const NAME: &str = "board";
/// Tasks of one stage that are shown; the others are counted.
const CARDS_MAX: usize = 12;
/// Tasks that are asked for at once: as many as a page has.
const TASKS_MAX: u64 = 500;
/// Characters of a line: an old terminal has no more.
const WIDTH: usize = 80;

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME).about("Show the live tasks by their stages")
}

/// Shows it.
pub(super) async fn run(session: &mut Session<'_>, _: &ArgMatches) -> Result<u8, Failure> {
    let project = session.project().cloned();
    let mut arguments = named([("limit", TASKS_MAX.into())]);
    arguments.extend(named(project.iter().map(|project| ("project", project.as_str().into()))));
    let tasks = session.ask(asking::entry("task", "list"), arguments).await?;
    let stages = match &project {
        Some(project) => {
            let about = [("project", project.as_str().into())];
            let project = session.asked(("project", "show"), about).await?;
            stages_of(&project)
        }
        None => vec![],
    };
    if session.globals.quiet {
        return Ok(0);
    }
    let text = match session.globals.output {
        Output::Json => render::json(&tasks),
        Output::JsonLines => render::json_lines(&tasks),
        Output::Text => drawn(&stages, &tasks),
    };
    session.say(&text);
    Ok(0)
}

fn stages_of(project: &Value) -> Vec<String> {
    let own = project["stages"].as_array().into_iter().flatten();
    let own = own.filter_map(|stage| stage["name"].as_str()).map(line);
    ["backlog".to_owned()].into_iter().chain(own).collect()
}

/// The stages that are known in their order, then those that tasks stand in.
pub(super) fn drawn(stages: &[String], tasks: &Value) -> String {
    let items = tasks["items"].as_array().map_or(&[][..], Vec::as_slice);
    let stage_of = |task: &Value| line(task["stage"].as_str().unwrap_or_default());
    let mut all = stages.to_vec();
    for stage in items.iter().map(stage_of) {
        if !all.contains(&stage) {
            all.push(stage);
        }
    }
    let mut text = String::new();
    for stage in &all {
        let cards: Vec<_> = items.iter().filter(|task| stage_of(task) == *stage).collect();
        text.push_str(&format!("{}  {}\n", stage.to_uppercase(), cards.len()));
        // What waits for a person is seen first.
        let (mut first, rest): (Vec<_>, Vec<_>) = cards.into_iter().partition(|task| needs(task));
        first.extend(rest);
        for task in first.iter().take(CARDS_MAX) {
            text.push_str(&card(task));
        }
        if first.len() > CARDS_MAX {
            text.push_str(&format!("  … and {} more\n", first.len() - CARDS_MAX));
        }
        text.push('\n');
    }
    if tasks["next"].is_string() {
        text.push_str("… there are more tasks than are shown\n");
    }
    if all.is_empty() {
        text.push_str("nothing\n");
    }
    format!("{}\n", text.trim_end())
}

fn needs(task: &Value) -> bool {
    task["needs"].as_array().is_some_and(|needs| !needs.is_empty())
}

fn card(task: &Value) -> String {
    let part = |name: &str| line(task[name].as_str().unwrap_or_default());
    let holder = line(task["run"]["holder"].as_str().unwrap_or_default());
    let mark = if needs(task) { "!" } else { " " };
    let text =
        format!("{mark} {:<6}  {:<18}  {holder:<12}  {}", part("id"), part("badge"), part("title"));
    let cut: String = text.trim_end().chars().take(WIDTH).collect();
    format!("{cut}\n")
}
