//! `baton logs`: what the agent of a task says, once or for as long as it does.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::client::Failure;

use super::arguments::spelled;
use super::asking::{entry, named};
use super::render::clean::line;
use super::{Output, Session, render};

/// What people type.
pub(super) const NAME: &str = "logs";
/// How often whoever follows looks: faster than anybody reads.
const LOOK_EVERY: Duration = Duration::from_millis(700);
/// Lines of one look.
const LINES_MAX: u64 = 500;

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Read what the agent of a task says")
        .after_help(
            "The lines come from the worker while its agent runs, and from what it brought to the server \
             afterwards. $ is a tool, | what it printed, ! a complaint.",
        )
        .arg(Arg::new("run").value_name("TASK").required(true).help("Which task, or which run of it"))
        .arg(
            Arg::new("follow")
                .long("follow")
                .short('f')
                .action(ArgAction::SetTrue)
                .help("Go on until the agent has ended"),
        )
        .arg(
            Arg::new("attempt")
                .long("attempt")
                .value_name("A-128.3")
                .help("Another attempt than the last one"),
        )
        .arg(
            Arg::new("lines")
                .long("lines")
                .short('n')
                .value_name("NUMBER")
                .value_parser(value_parser!(u64).range(1..=LINES_MAX))
                .help("How many of the last lines [default: 100]"),
        )
}

/// Shows the lines, and goes on if that is wanted.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let text = |name: &str| asked.get_one::<String>(name);
    let run = text("run").map(|id| spelled("R-", id)).unwrap_or_default();
    let mut attempt = text("attempt").map(|id| spelled("A-", id));
    let lines = asked.get_one::<u64>("lines").copied();
    let mut after: Option<u64> = None;
    loop {
        let mut arguments = named([("run", run.as_str().into())]);
        arguments.extend(named(attempt.iter().map(|id| ("attempt", id.as_str().into()))));
        match after {
            Some(after) => {
                arguments.extend(named([("after", after.into()), ("limit", LINES_MAX.into())]))
            }
            None => arguments.extend(named(lines.map(|lines| ("limit", lines.into())))),
        }
        let log = session.ask(entry("run", NAME), arguments).await?;
        show(session, &log, after.is_some());
        if !asked.get_flag("follow") || log["live"] != true {
            return Ok(0);
        }
        // Whoever follows one attempt does not go over to the next one unasked.
        attempt = attempt.or_else(|| log["attempt"].as_str().map(str::to_owned));
        after = log["last"].as_u64();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn show(session: &mut Session<'_>, log: &Value, further: bool) {
    if session.globals.quiet {
        return;
    }
    let items = log["items"].as_array().map_or(&[][..], Vec::as_slice);
    let text = match session.globals.output {
        Output::Json => render::json(log),
        Output::JsonLines => render::json_lines(log),
        Output::Text if items.is_empty() && !further => match log["attempt"].as_str() {
            Some(attempt) => format!("nothing of {} is known here\n", line(attempt)),
            None => "nobody has begun\n".to_owned(),
        },
        Output::Text => told(log, items, further),
    };
    session.say(&text);
}

fn told(log: &Value, items: &[Value], further: bool) -> String {
    let mut text = String::new();
    if let Some(dropped) = log["dropped"].as_u64().filter(|dropped| *dropped > 0) {
        let before = if further { "were lost" } else { "before these" };
        text.push_str(&format!("… {dropped} lines {before}\n"));
    }
    for one in items {
        let part = |name: &str| line(one[name].as_str().unwrap_or_default());
        let at = part("at");
        // The day says nothing of what is being said now.
        let clock = at.get(11..19).unwrap_or(&at);
        let mark = match one["voice"].as_str() {
            Some("tool") => "$ ",
            Some("output") => "| ",
            Some("error") => "! ",
            Some(_) | None => "",
        };
        text.push_str(&format!("{clock}  {mark}{}\n", part("text")));
    }
    text
}
