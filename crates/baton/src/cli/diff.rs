//! `baton diff`: what the work on a task changed.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use crate::client::Failure;

use super::arguments::spelled;
use super::asking::{entry, named};
use super::render::clean::{is_hidden, line};
use super::{Output, Session, render};

/// What people type.
pub(super) const NAME: &str = "diff";

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Show what the work on a task changed")
        .after_help("The last snapshot against what the task began from, as `git apply` reads it.")
        .arg(
            Arg::new("run")
                .value_name("TASK")
                .required(true)
                .help("Which task, or which run of it"),
        )
        .arg(Arg::new("path").value_name("FILE").help("Only this file"))
        .arg(
            Arg::new("stat")
                .long("stat")
                .action(ArgAction::SetTrue)
                .help("Only which files, and how many lines"),
        )
        .arg(
            Arg::new("attempt")
                .long("attempt")
                .value_name("A-128.3")
                .help("The work of this attempt"),
        )
}

/// Shows it.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let text = |name: &str| asked.get_one::<String>(name);
    let stat = asked.get_flag("stat");
    let run = text("run").map(|id| spelled("R-", id)).unwrap_or_default();
    let mut arguments = named([("run", run.as_str().into()), ("stat", stat.into())]);
    arguments.extend(named(text("path").map(|path| ("path", path.as_str().into()))));
    let attempt = text("attempt").map(|id| spelled("A-", id));
    arguments.extend(named(attempt.map(|id| ("attempt", id.into()))));
    let diff = session.ask(entry("run", NAME), arguments).await?;
    if session.globals.quiet {
        return Ok(0);
    }
    let text = match session.globals.output {
        Output::Json => render::json(&diff),
        Output::JsonLines => render::json_lines(&diff),
        Output::Text if diff["snapshot"].is_null() => "no work was brought here yet\n".to_owned(),
        Output::Text if stat => summed(&diff),
        Output::Text => patched(&diff, session.around.terminal),
    };
    session.say(&text);
    Ok(0)
}

/// The patch, and what of it is missing. Whoever reads it from a pipe gets it to the byte.
fn patched(diff: &Value, terminal: bool) -> String {
    let patch = diff["patch"].as_str().unwrap_or_default();
    let shown = |c: &char| matches!(c, '\n' | '\t') || !is_hidden(*c);
    let mut text = match terminal {
        true => patch.chars().filter(shown).collect(),
        false => patch.to_owned(),
    };
    let unshown = diff["unshown"].as_u64().unwrap_or(0);
    if unshown > 0 || patch.is_empty() {
        text.push_str(&summed(diff));
    }
    if unshown > 0 {
        text.push_str(&format!("… the patches of {unshown} files are too long: name one\n"));
    }
    text
}

fn summed(diff: &Value) -> String {
    let items = diff["items"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |file: &Value| {
        let path = line(file["path"].as_str().unwrap_or_default());
        let from = file["from"].as_str().map(|from| format!("{} → ", line(from)));
        format!("{}{path}", from.unwrap_or_default())
    };
    let width = items.iter().map(|file| name(file).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for file in items {
        let lines = match (file["added"].as_u64(), file["removed"].as_u64()) {
            (Some(added), Some(removed)) => format!("+{added} -{removed}"),
            (_, _) => "no text".to_owned(),
        };
        text.push_str(&format!("{:width$}  {lines}\n", name(file)));
    }
    let dropped = diff["dropped"].as_u64().unwrap_or(0);
    if dropped > 0 {
        text.push_str(&format!("… and {dropped} more files\n"));
    }
    let files = items.len() as u64 + dropped;
    let (added, removed) = (&diff["added"], &diff["removed"]);
    let word = if files == 1 { "file" } else { "files" };
    text.push_str(&format!("{files} {word}, +{added} -{removed}\n"));
    text
}
