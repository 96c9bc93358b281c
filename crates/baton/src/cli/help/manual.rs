//! All commands as one page for `man`, made from the same tree that reads them.

use clap::{Arg, Command};

use super::super::tree;
use super::{ENVIRONMENT, FILTERS, START, STATES};
use crate::surface;

/// The page, in the language of `man`.
pub(super) fn page() -> String {
    let root = tree::tree();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH BATON 1 \"\" \"baton {version}\" \"Baton\"\n");
    page.push_str(".SH NAME\nbaton \\- makes the work of autonomous agents durable\n");
    page.push_str(".SH SYNOPSIS\n.B baton\n[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR]\n");
    section("BEGINNING", START, &mut page);
    page.push_str(".SH OPTIONS\n");
    options(&root, true, &mut page);
    page.push_str(".SH COMMANDS\n");
    let mut commands: Vec<&Command> =
        root.get_subcommands().filter(|one| !one.is_hide_set()).collect();
    commands.sort_by_key(|one| one.get_name());
    for command in commands {
        told(command, "baton", &mut page);
    }
    section("FILTERS", FILTERS, &mut page);
    section("STATES", STATES, &mut page);
    section("ENVIRONMENT", ENVIRONMENT, &mut page);
    section("EXIT STATUS", &surface::exit_codes(), &mut page);
    page
}

/// A page of text as it is.
fn section(name: &str, text: &str, page: &mut String) {
    page.push_str(&format!(".SH {name}\n.nf\n{}.fi\n", escaped(text)));
}

fn told(command: &Command, above: &str, page: &mut String) {
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    page.push_str(&format!(".SS {}\n{}\n", escaped(&name), escaped(&about)));
    options(command, false, page);
    for inner in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        told(inner, &name, page);
    }
}

/// The flags and arguments of a command; those that every command takes are told once.
fn options(command: &Command, everywhere: bool, page: &mut String) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if arg.is_global_set() == everywhere {
            page.push_str(&format!(".TP\n{}\n{}\n", escaped(&typed(arg)), escaped(&help(arg))));
        }
    }
}

fn typed(arg: &Arg) -> String {
    let value = arg.get_value_names().into_iter().flatten().map(ToString::to_string);
    let value: Vec<_> = value.collect();
    let takes = arg.get_action().takes_values() && !value.is_empty();
    let value = if takes { format!(" {}", value.join(" ")) } else { String::new() };
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, None) => value.trim_start().to_owned(),
    }
}

fn help(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// A text in which nothing is a request to whoever sets it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line that begins with a dot or a quote would be one.
        if line.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        out.push_str(&line);
        out.push('\n');
    }
    let kept = if text.ends_with('\n') { &out[..] } else { out.trim_end_matches('\n') };
    kept.to_owned()
}
