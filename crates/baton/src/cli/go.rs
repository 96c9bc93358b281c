//! `baton add … --go`: a task that is begun at once, and told of until nothing more happens to it by itself.

use clap::ArgMatches;
use serde_json::Value;

use crate::client::Failure;
use crate::operation::Entry;
use crate::problem::Problem;

use super::render::clean::line;
use super::{Output, Session, wait};

/// Events of one look.
const EVENTS_AT_ONCE: u64 = 50;

/// Makes the task in the first stage of its project, and follows it.
pub(super) async fn run(
    session: &mut Session<'_>,
    entry: &'static Entry,
    matches: &ArgMatches,
    columns: &[&str],
) -> Result<u8, Failure> {
    let mut arguments = session.arguments(entry, matches, &[])?;
    if !arguments.contains_key("stage") {
        let project = arguments.get("project").cloned().unwrap_or_default();
        let project = session.asked(("project", "show"), [("project", project)]).await?;
        let first = project["stages"][0]["name"].clone();
        if first.is_null() {
            let detail = "the project has no stage in which work could begin";
            return Err(Problem::new("no_stage", detail).into());
        }
        arguments.insert("stage".to_owned(), first);
    }
    let task = session.ask(entry, arguments).await?;
    session.print(&task, entry, columns);
    let id = task["id"].as_str().unwrap_or_default().to_owned();
    let mut from = task["as_of"].clone();
    if let Some(hint) = hint(session, &id).await {
        session.whisper(&hint);
    }
    loop {
        let task = session.asked(("task", "show"), [("task", id.as_str().into())]).await?;
        from = tell(session, &id, from).await?;
        if let Some(exit) = wait::settled(&task) {
            let next = next(&task);
            session.whisper(&format!("{id}  {}\n\n{next}", badge(&task)));
            return Ok(exit);
        }
        wait::change(session, &id, &task).await?;
    }
}

/// What keeps it from being begun now, if something does that does not pass by itself.
async fn hint(session: &Session<'_>, id: &str) -> Option<String> {
    let told = session.asked(("task", "explain"), [("task", id.into())]).await.ok()?;
    let first = &told["causes"][0];
    let passes = ["queued", "held"].iter().any(|code| first["code"] == *code);
    let (sentence, command) = (first["sentence"].as_str()?, first["command"].as_str());
    let command = command.map_or(String::new(), |command| format!("\n  next: {}", line(command)));
    (!passes).then(|| format!("{id}  waits: {}{command}\n", line(sentence)))
}

/// Tells what happened since, and answers where that ends.
async fn tell(session: &mut Session<'_>, id: &str, from: Value) -> Result<Value, Failure> {
    let mut from = from;
    loop {
        let limit = ("limit", EVENTS_AT_ONCE.into());
        let asked = [("task", id.into()), ("after", from.clone()), limit];
        let page = session.asked(("event", "list"), asked).await?;
        for entry in page["items"].as_array().into_iter().flatten() {
            // What came while the page was read may be in it, though it is younger than the page says.
            from = entry["cursor"].clone();
            for event in entry["events"].as_array().into_iter().flatten() {
                if let Some(text) = sentence(event, &entry["actor"]) {
                    session.whisper(&format!("{id}  {text}\n"));
                }
            }
        }
        match page["next"].as_str() {
            Some(next) => from = next.into(),
            None => return Ok(from),
        }
    }
}

/// What people want to know while they watch; the rest is in `baton events`.
pub(super) fn sentence(event: &Value, actor: &Value) -> Option<String> {
    let part = |name: &str| line(event[name].as_str().unwrap_or_default());
    let note = |name: &str| line(event["note"][name].as_str().unwrap_or_default());
    let who = line(actor["principal"].as_str().unwrap_or_default());
    Some(match event["event"].as_str()? {
        "claimed" => format!("claimed by {who}"),
        // What workers keep is for the next attempt, not for whoever watches.
        "checkpointed" if actor["kind"] == "worker" => return None,
        "checkpointed" => format!("checkpoint: {}", note("summary")),
        "asked" => format!("asks: {}", part("question")),
        "answered" => format!("{who} answered: {}", part("answer")),
        "submitted" => "says that it is done".to_owned(),
        "verified" => "was checked".to_owned(),
        "moved" => format!("goes to {}", stage(&event["to"])),
        _ => return None,
    })
}

fn stage(to: &Value) -> String {
    let named = to.as_str().or_else(|| to["working"].as_str());
    named.map_or_else(|| "its end".to_owned(), line)
}

fn badge(task: &Value) -> String {
    line(task["badge"].as_str().unwrap_or_default()).replace('_', " ")
}

/// The command that comes next.
fn next(task: &Value) -> String {
    let id = line(task["id"].as_str().unwrap_or_default());
    match task["badge"].as_str() {
        Some("done" | "done_unverified") => format!("next: baton diff {id}\n"),
        Some("failed" | "ended_without_result" | "merge_failed") => {
            format!("next: baton logs {id}\n      baton retry {id} \"why\"\n")
        }
        Some(_) | None => format!("next: baton explain {id}\n"),
    }
}

impl Session<'_> {
    /// Says what is not the answer: on the other stream, and only to people.
    pub(super) fn whisper(&mut self, text: &str) {
        if !self.globals.quiet && self.globals.output == Output::Text {
            // Nobody misses it who does not look.
            drop(self.streams.err.write_all(text.as_bytes()));
        }
    }
}
