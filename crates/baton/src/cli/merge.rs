//! `baton merge`: a person lets a task go on to be merged, or is told how far it is.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use crate::client::Failure;
use crate::problem::Problem;

use super::Session;
use super::arguments::spelled;
use super::asking::entry;
use super::render::clean::line;

/// What people type.
pub(super) const NAME: &str = "merge";
/// Why the hold was lifted, as history has it, if nobody says.
const REASON: &str = "approved";
/// What is shown of the task.
const COLUMNS: &[&str] = &["id", "badge", "stage", "title"];

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Agree with what a task changed, so that it goes on to be merged")
        .after_help("It lifts the review hold. Look first: baton diff TASK.")
        .arg(Arg::new("task").value_name("TASK").required(true).help("Which task"))
        .arg(Arg::new("reason").value_name("REASON").help("Why, for the history"))
}

/// Lifts the hold, or says why there is nothing to agree with.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let id = asked.get_one::<String>("task").map(|id| spelled("T-", id)).unwrap_or_default();
    let reason = asked.get_one::<String>("reason").map_or(REASON, String::as_str);
    let task = session.asked(("task", "show"), [("task", id.as_str().into())]).await?;
    let holds = |hold: &str| task["holds"].as_array().is_some_and(|all| all.contains(&json!(hold)));
    let show = entry("task", "show");
    if holds("review") {
        let unhold = [("task", id.as_str().into()), ("reason", reason.into())];
        let task = session.asked(("task", "unhold"), unhold).await?;
        session.print(&task, entry("task", "unhold"), COLUMNS);
        return Ok(0);
    }
    // Asking again for what is already so is no mistake.
    let over = ["in_merge_queue", "done", "done_unverified"].map(Value::from);
    if over.contains(&task["badge"]) {
        session.print(&task, show, COLUMNS);
        return Ok(0);
    }
    let told = session.asked(("task", "explain"), [("task", id.as_str().into())]).await?;
    let cause = &told["causes"][0];
    let why = line(cause["sentence"].as_str().unwrap_or("It is not that far."));
    let problem = Problem::new("wrong_state", format!("{id} does not wait to be merged. {why}"));
    Err(match cause["command"].as_str() {
        Some(command) => problem.next(line(command)).into(),
        None => problem.into(),
    })
}
