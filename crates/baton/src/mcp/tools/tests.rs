use std::collections::BTreeSet;

use serde_json::Value;

use super::{ALWAYS, NEVER, RUN, Toolset};
use crate::operations;

/// The most tools that a model is shown unless somebody asks for more.
const DEFAULT_MAX: usize = 14;

/// Everything in a schema that some agent program cannot read, with where it is.
fn unportable(at: &str, schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            for (name, inner) in object {
                let here = format!("{at}.{name}");
                let odd = name == "format"
                    || name == "$ref"
                    || (name == "type" && !inner.is_string() && !inner.is_object());
                if odd && !at.ends_with(".properties") {
                    found.push(here.clone());
                }
                unportable(&here, inner, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| unportable(at, inner, found)),
        Value::Null => found.push(format!("{at}: null")),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_row_is_a_tool_or_is_named_as_none_and_no_name_is_an_orphan() {
    let offered: BTreeSet<_> =
        Toolset::All.offers().iter().map(|offer| offer.tool.name.to_string()).collect();
    assert_eq!(offered.len(), Toolset::All.offers().len(), "a name stands there twice");
    for entry in operations::all() {
        let never = NEVER.contains(&(entry.about.noun, entry.about.verb));
        assert_ne!(offered.contains(&entry.about.name()), never, "{}", entry.about.name());
    }
    for (noun, verb) in RUN.iter().chain(&NEVER) {
        assert!(operations::find(noun, verb).is_some(), "{noun} {verb} is in no table");
    }
    for verb in ALWAYS {
        assert!(RUN.contains(&("run", verb)), "{verb} is no tool of a run");
    }
}

#[test]
fn a_model_is_shown_fourteen_tools_at_most() {
    assert!(Toolset::Run.offers().len() <= DEFAULT_MAX);
}

#[test]
fn every_tool_has_four_hints_and_schemas_that_every_program_can_read() {
    for offer in Toolset::All.offers() {
        let tool = serde_json::to_value(&offer.tool).expect("it is JSON");
        let name = &offer.tool.name;
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} lacks {hint}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        let mut found = vec![];
        unportable(name, &tool["inputSchema"], &mut found);
        unportable(name, &tool["outputSchema"], &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn a_next_step_is_told_as_the_tool_that_takes_it() {
    let name = |command| Toolset::Run.instead_of(command).map(|offer| offer.tool.name.to_string());
    assert_eq!(name("baton run claim").as_deref(), Some("run_claim"));
    assert_eq!(name("baton ask \"…\"").as_deref(), Some("run_ask"));
    assert_eq!(name("baton inbox"), None, "it is for people");
    assert_eq!(name("export BATON_CLAIM_TOKEN=…"), None);
}
