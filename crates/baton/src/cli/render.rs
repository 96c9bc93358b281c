//! Answers for people: lists as tables, single things as lines of fields. Nothing that came from
//! elsewhere reaches a terminal with control characters in it.

use baton_domain::time::Timestamp;
use serde_json::Value;

use crate::shape::Shape;

pub(super) mod clean;
mod table;
mod value;

use clean::{line, lines};
use value::Cells;

/// How to show things.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Whether states have colours.
    pub(super) color: bool,
    /// What times are told from.
    pub(super) now: Timestamp,
    /// Whether what is as usual is shown, too.
    pub(super) all: bool,
}

/// Members that every answer has and that tell people nothing.
const AROUND: [&str; 2] = ["as_of", "at"];

/// How much of a single thing is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Everything: it was asked for.
    Whole,
    /// What tells that it was done.
    Columns,
}

/// An answer as people read it.
pub(super) fn answer(
    body: &Value,
    shape: &Shape,
    columns: &[&str],
    depth: Depth,
    look: Look,
) -> String {
    let cells = Cells { look };
    let Some((name, of)) = listed(shape, columns) else {
        return single(body, shape, columns, depth, &cells);
    };
    let around = shape.fields().iter().filter(|field| {
        field.name != name
            && !["next", "more"].contains(&field.name)
            && body.get(field.name).is_some_and(|value| !is_whole(field.name, value))
    });
    let mut fields = vec![];
    for field in around {
        cells.long(field.name, &body[field.name], &field.shape, &mut fields);
    }
    let mut text = written(fields);
    if !text.is_empty() {
        text.push('\n');
    }
    let items = body[name].as_array().map_or(&[][..], Vec::as_slice);
    text.push_str(&list(body, items, of, columns, &cells));
    text
}

/// The list that the columns are of, if they are not of the answer itself.
fn listed<'a>(shape: &'a Shape, columns: &[&str]) -> Option<(&'static str, &'a Shape)> {
    let has_all = |shape: &Shape| columns.iter().any(|name| shape.field(name).is_some());
    shape.fields().iter().find_map(|field| match &field.shape {
        Shape::List { of, .. } if has_all(of) && (field.name == "items" || !has_all(shape)) => {
            Some((field.name, &**of))
        }
        Shape::List { .. }
        | Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => None,
    })
}

fn list(body: &Value, items: &[Value], of: &Shape, columns: &[&str], cells: &Cells) -> String {
    if items.is_empty() {
        return "nothing\n".to_owned();
    }
    let shown: Vec<_> = columns.iter().filter(|name| of.field(name).is_some()).copied().collect();
    let head = shown.iter().map(|name| name.to_uppercase().replace('_', " ")).collect();
    let row = |item: &Value| {
        let shape = |name: &&str| of.field(name).map(|field| &field.shape);
        shown.iter().map(|name| cells.short(&item[*name], shape(name))).collect()
    };
    let mut text = table::table(head, items.iter().map(row).collect());
    if let Some(next) = body["next"].as_str() {
        text.push_str(&format!("… there are more: --after {}\n", line(next)));
    } else if body["more"] == true {
        text.push_str("… there are more\n");
    }
    text
}

fn single(body: &Value, shape: &Shape, columns: &[&str], depth: Depth, cells: &Cells) -> String {
    let mut first: Vec<(String, String)> = vec![];
    for name in columns {
        match (body.get(*name), shape.field(name)) {
            (Some(value), Some(field)) if depth == Depth::Whole => {
                cells.long(name, value, &field.shape, &mut first);
            }
            (Some(value), field) => {
                let inner = field.map(|field| &field.shape);
                first.push(((*name).to_owned(), cells.short(value, inner)));
            }
            (None, _) => {}
        }
    }
    // Secrets are said around the answer, not in it; a newer server may say more than we know.
    let mut beside = vec![];
    for (name, value) in body.as_object().into_iter().flatten() {
        if shape.field(name).is_none() && !AROUND.contains(&name.as_str()) {
            beside.push((line(name), cells.short(value, None)));
        }
    }
    // A thing that is one text is read as that text.
    if let ([name], Depth::Whole, true) = (columns, depth, beside.is_empty())
        && let Some(text) = body[*name].as_str()
    {
        return format!("{}\n", lines(text).trim_end());
    }
    match depth {
        Depth::Columns if beside.is_empty() => {
            let told = first.into_iter().map(|(name, value)| told(&name, &value, &body[&*name]));
            format!("{}\n", told.collect::<Vec<_>>().join("  ").trim_end())
        }
        Depth::Columns => written(first.into_iter().chain(beside).collect()),
        Depth::Whole => {
            let rest = shape.fields().iter().filter(|field| !columns.contains(&field.name));
            let mut inner = vec![];
            let told = |name: &str| body.get(name).is_some_and(|value| !is_whole(name, value));
            for field in rest.filter(|field| told(field.name)) {
                // What has parts comes after what has none.
                let has_parts = matches!(field.shape, Shape::Record(_));
                let into = if has_parts { &mut inner } else { &mut first };
                cells.long(field.name, &body[field.name], &field.shape, into);
            }
            written(first.into_iter().chain(inner).chain(beside).collect())
        }
    }
}

/// Whether it only says that nothing was left out.
fn is_whole(name: &str, value: &Value) -> bool {
    let counts = name == "more" || name == "dropped" || name.ends_with("_dropped");
    counts && (*value == false || *value == 0)
}

/// A value in a line without a head. What a word means is clear from the word; a number, a yes and
/// the reason of a pause need their name.
fn told(name: &str, shown: &str, value: &Value) -> String {
    let name = name.replace('_', " ");
    match value {
        Value::Bool(true) => name,
        Value::Bool(false) => format!("not {name}"),
        Value::Number(_) => format!("{name} {shown}"),
        Value::Object(map) if !map.contains_key("id") => format!("{name}: {shown}"),
        Value::Object(_) | Value::String(_) | Value::Array(_) | Value::Null => shown.to_owned(),
    }
}

/// Fields under one another, their values in one column.
fn written(fields: Vec<(String, String)>) -> String {
    let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields {
        let mut rest = value.lines();
        let first = rest.next().unwrap_or_default();
        text.push_str(format!("{name:width$}  {first}").trim_end());
        text.push('\n');
        for more in rest {
            text.push_str(format!("{:width$}  {more}", "").trim_end());
            text.push('\n');
        }
    }
    text
}

/// Why there is no answer: what, why, what next.
pub(super) fn failure(body: &Value) -> String {
    let part = |name: &str| body[name].as_str().map(lines);
    let what = part("title").unwrap_or_else(|| "Something broke".to_owned());
    let mut text = format!("error: {what}\n");
    if let Some(why) = part("detail") {
        text.push_str(&format!("  why: {}\n", why.replace('\n', "\n       ")));
    }
    let errors = body["errors"].as_array().map_or(&[][..], Vec::as_slice);
    // The first one is in the detail already.
    for error in errors.iter().skip(1) {
        let part = |name: &str| line(error[name].as_str().unwrap_or_default());
        text.push_str(&format!("       `{}` {}\n", part("field"), part("rule")));
    }
    for open in body["missing"].as_array().into_iter().flatten() {
        let part = |name: &str| open[name].as_str().map(line);
        let path = part("path").map_or(String::new(), |path| format!(" ({path})"));
        let (name, code) = (part("line").unwrap_or_default(), part("code").unwrap_or_default());
        text.push_str(&format!("       {name}: {code}{path}\n"));
    }
    let mut label = "next:";
    for next in body["next"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text.push_str(&format!("  {label} {}\n", line(next)));
        label = "     ";
    }
    text
}

/// JSON on one line, in which nothing can steer a terminal.
pub(super) fn json(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        // Outside of texts there are only plain characters, so what is hidden stands in a text.
        if clean::is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    text
}

/// One line per item of a list; anything else is one line.
pub(super) fn json_lines(body: &Value) -> String {
    match body.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().map(json).collect(),
        None => json(body),
    }
}
