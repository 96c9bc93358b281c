//! `openapi.json`: OpenAPI 3.1 from the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::operation::{Entry, Method, REDACTED};
use crate::operations;
use crate::problem::CODES;
use crate::shape::{Definitions, Field, Position, Shape, Shaped, When, inline, referring};

use super::{HANDWRITTEN, Needs, Route, secrets_of};

/// The description of REST for programs; the table does not change while the program runs.
static OPENAPI: LazyLock<Value> = LazyLock::new(described);

/// The description of REST for programs.
#[must_use]
pub fn openapi() -> &'static Value {
    &OPENAPI
}

fn described() -> Value {
    let mut schemas = Definitions::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut answers = Map::new();
    for entry in operations::all() {
        let described = operation(entry, &mut schemas, &mut answers);
        let method = entry.about.method.word().to_lowercase();
        paths.entry(entry.about.path).or_default().insert(method, described);
    }
    for route in HANDWRITTEN {
        let method = route.method.word().to_lowercase();
        paths.entry(route.path).or_default().insert(method, handwritten(route));
    }
    let mut all: Map<String, Value> =
        schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    all.extend(answers);
    all.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Makes the work of autonomous agents durable: leases, checkpoints, \
                            hand-off, proof. A request that was not answered may be repeated \
                            with the same Idempotency-Key.",
        },
        "security": [{ "bearerAuth": [] }],
        "paths": paths,
        "components": {
            "schemas": all,
            "parameters": parameters(),
            "responses": refusals(),
            "securitySchemes": { "bearerAuth": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(entry: &Entry, schemas: &mut Definitions, answers: &mut Map<String, Value>) -> Value {
    let about = &entry.about;
    let in_path: BTreeSet<_> = about.placeholders().collect();
    let fields = entry.arguments.fields();
    let (own, rest): (Vec<_>, Vec<_>) =
        fields.iter().partition(|field| in_path.contains(field.name));
    let mut parameters: Vec<_> = own.iter().map(|field| parameter("path", field)).collect();
    if about.method == Method::Get {
        parameters.extend(rest.iter().map(|field| parameter("query", field)));
    }
    parameters.extend(headers(entry));
    let mut responses = Map::new();
    let mut content = json!({ "application/json": { "schema": answer(entry, schemas, answers) } });
    if entry.is_followed() {
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    let ok = json!({ "description": about.summary, "content": content });
    responses.insert(about.success().to_string(), ok);
    for status in statuses() {
        let reference = format!("#/components/responses/Problem{status}");
        responses.insert(status.to_string(), json!({ "$ref": reference }));
    }
    let mut described = json!({
        "operationId": about.name(),
        "tags": [about.noun],
        "summary": about.summary,
        "description": format!("Needs {}. For: {}.", about.needs(), about.audience.word()),
        "parameters": parameters,
        "responses": responses,
        "x-hints": about.hints.words(),
    });
    if about.changes() {
        // Even where there is nothing to say: what says it is JSON cannot come from a form of a page.
        described["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": body(&rest, schemas) } },
        });
    }
    described
}

fn parameter(place: &str, field: &Field) -> Value {
    json!({
        "in": place, "name": field.name, "description": field.doc, "required": field.required,
        "schema": inline(&field.shape),
    })
}

/// What a request carries beside its arguments.
fn headers(entry: &Entry) -> Vec<Value> {
    let about = &entry.about;
    let wanted = [
        (about.takes_request_key(), "IdempotencyKey"),
        (about.takes_version(), "IfMatch"),
        (about.takes_token(), "ClaimToken"),
        (entry.is_followed(), "LastEventId"),
    ];
    let wanted = wanted.into_iter().filter(|(is, _)| *is);
    wanted.map(|(_, name)| json!({ "$ref": format!("#/components/parameters/{name}") })).collect()
}

fn body(fields: &[&Field], schemas: &mut Definitions) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = referring(&field.shape, schemas);
        schema["description"] = json!(field.doc);
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<_> =
        fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut whole =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        whole["required"] = json!(required);
    }
    whole
}

/// The record of an answer with what is said around it, under a name of its own: the record alone
/// is closed, and stands inside of others.
fn answer(entry: &Entry, schemas: &mut Definitions, answers: &mut Map<String, Value>) -> Value {
    let Shape::Record(record) = &entry.answer else { return inline(&entry.answer) };
    // A record has no dot in its name, so the two cannot meet.
    let name = format!("{}.answer", record.name);
    if !answers.contains_key(&name) {
        let fields: Vec<_> = record.fields.iter().collect();
        let mut whole = body(&fields, schemas);
        whole["description"] = json!(record.doc);
        let mut add = |name: &str, doc: &str, mut schema: Value| {
            schema["description"] = json!(doc);
            whole["properties"][name] = schema;
        };
        let as_of = "Up to where the events are in it: who follows from here misses nothing.";
        add("as_of", as_of, inline(&Position::shape()));
        add("at", "When it was carried out.", inline(&When::shape()));
        let redacted = "How many secrets were masked in what was asked, if any.";
        add(
            REDACTED,
            redacted,
            inline(&Shape::Number { min: 1, max: u64::from(u32::MAX), usual: None }),
        );
        for (field, doc) in secrets_of(record.name) {
            add(field, doc, json!({ "type": "string" }));
        }
        answers.insert(name.clone(), whole);
    }
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn handwritten(route: &Route) -> Value {
    let content = json!({ route.kind: { "schema": answered(route) } });
    let mut responses = json!({ "200": { "description": route.summary, "content": content } });
    for status in statuses() {
        responses[status.to_string()] =
            json!({ "$ref": format!("#/components/responses/Problem{status}") });
    }
    let needs = format!("Needs {}.", route.needs.words());
    let mut described =
        json!({ "summary": route.summary, "description": needs, "responses": responses });
    if route.path.contains('{') {
        described["parameters"] = json!([digest_in_path()]);
    }
    if let Some(kind) = route.takes {
        let content = json!({ kind: { "schema": {} } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    if route.needs == Needs::Nothing {
        described["security"] = json!([]);
        // Whether all is well is told by the status, too.
        described["responses"]["503"] = json!({
            "description": "It is not well",
            "content": { route.kind: { "schema": {} }, "application/problem+json": {
                "schema": { "$ref": "#/components/schemas/Problem" },
            } },
        });
    }
    described
}

/// What a path of ours answers with, where that is more than some text or bytes.
fn answered(route: &Route) -> Value {
    if route.takes.is_none() {
        return json!({});
    }
    json!({
        "type": "object",
        "required": ["digest", "size", "new"],
        "properties": {
            "digest": { "type": "string", "description": "The SHA-256 of the bytes." },
            "size": { "type": "integer", "description": "How many there were." },
            "new": { "type": "boolean", "description": "Whether they were not there before." },
        },
        "additionalProperties": false,
    })
}

fn digest_in_path() -> Value {
    json!({
        "in": "path", "name": "sha256", "required": true,
        "description": "The SHA-256 of the bytes, in lower-case hexadecimal digits.",
        "schema": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
    })
}

fn parameters() -> Value {
    let header = |name: &str, required: bool, doc: &str, schema: Value| {
        json!({
            "in": "header", "name": name, "required": required, "description": doc,
            "schema": schema,
        })
    };
    json!({
        "IdempotencyKey": header(
            "Idempotency-Key",
            true,
            "The same key again is the same request: it is carried out once.",
            json!({ "type": "string", "pattern": "^[!-~]{1,255}$" }),
        ),
        "IfMatch": header(
            "If-Match",
            false,
            "Only if the task is still at this version.",
            json!({ "type": "string", "pattern": "^\"[0-9]{1,15}\"$", "examples": ["\"7\""] }),
        ),
        "ClaimToken": header(
            "Baton-Claim-Token",
            false,
            "Proves the attempt that speaks.",
            json!({ "type": "string" }),
        ),
        "LastEventId": header(
            "Last-Event-ID",
            false,
            "Where a stream goes on; counts instead of `after`.",
            inline(&Position::shape()),
        ),
    })
}

fn statuses() -> BTreeSet<u16> {
    CODES.iter().map(|code| code.status).collect()
}

/// One answer per status, which tells the codes that it may carry.
fn refusals() -> Map<String, Value> {
    let one = |status: u16| {
        let codes: Vec<_> = CODES.iter().filter(|code| code.status == status).collect();
        let words: Vec<_> = codes.iter().map(|code| code.word).collect();
        let told: Vec<_> =
            codes.iter().map(|code| format!("`{}`: {}.", code.word, code.title)).collect();
        let schema = json!({
            "allOf": [
                { "$ref": "#/components/schemas/Problem" },
                { "properties": { "status": { "const": status }, "code": { "enum": words } } },
            ],
        });
        let content = json!({ "application/problem+json": { "schema": schema } });
        let described = json!({ "description": told.join(" "), "content": content });
        (format!("Problem{status}"), described)
    };
    statuses().into_iter().map(one).collect()
}

/// Why a request was not carried out, after RFC 9457. A code may add members of its own.
fn problem() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "type": "object",
        "description": "Why a request was not carried out.",
        "required": ["type", "title", "status", "code", "detail", "certainty", "retryable", "next"],
        "properties": {
            "type": text(), "title": text(), "status": { "type": "integer" },
            "code": { "type": "string", "enum": CODES.iter().map(|code| code.word).collect::<Vec<_>>() },
            "detail": text(),
            "certainty": { "type": "string", "enum": ["did_not_happen", "happened", "unknown"] },
            "retryable": { "type": "boolean" },
            "next": { "type": "array", "items": text() },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object", "required": ["field", "rule"],
                    "properties": { "field": text(), "rule": text() },
                },
            },
        },
    })
}
