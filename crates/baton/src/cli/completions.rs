//! Completions: small scripts that ask the program itself, so that they never fall behind it.

use std::time::Duration;

use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Map, Value};

use crate::client::Failure;
use crate::operations;

use super::Session;
use super::render::clean::line;

/// A shell waits for this while somebody types: late words are worse than none.
const ANSWER_MAX: Duration = Duration::from_millis(400);
/// More words than this help nobody.
const WORDS_MAX: usize = 200;

const BASH: &str = include_str!("completions/baton.bash");
const ZSH: &str = include_str!("completions/baton.zsh");
const FISH: &str = include_str!("completions/baton.fish");

/// `completions SHELL`.
pub(super) fn command() -> Command {
    Command::new("completions")
        .about("Print the completions of a shell")
        .after_help("Bash: source <(baton completions bash)")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .help("For which shell")
                .value_parser(["bash", "zsh", "fish"]),
        )
}

/// What the scripts call back.
pub(super) fn words_command() -> Command {
    Command::new("complete-words")
        .hide(true)
        .arg(Arg::new("at").long("at").required(true).value_parser(value_parser!(usize)))
        .arg(Arg::new("words").num_args(0..).last(true))
}

/// Prints a script.
pub(super) fn print(session: &mut Session<'_>, asked: &ArgMatches) -> u8 {
    let script = match asked.get_one::<String>("shell").map(String::as_str) {
        Some("zsh") => ZSH,
        Some("fish") => FISH,
        Some(_) | None => BASH,
    };
    session.say(script);
    0
}

/// Prints the words that could stand at a place of a line. It never fails, and never says why.
pub(super) async fn words(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let typed: Vec<&str> =
        asked.get_many::<String>("words").into_iter().flatten().map(String::as_str).collect();
    let at = asked.get_one("at").copied().unwrap_or(0);
    let current = typed.get(at).copied().unwrap_or_default();
    let before = typed.get(1..at.min(typed.len())).unwrap_or_default();
    let root = built();
    let mut words = match wanted(&root, before, current) {
        Wanted::Words(words) => words,
        Wanted::Values(words, None) => words,
        Wanted::Values(mut words, Some(live)) => {
            let asking = tokio::time::timeout(ANSWER_MAX, live_words(session, live));
            words.extend(asking.await.unwrap_or_default());
            words
        }
    };
    words.retain(|word| word.starts_with(current));
    words.sort();
    words.dedup();
    for word in words.iter().take(WORDS_MAX) {
        session.say(&format!("{}\n", line(word)));
    }
    Ok(0)
}

fn built() -> Command {
    let mut root = super::tree::tree();
    root.build();
    root
}

/// What could stand at a place.
enum Wanted {
    /// One of these.
    Words(Vec<String>),
    /// One of these, or of what the server knows.
    Values(Vec<String>, Option<Live>),
}

/// What only the server knows.
#[derive(Clone, Copy)]
enum Live {
    Tasks,
    Projects,
    Stages,
}

fn wanted(root: &Command, before: &[&str], current: &str) -> Wanted {
    let mut command = root;
    let mut pending: Option<&Arg> = None;
    let mut positionals = 0;
    for word in before {
        if pending.take().is_some() {
            continue;
        }
        if let Some(flag) = flag(command, word) {
            pending = takes_value(flag).then_some(flag);
        } else if !word.starts_with('-') {
            match command.find_subcommand(word) {
                Some(inner) => {
                    command = inner;
                    positionals = 0;
                }
                None => positionals += 1,
            }
        }
    }
    if let Some(argument) = pending {
        return values(argument);
    }
    if current.starts_with('-') {
        let longs = command.get_arguments().filter(|one| !one.is_hide_set());
        let longs = longs.filter_map(|one| one.get_long().map(|long| format!("--{long}")));
        return Wanted::Words(longs.collect());
    }
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let mut names: Vec<_> = inner.map(|inner| inner.get_name().to_owned()).collect();
    match command.get_positionals().nth(positionals) {
        None => Wanted::Words(names),
        Some(argument) => match values(argument) {
            Wanted::Words(words) => Wanted::Words(words),
            Wanted::Values(words, live) => {
                names.extend(words);
                Wanted::Values(names, live)
            }
        },
    }
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').and_then(|rest| {
        let mut letters = rest.chars();
        letters.next().filter(|_| letters.next().is_none())
    });
    command.get_arguments().find(|one| match (long, short) {
        (Some(long), _) => one.get_long() == Some(long),
        (None, Some(short)) => one.get_short() == Some(short),
        (None, None) => false,
    })
}

fn takes_value(argument: &Arg) -> bool {
    let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    takes && !argument.is_require_equals_set()
}

fn values(argument: &Arg) -> Wanted {
    let known = argument.get_possible_values();
    let known = known.iter().map(|value| value.get_name().to_owned()).collect();
    let shown = argument.get_value_names().and_then(|names| names.first());
    let live = match (argument.get_id().as_str(), shown.map(|name| name.as_str())) {
        ("project" | "@project", _) => Some(Live::Projects),
        ("stage", _) => Some(Live::Stages),
        ("task" | "run" | "on", _) | (_, Some("T-128" | "R-128.2")) => Some(Live::Tasks),
        (_, _) => None,
    };
    Wanted::Values(known, live)
}

async fn live_words(session: &Session<'_>, live: Live) -> Vec<String> {
    let noun = match live {
        Live::Tasks => "task",
        Live::Projects | Live::Stages => "project",
    };
    let Some(entry) = operations::find(noun, "list") else { return vec![] };
    let Ok(body) = session.ask(entry, Map::new()).await else { return vec![] };
    let items = body["items"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match live {
        Live::Tasks | Live::Projects => items.iter().filter_map(|one| text(&one["id"])).collect(),
        Live::Stages => {
            let stages = items.iter().filter_map(|one| one["stages"].as_array()).flatten();
            stages.filter_map(|stage| text(&stage["name"])).collect()
        }
    }
}
