//! From what was typed to the arguments of an operation.

use std::io::Read;

use clap::ArgMatches;
use serde_json::{Map, Value};

use crate::client::Failure;
use crate::operation::Entry;
use crate::problem::Problem;
use crate::server::{BODY_BYTES_MAX, json};
use crate::shape::{Shape, Violation};

/// The longest `--input` that is read: what a server takes.
const INPUT_BYTES_MAX: u64 = BODY_BYTES_MAX as u64;
/// What ids of tasks, runs and attempts begin with.
const KINDS: [&str; 3] = ["T-", "R-", "A-"];

/// What arguments are made of besides the flags of the command itself.
pub(super) struct Around<'a> {
    /// The project that a flag names.
    pub(super) project: Option<&'a str>,
    /// The project that is meant where none is named.
    pub(super) usual_project: Option<&'a str>,
    /// Whether a claim token says which run is meant.
    pub(super) has_token: bool,
    /// What an everyday command says by itself.
    pub(super) fixed: &'a [(&'static str, &'static str)],
}

/// The arguments: what the input says, then the flags, then what goes without saying.
pub(super) fn arguments(
    entry: &Entry,
    matches: &ArgMatches,
    around: &Around<'_>,
    input: Option<Map<String, Value>>,
) -> Result<Map<String, Value>, Failure> {
    let mut arguments = input.unwrap_or_default();
    let elsewhere = names_its_project(entry, matches, &arguments);
    for field in entry.arguments.fields() {
        let typed = matches.try_get_raw(field.name).ok().flatten();
        let texts: Option<Vec<&str>> =
            typed.map(|raw| raw.filter_map(|text| text.to_str()).collect());
        let fixed = around.fixed.iter().find(|(name, _)| *name == field.name);
        let said = match (texts, fixed, field.name) {
            (Some(texts), _, _) => Some(texts),
            (None, Some((_, text)), _) => Some(vec![*text]),
            (None, None, "project") => {
                let unsaid = !arguments.contains_key("project");
                let usual =
                    around.usual_project.filter(|_| unsaid && (field.required || !elsewhere));
                around.project.or(usual).map(|project| vec![project])
            }
            (None, None, "run") if !arguments.contains_key("run") && around.has_token => {
                entry.about.placeholders().any(|name| name == "run").then(|| vec!["mine"])
            }
            (None, None, _) => None,
        };
        if let Some(texts) = said {
            let texts: Vec<_> = texts.iter().map(|text| as_written(&field.shape, text)).collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let value = field.shape.read(field.name, &texts);
            let value = value.map_err(|violation| Problem::invalid(vec![violation]))?;
            arguments.insert(field.name.to_owned(), value);
        }
        if field.name == "project" && field.required && !arguments.contains_key("project") {
            let rule = "is missing: say -P PROJECT, or set BATON_PROJECT".to_owned();
            let violation = Violation { field: "project".to_owned(), rule };
            return Err(Problem::invalid(vec![violation]).next("baton project list").into());
        }
    }
    Ok(arguments)
}

/// A value as it is written, from how people type it.
fn as_written(shape: &Shape, text: &str) -> String {
    match shape {
        Shape::Text { form: Some(form), .. } => {
            let kind = form.example.get(..2).filter(|kind| KINDS.contains(kind));
            kind.map_or_else(|| text.to_owned(), |kind| spelled(kind, text))
        }
        Shape::List { of, .. } => as_written(of, text),
        Shape::Text { form: None, .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => text.to_owned(),
    }
}

/// An id in its one spelling: `128` and `t-128` are `T-128`; `128.2` is `R-128.2` where a run is
/// meant, and `A-128.2` where an attempt is.
pub(super) fn spelled(kind: &str, text: &str) -> String {
    let said = KINDS
        .iter()
        .find(|kind| text.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case(kind)));
    let rest = said.map_or(text, |_| &text[2..]);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<_> = rest.split('.').collect();
    let kind = match (said, &parts[..]) {
        (Some(said), _) if parts.iter().all(|part| digits(part)) => *said,
        (None, [task]) if digits(task) => "T-",
        (None, [task, number]) if kind != "T-" && digits(task) && digits(number) => kind,
        _ => return text.to_owned(),
    };
    format!("{kind}{rest}")
}

/// Whether the project follows from something else that was said, or none means all of them: a task
/// has one of its own, and a pause without a project is one of everything.
fn names_its_project(entry: &Entry, matches: &ArgMatches, input: &Map<String, Value>) -> bool {
    let said = |name: &str| {
        input.contains_key(name) || matches.try_get_raw(name).is_ok_and(|raw| raw.is_some())
    };
    entry.about.noun == "scheduler" || said("task") || said("parent")
}

/// Reads `--input`: an object of JSON from a file or from stdin.
pub(super) fn input(
    asked: Option<&String>,
    no_input: bool,
) -> Result<Option<Map<String, Value>>, Failure> {
    use std::io::IsTerminal as _;
    let Some(name) = asked else { return Ok(None) };
    if name == "-" {
        let stdin = std::io::stdin();
        if no_input && stdin.is_terminal() {
            let detail = "`--input -` waits for somebody to type, and --no-input forbids it";
            return Err(Problem::new("malformed", detail).into());
        }
        return object(stdin.lock()).map(Some);
    }
    let file = std::fs::File::open(name).map_err(|error| {
        Failure::from(Problem::new("malformed", format!("{name} cannot be read: {error}")))
    })?;
    object(file).map(Some)
}

fn object(source: impl Read) -> Result<Map<String, Value>, Failure> {
    let refuse = |detail: String| Failure::from(Problem::new("malformed", detail));
    let mut text = String::new();
    let read = source.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| refuse(format!("the input cannot be read: {error}")))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let most = INPUT_BYTES_MAX >> 10;
        return Err(refuse(format!("the input is longer than {most} KiB, the most that is taken")));
    }
    // As the server reads it: of a key that stands twice, none is silently the one that counts.
    match json::read(text.as_bytes()) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(refuse("the input must be an object of JSON, like {\"title\": \"…\"}".into())),
        Err(problem) => Err(problem.into()),
    }
}
