//! Values that break the rules of a shape, each in one place.

use baton::shape::{Field, Form, Shape};
use serde_json::{Value, json};

/// A value that is wrong, and the place that must be named.
#[derive(Clone, Debug)]
pub struct Wrong {
    pub value: Value,
    pub field: String,
}

/// Longer than any list or map may be.
const TOO_MANY: usize = 501;

/// Everything that can be wrong with a field. The values around it are as right as a shape can
/// tell.
pub fn wrongs(field: &Field) -> Vec<Wrong> {
    let mut all = of_shape(field.name, &field.shape);
    all.push(Wrong { value: Value::Null, field: field.name.to_owned() });
    all
}

fn of_shape(at: &str, shape: &Shape) -> Vec<Wrong> {
    let here = |value: Value| Wrong { value, field: at.to_owned() };
    let mut all: Vec<Wrong> = strangers(shape).into_iter().map(here).collect();
    match shape {
        Shape::Text { bytes_max, form } => {
            let long = "x".repeat(bytes_max + 1);
            all.extend([json!(""), json!(" \t\n"), json!(long)].map(here));
            all.extend(
                ["a\u{0}b", "a\u{1b}[2Jb", "\u{7f}", "a\u{9b}b"].map(|text| here(json!(text))),
            );
            if *form == Some(Form::LINE) {
                all.extend(["two\nlines", "a\ttab"].map(|text| here(json!(text))));
            } else if form.is_some() {
                all.extend(["no such form!", "ÄÖÜ", "../..", "-"].map(|text| here(json!(text))));
            }
        }
        Shape::Number { min, max, .. } => {
            all.extend([json!(-1), json!(1.5), json!(max + 1), json!(1e300)].map(here));
            all.extend(min.checked_sub(1).map(|less| here(json!(less))));
        }
        Shape::Flag | Shape::Tagged { .. } | Shape::Json => {}
        Shape::Choice(_) => all.extend([json!("nonsense"), json!("")].map(here)),
        Shape::List { of, .. } => {
            all.push(here(json!(vec![right(of); TOO_MANY])));
            let inner = format!("{at}[0]");
            all.extend(
                of_shape(&inner, of)
                    .into_iter()
                    .map(|wrong| Wrong { value: json!([wrong.value]), field: wrong.field }),
            );
            all.push(Wrong { value: json!([null]), field: inner });
        }
        Shape::Map { of, .. } => {
            let many = (0..TOO_MANY).map(|index| (format!("k{index}"), right(of)));
            all.push(here(Value::Object(many.collect())));
            let inner = of_shape(&format!("{at}.name"), of);
            all.extend(
                inner.into_iter().map(|wrong| Wrong {
                    value: json!({ "name": wrong.value }),
                    field: wrong.field,
                }),
            );
        }
        Shape::Record(record) => {
            let mut strange = right(shape);
            strange["nonsense"] = json!(1);
            all.push(Wrong { value: strange, field: format!("{at}.nonsense") });
            for field in &record.fields {
                for wrong in of_shape(&format!("{at}.{}", field.name), &field.shape) {
                    let mut value = right(shape);
                    value[field.name] = wrong.value;
                    all.push(Wrong { value, field: wrong.field });
                }
            }
        }
    }
    all
}

/// Values of every other type.
fn strangers(shape: &Shape) -> Vec<Value> {
    let all = [json!("text"), json!(7), json!(true), json!([]), json!({})];
    let fits = |value: &Value| match shape {
        Shape::Text { .. } | Shape::Choice(_) => value.is_string(),
        Shape::Number { .. } => value.is_number(),
        Shape::Flag => value.is_boolean(),
        Shape::List { .. } => value.is_array(),
        Shape::Map { .. } | Shape::Record(_) | Shape::Tagged { .. } => value.is_object(),
        Shape::Json => true,
    };
    all.into_iter().filter(|value| !fits(value)).collect()
}

/// A value that a shape has nothing against.
pub fn right(shape: &Shape) -> Value {
    match shape {
        Shape::Text { form: Some(form), .. } => json!(form.example),
        Shape::Text { .. } => json!("text"),
        Shape::Number { min, .. } => json!(min),
        Shape::Flag => json!(true),
        Shape::Choice(words) => json!(words[0]),
        Shape::List { .. } => json!([]),
        Shape::Map { .. } | Shape::Json => json!({}),
        Shape::Tagged { tag, words } => json!({ *tag: words[0] }),
        Shape::Record(record) => {
            let required = record.fields.iter().filter(|field| field.required);
            required.map(|field| (field.name.to_owned(), right(&field.shape))).collect()
        }
    }
}
