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
}

/// Members that every answer has and that tell people nothing.
const AROUND: [&str; 2] = ["as_of", "at"];

/// An answer as people read it.
pub(super) fn answer(body: &Value, shape: &Shape, columns: &[&str], look: Look) -> String {
    let cells = Cells { look };
    match (body.get("items").and_then(Value::as_array), shape.field("items")) {
        (Some(items), Some(field)) => {
            let of = match &field.shape {
                Shape::List { of, .. } => of,
                Shape::Text { .. }
                | Shape::Number { .. }
                | Shape::Flag
                | Shape::Choice(_)
                | Shape::Map { .. }
                | Shape::Record(_)
                | Shape::Json => &field.shape,
            };
            list(body, items, of, columns, &cells)
        }
        (Some(_) | None, _) => single(body, shape, columns, &cells),
    }
}

fn list(body: &Value, items: &[Value], of: &Shape, columns: &[&str], cells: &Cells) -> String {
    if items.is_empty() {
        return "nothing\n".to_owned();
    }
    let shown: Vec<_> = columns.iter().filter(|name| of.field(name).is_some()).copied().collect();
    let head = shown.iter().map(|name| name.to_uppercase().replace('_', " ")).collect();
    let row = |item: &Value| {
        let cell =
            |name: &&str| cells.short(&item[*name], of.field(name).map(|field| &field.shape));
        shown.iter().map(cell).collect()
    };
    let rows = items.iter().map(row).collect();
    let mut text = table::table(head, rows);
    if let Some(next) = body["next"].as_str() {
        text.push_str(&format!("… there are more: --after {}\n", line(next)));
    } else if body["more"] == true {
        text.push_str("… there are more\n");
    }
    text
}

fn single(body: &Value, shape: &Shape, columns: &[&str], cells: &Cells) -> String {
    let mut fields: Vec<(String, String)> = vec![];
    for name in columns {
        if let Some(value) = body.get(*name) {
            let inner = shape.field(name).map(|field| &field.shape);
            fields.push(((*name).to_owned(), cells.short(value, inner)));
        }
    }
    let rest = shape.fields().iter().filter(|field| !columns.contains(&field.name));
    for field in rest {
        if let Some(value) = body.get(field.name) {
            cells.long(field.name, value, &field.shape, &mut fields);
        }
    }
    // Secrets are said around the answer, not in it; a newer server may say more than we know.
    for (name, value) in body.as_object().into_iter().flatten() {
        if shape.field(name).is_none() && !AROUND.contains(&name.as_str()) {
            fields.push((line(name), cells.short(value, None)));
        }
    }
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
