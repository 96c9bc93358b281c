//! Shapes as JSON schema: portable, without null unions and integer formats, which several agent
//! programs cannot read.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Field, Form, Record, Shape, Span};

/// Records that are described once and referred to.
pub type Definitions = BTreeMap<&'static str, Value>;

/// The whole schema in one piece.
#[must_use]
pub fn inline(shape: &Shape) -> Value {
    schema(shape, &mut None)
}

/// A schema that refers to records by name; they are added to the definitions.
#[must_use]
pub fn referring(shape: &Shape, definitions: &mut Definitions) -> Value {
    let mut named = Some(std::mem::take(definitions));
    let schema = schema(shape, &mut named);
    *definitions = named.unwrap_or_default();
    schema
}

fn schema(shape: &Shape, named: &mut Option<Definitions>) -> Value {
    match shape {
        Shape::Text { bytes_max, form: None } => {
            json!({ "type": "string", "minLength": 1, "maxLength": bytes_max })
        }
        Shape::Text { bytes_max, form: Some(Form::LINE) } => json!({
            "type": "string", "minLength": 1, "maxLength": bytes_max, "pattern": Form::LINE.pattern,
        }),
        Shape::Text { bytes_max, form: Some(form) } => {
            let mut text = json!({
                "type": "string", "maxLength": bytes_max, "pattern": form.pattern,
                "examples": [form.example],
            });
            if let Some(longest) = form.longest {
                // No keyword compares lengths of time.
                text["x-maximum"] = json!(Span(longest).to_string());
            }
            if let Some(usual) = shape.usual() {
                text["default"] = usual;
            }
            text
        }
        Shape::Number { min, max, usual } => {
            let mut number = json!({ "type": "integer", "minimum": min, "maximum": max });
            if let Some(usual) = usual {
                number["default"] = json!(usual);
            }
            number
        }
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Choice(words) => json!({ "type": "string", "enum": words }),
        Shape::List { of, count_max } => {
            json!({ "type": "array", "items": schema(of, named), "maxItems": count_max })
        }
        Shape::Map { names, of, count_max } => json!({
            "type": "object", "propertyNames": schema(names, named),
            "additionalProperties": schema(of, named), "maxProperties": count_max,
        }),
        Shape::Tagged { tag, words } => json!({
            "type": "object", "required": [tag],
            "properties": { *tag: { "type": "string", "enum": words } },
        }),
        Shape::Record(record) => self::record(record, named),
        Shape::Json => json!({}),
    }
}

fn record(record: &Record, named: &mut Option<Definitions>) -> Value {
    let reference = json!({ "$ref": format!("#/components/schemas/{}", record.name) });
    if named.as_ref().is_some_and(|named| named.contains_key(record.name)) {
        return reference;
    }
    let mut properties = Map::new();
    for field in &record.fields {
        properties.insert(field.name.into(), described(field, named));
    }
    let required: Vec<_> =
        record.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut whole = json!({
        "type": "object", "description": record.doc, "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        whole["required"] = json!(required);
    }
    match named {
        None => whole,
        Some(named) => {
            named.insert(record.name, whole);
            reference
        }
    }
}

fn described(field: &Field, named: &mut Option<Definitions>) -> Value {
    let mut inner = schema(&field.shape, named);
    inner["description"] = json!(field.doc);
    inner
}
