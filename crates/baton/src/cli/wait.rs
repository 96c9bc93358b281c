//! `baton wait`: blocks until tasks are settled, and says by its exit code how.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use crate::client::Failure;

use super::arguments::spelled;
use super::asking::entry;
use super::{Output, Session, render};

/// What people type.
pub(super) const NAME: &str = "wait";

/// How many tasks are waited for at once, one after another.
const TASKS_MAX: usize = 50;
/// How long until a task that nobody has begun is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// What is shown of a task that is settled.
const COLUMNS: &[&str] = &["id", "badge", "stage", "title"];

/// It failed.
const FAILED: u8 = 10;
/// It waits for a person.
const NEEDS_PERSON: u8 = 11;
/// Nobody wants it any more.
const CALLED_OFF: u8 = 12;

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Wait until tasks are done, need a person, or have failed")
        .after_help(
            "Exits 0 when all are done, otherwise with what the first one of them came to: 10 failed, 11 \
             waits for a person, 12 called off. --timeout bounds it (124).",
        )
        .arg(
            Arg::new("bell")
                .long("bell")
                .action(ArgAction::SetTrue)
                .help("Ring the bell of the terminal for each that is settled"),
        )
        .arg(
            Arg::new("task")
                .value_name("TASK")
                .help("Which tasks (may be given several times)")
                .required(true)
                .num_args(1..=TASKS_MAX)
                .action(ArgAction::Append),
        )
}

/// Waits for one after another.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let mut exit = 0;
    for id in asked.get_many::<String>("task").into_iter().flatten() {
        let (task, settled) = settle(session, &spelled("T-", id)).await?;
        show(session, &task);
        if asked.get_flag("bell") {
            session.ring();
        }
        exit = if exit == 0 { settled } else { exit };
    }
    Ok(exit)
}

/// Looks at a task again whenever its run has changed, until nothing more happens by itself.
async fn settle(session: &Session<'_>, id: &str) -> Result<(Value, u8), Failure> {
    loop {
        let task = session.asked(("task", "show"), [("task", id.into())]).await?;
        if let Some(exit) = settled(&task) {
            return Ok((task, exit));
        }
        change(session, id, &task).await?;
    }
}

/// Waits until the run of a task is another than it was, or for a while where nobody has begun it.
pub(super) async fn change(session: &Session<'_>, id: &str, task: &Value) -> Result<(), Failure> {
    let since = [("run", id.into()), ("since", task["version"].clone())];
    match session.asked(("run", "wait"), since).await {
        // There is no run whose change could be waited for.
        Err(failure) if failure.code() == "no_run" => {
            tokio::time::sleep(LOOK_AGAIN).await;
            Ok(())
        }
        other => other.map(drop),
    }
}

/// What a task has come to, if nothing more happens to it by itself.
pub(super) fn settled(task: &Value) -> Option<u8> {
    let needs_person = task["needs"].as_array().is_some_and(|needs| !needs.is_empty());
    match task["badge"].as_str().unwrap_or_default() {
        "done" | "done_unverified" => Some(0),
        "failed" | "ended_without_result" | "merge_failed" => Some(FAILED),
        "abandoned" | "superseded" | "rejected" | "archived" => Some(CALLED_OFF),
        _ => needs_person.then_some(NEEDS_PERSON),
    }
}

fn show(session: &mut Session<'_>, task: &Value) {
    if session.globals.quiet {
        return;
    }
    let shape = &entry("task", "show").answer;
    let text = match session.globals.output {
        Output::Json | Output::JsonLines => render::json(task),
        Output::Text => {
            render::answer(task, shape, COLUMNS, render::Depth::Columns, session.look(task))
        }
    };
    session.say(&text);
}
