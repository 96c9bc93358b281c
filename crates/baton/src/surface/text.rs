//! `surface.txt`: everything that can be asked, on one page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::operation::Entry;
use crate::operations;
use crate::shape::{Field, Form, Record, Shape, Span};
use crate::{aliases, mcp};

use super::{COMMANDS, HANDWRITTEN, secrets_of};

/// How wide the names of fields are printed.
const NAME_WIDTH: usize = 16;

/// Everything that can be asked, as a reviewer reads it.
#[must_use]
pub fn text() -> String {
    let mut page = String::from(
        "Everything that can be asked of Baton. Generated from the table of operations; ./check\n\
         bless rewrites it. A star marks what must be given.\n",
    );
    let mut records = BTreeMap::new();
    for entry in operations::all() {
        operation(&mut page, entry);
        for field in entry.arguments.fields() {
            collect(&field.shape, &mut records);
        }
        collect(&entry.answer, &mut records);
    }
    page.push_str("\nBESIDES THE TABLE\n\n");
    for route in HANDWRITTEN {
        let (method, path) = (route.method.word(), route.path);
        let (kind, needs) = (route.kind, route.needs.words());
        line(&mut page, &format!("{method} {path} ({kind}, {needs}): {}", route.summary));
    }
    tools(&mut page);
    page.push_str("\nEVERYDAY COMMANDS\n\n");
    for (typed, stands_for) in aliases::aliases() {
        line(&mut page, &format!("baton {typed}: {stands_for}"));
    }
    page.push_str("\nCOMMANDS BESIDE THE TABLE\n\n");
    for (typed, summary) in COMMANDS {
        line(&mut page, &format!("baton {typed}: {summary}"));
    }
    page.push_str("\nRECORDS\n");
    for record in records.values() {
        line(&mut page, &format!("\n{}: {}", record.name, record.doc));
        for field in &record.fields {
            line(&mut page, &described(field));
        }
        for (name, doc) in secrets_of(record.name) {
            line(&mut page, &format!("  {name:NAME_WIDTH$} secret beside it. {doc}"));
        }
    }
    page
}

/// What agents are offered over MCP. A star marks what a program should never hide.
fn tools(page: &mut String) {
    let (of_run, rest): (Vec<_>, Vec<_>) =
        mcp::listing().into_iter().partition(|(_, of_run, _)| *of_run);
    page.push_str("\nTOOLS OVER MCP: baton mcp and POST, GET, DELETE /mcp (any key)\n\n");
    for (name, _, always) in of_run {
        line(page, &format!("{name}{}", if always { "*" } else { "" }));
    }
    let rest: Vec<_> = rest.into_iter().map(|(name, ..)| name).collect();
    line(page, &format!("with --toolset all, too: {}", rest.join(", ")));
}

fn line(page: &mut String, line: &str) {
    page.push_str(line.trim_end());
    page.push('\n');
}

fn operation(page: &mut String, entry: &Entry) {
    let about = &entry.about;
    let hints = about.hints.words().join(", ");
    let hints = if hints.is_empty() { "adds" } else { &hints };
    let answer = word(&entry.answer);
    write!(
        page,
        "\n{} {}: {}\n  {} {} -> {} {answer}\n  {} by {}; {hints}\n",
        about.noun,
        about.verb,
        about.summary,
        about.method.word(),
        about.path,
        about.success(),
        about.needs(),
        about.audience.word(),
    )
    .expect("a text takes what it is given");
    if entry.is_followed() {
        line(
            page,
            "  followed as text/event-stream: the same, and then what happens next; Last-Event-ID goes on",
        );
    }
    for field in entry.arguments.fields() {
        line(page, &described(field));
    }
}

fn described(field: &Field) -> String {
    let name = format!("{}{}", field.name, if field.required { "*" } else { "" });
    format!("  {name:NAME_WIDTH$} {}. {}", word(&field.shape), field.doc)
}

/// What a value looks like, in a few words.
fn word(shape: &Shape) -> String {
    match shape {
        Shape::Text { bytes_max, form: None } => format!("text<={bytes_max}"),
        Shape::Text { bytes_max, form: Some(form) } if *form == Form::LINE => {
            format!("line<={bytes_max}")
        }
        Shape::Text { form: Some(form), .. } => {
            let longest = form.longest.map(|longest| format!("<={}", Span(longest)));
            let usual = form.usual.map(|usual| format!(", else {}", Span(usual)));
            let (longest, usual) = (longest.unwrap_or_default(), usual.unwrap_or_default());
            format!("like {}{longest}{usual}", form.example)
        }
        Shape::Number { min, max, usual: None } => format!("{min}..{max}"),
        Shape::Number { min, max, usual: Some(usual) } => format!("{min}..{max}, else {usual}"),
        Shape::Flag => "true|false".to_owned(),
        Shape::Choice(words) => words.join("|"),
        Shape::List { of, count_max } => format!("[{}]<={count_max}", word(of)),
        Shape::Map { names, of, count_max } => {
            format!("{{{}: {}}}<={count_max}", word(names), word(of))
        }
        Shape::Tagged { tag, words } => format!("{{{tag}: {}, …}}", words.join("|")),
        Shape::Record(record) => record.name.to_owned(),
        Shape::Json => "json".to_owned(),
    }
}

/// Every record inside, under its name.
pub(super) fn collect(shape: &Shape, records: &mut BTreeMap<&'static str, Record>) {
    match shape {
        Shape::Record(record) => {
            records.insert(record.name, record.clone());
            for field in &record.fields {
                collect(&field.shape, records);
            }
        }
        Shape::List { of, .. } | Shape::Map { of, .. } => collect(of, records),
        Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Tagged { .. }
        | Shape::Json => {}
    }
}
