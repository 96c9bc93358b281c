use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect_file;
use serde_json::Value;

use super::text::collect;
use super::{HANDWRITTEN, SECRETS, exit_codes, listing, openapi, problems, text};
use crate::operation::Method;
use crate::operations;
use crate::problem::CODES;
use crate::shape::{Record, Shape};

#[test]
fn the_surface_is_what_was_reviewed() {
    expect_file!["../../surface.txt"].assert_eq(&text());
}

#[test]
fn the_description_for_programs_is_what_was_reviewed() {
    let pretty = serde_json::to_string_pretty(openapi()).expect("it is JSON");
    expect_file!["../../openapi.json"].assert_eq(&format!("{pretty}\n"));
}

#[test]
fn the_reference_is_what_is_served() {
    expect_file!["../../../../docs/reference/problems.md"].assert_eq(&problems());
    expect_file!["../../../../docs/reference/exit-codes.md"].assert_eq(&exit_codes());
    expect_file!["../../../../docs/reference/operations.md"].assert_eq(&listing());
}

#[test]
fn every_exit_code_of_a_problem_has_a_sentence() {
    for code in CODES {
        assert!(super::reference::EXITS.iter().any(|(exit, _)| *exit == code.exit), "{code:?}");
    }
}

#[test]
fn every_operation_answers_every_question() {
    let mut names = BTreeSet::new();
    let mut places = BTreeSet::new();
    for entry in operations::all() {
        let about = &entry.about;
        let name = about.name();
        assert!(names.insert(name.clone()), "{name} is there twice");
        assert!(places.insert((about.method.word(), about.path)), "{name} shares its place");
        assert!(about.path.starts_with("/v1/"), "{name} is not under /v1");
        for word in [about.noun, about.verb] {
            let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            assert!(plain && !word.is_empty(), "{name} is no plain word");
        }
        assert!(!about.summary.is_empty() && !about.summary.ends_with('.'), "{name}");
        let reads = about.method == Method::Get;
        assert_eq!(about.hints.read_only, reads, "{name}: GET reads, and nothing else does");
        for placeholder in about.placeholders() {
            let field = entry.arguments.field(placeholder);
            assert!(field.is_some_and(|field| field.required), "{name}: {placeholder} is missing");
        }
        let listed = entry.answer.field("items").map(|items| &items.shape);
        let shown = match listed {
            Some(Shape::List { of, .. }) => &**of,
            Some(_) | None => &entry.answer,
        };
        for column in about.columns {
            let known = shown.field(column).or_else(|| entry.answer.field(column)).is_some();
            let inner = entry.answer.fields().iter().any(|field| {
                let listed =
                    if let Shape::List { of, .. } = &field.shape { of } else { &field.shape };
                listed.field(column).is_some()
            });
            assert!(known || inner, "{name}: there is no column {column}");
        }
    }
    for route in HANDWRITTEN {
        let place = (route.method.word(), route.path);
        assert!(places.insert(place), "{place:?} is there twice");
        if let super::Needs::Scope(scope) = route.needs {
            let known = operations::scopes().iter().any(|known| known.to_string() == scope);
            assert!(known, "{place:?} needs a scope that no key can have");
        }
    }
}

#[test]
fn every_list_says_where_to_go_on_and_can_be_told_so() {
    for entry in operations::all().iter().filter(|entry| entry.about.verb == "list") {
        let name = entry.about.name();
        let goes_on = ["after", "from"].iter().any(|it| entry.arguments.field(it).is_some());
        assert!(goes_on, "{name} always begins at the beginning");
        for member in ["items", "next"] {
            assert!(entry.answer.field(member).is_some(), "{name} answers no {member}");
        }
    }
}

#[test]
fn every_field_has_a_sentence_and_every_record_one_meaning() {
    let mut known: BTreeMap<&str, Record> = BTreeMap::new();
    for entry in operations::all() {
        let name = entry.about.name();
        let mut own = BTreeMap::new();
        collect(&entry.answer, &mut own);
        for field in entry.arguments.fields() {
            check_doc(&name, field.name, &field.doc);
            collect(&field.shape, &mut own);
        }
        for (record, found) in own {
            for field in &found.fields {
                check_doc(record, field.name, &field.doc);
            }
            let before = known.entry(record).or_insert_with(|| found.clone());
            assert_eq!(*before, found, "{record} means two things");
        }
    }
    for (record, ..) in SECRETS {
        assert!(known.contains_key(record), "nothing answers {record}");
    }
}

fn check_doc(of: &str, field: &str, doc: &str) {
    assert!(doc.len() > 3 && doc.ends_with('.'), "{of}.{field} needs a sentence");
}

#[test]
fn every_reference_leads_somewhere() {
    let whole = openapi();
    let mut references = BTreeSet::new();
    find_references(whole, &mut references);
    assert!(references.len() > 20, "there are few references");
    for reference in references {
        let place = reference.strip_prefix('#').expect("it is in this document");
        assert!(whole.pointer(place).is_some(), "{reference} leads nowhere");
    }
}

fn find_references(value: &Value, found: &mut BTreeSet<String>) {
    if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
        found.insert(reference.to_owned());
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| find_references(item, found)),
        Value::Object(map) => map.values().for_each(|item| find_references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
