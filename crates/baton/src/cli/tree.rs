//! The command tree, built from the table of operations: a noun, then a verb, then its arguments.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, value_parser};

use crate::aliases::{ALIASES, Alias, Extra};
use crate::operation::{Declaration, Entry};
use crate::operations;
use crate::shape::{Field, Form, Shape};

use super::globals::{self, LONG};
use super::{
    background, board, config, cost, diff, help, logs, merge, open, receipts, setup, take,
    uninstall, upkeep, wait, work,
};

/// How many verbs of a noun stand in the list of all commands: as many as fit in a line.
const VERBS_SHOWN_MAX: usize = 7;
/// Words of the filter language.
pub(super) const FILTER: &str = "@filter";
/// That a task is begun at once.
pub(super) const GO: &str = "@go";
/// What somebody who knows nothing yet should do.
const BEGIN: &str = "\
To begin: baton serve, then in another terminal baton project add NAME and baton add \"…\" -P NAME.
Without a command: what needs you, and what to do next.";

/// Everything that can be asked for.
pub(super) fn tree() -> Command {
    let mut root = Command::new("baton")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Makes the work of autonomous agents durable.")
        .after_help(BEGIN)
        .infer_subcommands(false)
        .disable_help_subcommand(true)
        .infer_long_args(false)
        .args(globals::arguments());
    for alias in ALIASES {
        if let Some(entry) = alias.entry() {
            root = root.subcommand(everyday(alias, entry));
        }
    }
    for noun in nouns() {
        // An everyday command may have the name of a noun: then it takes the noun's verbs, too.
        let existing = root.find_subcommand(noun).cloned();
        let verbs = operations::all().iter().filter(|entry| entry.about.noun == noun);
        let words: Vec<_> = verbs.clone().map(|entry| entry.about.verb).collect();
        let shown = words.get(..VERBS_SHOWN_MAX).unwrap_or(&words);
        let more = if shown.len() < words.len() { ", …" } else { "" };
        let about = format!("{}{more}", shown.join(", "));
        let command = match existing {
            Some(command) => {
                command.args_conflicts_with_subcommands(true).subcommand_negates_reqs(true)
            }
            None => Command::new(noun)
                .about(about)
                .arg_required_else_help(true)
                .subcommand_required(true),
        };
        let command = command.disable_help_subcommand(true).subcommands(verbs.map(verb));
        root = match root.find_subcommand(noun) {
            Some(_) => root.mut_subcommand(noun, |_| command),
            None => root.subcommand(command),
        };
    }
    let root = root.mut_subcommand("receipt", |receipt| receipt.subcommands(receipts::commands()));
    let by_hand = [
        logs::command(),
        diff::command(),
        board::command(),
        cost::command(),
        merge::command(),
        take::command(),
        config::command(),
        uninstall::command(),
        help::command(),
    ];
    let root = by_hand.into_iter().fold(root, Command::subcommand);
    let root = root.subcommand(open::command()).subcommand(wait::command());
    let root = root.subcommand(work::command());
    let root = background::commands().into_iter().fold(root, Command::subcommand);
    let root = setup::commands().into_iter().fold(root, Command::subcommand);
    upkeep::commands().into_iter().fold(root, Command::subcommand)
}

/// The command that was typed, as far as there is one.
pub(super) fn path_of(arguments: &[OsString]) -> String {
    let root = tree();
    let (mut command, mut path) = (&root, vec!["baton"]);
    for word in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        if let Some(inner) = command.find_subcommand(word) {
            path.push(inner.get_name());
            command = inner;
        }
    }
    path.join(" ")
}

/// The nouns of the table, each once.
fn nouns() -> Vec<&'static str> {
    let mut nouns = vec![];
    for entry in operations::all() {
        if !nouns.contains(&entry.about.noun) {
            nouns.push(entry.about.noun);
        }
    }
    nouns
}

fn verb(entry: &'static Entry) -> Command {
    let positionals: Vec<_> = entry.about.placeholders().collect();
    Command::new(entry.about.verb).about(entry.about.summary).args(arguments(
        entry,
        &positionals,
        &[],
    ))
}

fn everyday(alias: &'static Alias, entry: &'static Entry) -> Command {
    let fixed: Vec<_> = alias.fixed.iter().map(|(name, _)| *name).collect();
    let command = Command::new(alias.name)
        .about(alias.summary)
        .after_help(format!("Short for: baton {} {}", entry.about.noun, entry.about.verb))
        .args(arguments(entry, alias.positionals, &fixed));
    match alias.extra {
        Extra::Nothing => command,
        Extra::Filter => command.arg(
            Arg::new(FILTER).value_name("FILTER").num_args(0..).help(
                "Words like is:blocked stage:qa label:api agent:ada; all others are looked for in texts",
            ),
        ),
        Extra::Go => command.arg(
            Arg::new(GO)
                .long("go")
                .action(ArgAction::SetTrue)
                .help("Begin at once, and tell how it goes until nothing more happens by itself"),
        ),
    }
}

fn arguments(entry: &'static Entry, positionals: &[&str], fixed: &[&str]) -> Vec<Arg> {
    let fields = entry.arguments.fields();
    let mut arguments: Vec<_> = positionals
        .iter()
        .filter_map(|name| fields.iter().find(|field| field.name == *name))
        // What stands before another one cannot be left out.
        .map(|field| positional(&entry.about, field, positionals.last() == Some(&field.name)))
        .collect();
    let options = fields.iter().filter(|field| {
        // The flag that every command takes serves it.
        let everywhere = field.name == "project";
        !positionals.contains(&field.name) && !fixed.contains(&field.name) && !everywhere
    });
    arguments.extend(options.map(|field| option(&entry.about, field)));
    if !fields.is_empty() {
        let help = "All arguments as JSON, from a file or from stdin (-); flags win";
        arguments.push(Arg::new("@input").long("input").value_name("FILE|-").help(help));
    }
    arguments
}

/// A run need not be named by whoever shows a claim token: it is theirs.
fn is_needed(about: &Declaration, field: &Field) -> bool {
    let is_run = field.name == "run" && about.placeholders().any(|name| name == "run");
    field.required && !is_run
}

fn positional(about: &Declaration, field: &'static Field, last: bool) -> Arg {
    let shown = field.name.to_uppercase().replace('_', "-");
    let argument = Arg::new(field.name).value_name(shown).help(help(field));
    let argument = if is_needed(about, field) || !last {
        argument.required_unless_present("@input")
    } else {
        argument
    };
    match &field.shape {
        Shape::List { of, .. } => typed(argument, of).num_args(1..).action(ArgAction::Append),
        Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => typed(argument, &field.shape),
    }
}

fn option(about: &Declaration, field: &'static Field) -> Arg {
    let long = long_of(field.name);
    let argument = Arg::new(field.name).long(long).help(help(field));
    let argument =
        if is_needed(about, field) { argument.required_unless_present("@input") } else { argument };
    let argument = argument.value_name(value_name(&field.shape));
    match &field.shape {
        Shape::Flag => argument
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true)
            .value_parser(value_parser!(bool)),
        Shape::List { of, .. } => typed(argument, of).action(ArgAction::Append),
        // A text may begin with a dash, like the item of a list.
        Shape::Text { form: None | Some(Form::LINE), .. } => argument.allow_hyphen_values(true),
        Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Choice(_)
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => typed(argument, &field.shape),
    }
}

/// What an argument is called as a flag. A few names are taken by the flags of every command.
pub(super) fn long_of(name: &str) -> String {
    let long = name.replace('_', "-");
    if LONG.contains(&long.as_str()) { format!("with-{long}") } else { long }
}

fn typed(argument: Arg, shape: &Shape) -> Arg {
    match shape {
        Shape::Choice(words) => argument.value_parser(PossibleValuesParser::new(*words)),
        Shape::Number { min, max, .. } => {
            argument.value_parser(value_parser!(u64).range(*min..=*max))
        }
        Shape::Flag => argument.value_parser(value_parser!(bool)),
        Shape::Text { .. }
        | Shape::List { .. }
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => argument,
    }
}

fn value_name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Text { form: Some(form), .. } if *form == Form::LINE => "TEXT",
        Shape::Text { form: Some(form), .. } if form.example.len() <= 24 => form.example,
        Shape::Text { .. } => "TEXT",
        Shape::Number { .. } => "NUMBER",
        Shape::Flag => "BOOL",
        Shape::Choice(_) => "WORD",
        Shape::List { of, .. } => value_name(of),
        Shape::Map { .. } | Shape::Record(_) | Shape::Tagged { .. } | Shape::Json => "JSON",
    }
}

fn help(field: &Field) -> String {
    let once = field.doc.trim_end_matches('.').to_owned();
    match &field.shape {
        Shape::List { .. } => format!("{once} (may be given several times)"),
        Shape::Number { usual: Some(usual), .. } => format!("{once} [default: {usual}]"),
        Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => once,
    }
}
