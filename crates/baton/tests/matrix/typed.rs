//! The same request gets the same answer from the program itself, whichever way it comes.

use baton::operation::Entry;
use baton::shape::Shape;
use serde_json::Value;

use crate::equal::{refusals, without_origin};
use crate::examples::{example_with, table};
use crate::foreign::mask;
use crate::program::{House, Program, ROADS, Road};
use crate::scene::title;
use crate::surfaces::Said;

/// What no scene over a surface can have yet, or only the tenant of whoever runs the server.
const REFUSED: [(&str, &str); 4] = [
    ("run review", "wrong_state"),
    ("receipt show", "not_found"),
    ("tenant create", "beyond_key"),
    ("tenant list", "beyond_key"),
];

/// Any larger number is a time in milliseconds: entries have their times as they were written.
const MOMENT: u64 = 1_600_000_000_000;

/// Without what differs from one tenant, or from one moment, to the next.
fn plainly(mut said: Said) -> Said {
    mask(&mut said.body);
    untimed(&mut said.body);
    without_origin(&mut said.body);
    // Keys stand in the order of their ids, and those are chance.
    if let Some(items) = said.body.get_mut("items").and_then(Value::as_array_mut)
        && items.iter().all(|item| item["scopes"].is_array())
    {
        items.sort_by_key(|item| item["name"].to_string());
    }
    said
}

/// Takes times and ages out, and how far the events are: the server's clock adds some by itself.
fn untimed(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let passes = |name: &str| {
                name.ends_with("_age") || ["as_of", "free_bytes", "used_at"].contains(&name)
            };
            map.retain(|name, _| !passes(name));
            map.values_mut().for_each(untimed);
        }
        Value::Array(list) => list.iter_mut().for_each(untimed),
        Value::String(text) => {
            let is_time = |word: &&str| word.parse::<jiff::Timestamp>().is_ok();
            let times: Vec<_> =
                text.split([' ', '\n']).filter(is_time).map(str::to_owned).collect();
            for time in times {
                *text = text.replace(&time, "a time");
            }
        }
        Value::Number(number) if number.as_u64().is_some_and(|number| number > MOMENT) => {
            *value = Value::Null;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a word is blank that must be one of a few.
fn is_no_word(entry: &Entry, arguments: &Value) -> bool {
    let fields = entry.arguments.fields();
    let is_word = |shape: &Shape| match shape {
        Shape::Choice(_) => true,
        Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::List { .. }
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => false,
    };
    fields.iter().any(|field| is_word(&field.shape) && arguments[field.name] == "  ")
}

async fn houses(program: &Program) -> [House<'_>; 3] {
    [program.house().await, program.house().await, program.house().await]
}

/// Asks in one house after another, each time another way.
async fn ask(houses: &[House<'_>; 3], at: usize) -> Vec<(Road, Said)> {
    let entry = table()[at];
    let mut all = vec![];
    for (house, road) in houses.iter().zip(ROADS) {
        let asked = example_with(&house.spare, entry);
        let said = house.ask(road, &asked.who, entry, &asked.arguments).await;
        // Every house has a spare key of its own.
        let body = said.body.to_string().replace(&house.spare, "spare");
        let body = serde_json::from_str(&body).expect("it is JSON as before");
        all.push((road, plainly(Said { body, ..said })));
    }
    all
}

#[tokio::test]
async fn the_program_answers_every_operation_the_same_over_tcp_socket_and_command_line() {
    let program = Program::start();
    let mut at_work = houses(&program).await;
    for (at, entry) in table().into_iter().enumerate() {
        let title = title(entry);
        let refused = REFUSED.iter().find(|(what, _)| *what == title).map(|(_, code)| *code);
        let mut said = ask(&at_work, at).await;
        if !said[0].1.granted && refused.is_none() {
            // Something before has used up what this one needs.
            at_work = houses(&program).await;
            said = ask(&at_work, at).await;
        }
        let (_, first) = &said[0];
        assert_eq!(first.granted, refused.is_none(), "{title}: {}", first.body);
        if let Some(code) = refused {
            assert_eq!(first.body["code"], code, "{title}");
        }
        for (road, other) in &said[1..] {
            assert_eq!(other, first, "{title} {road:?}");
        }
    }
}

#[tokio::test]
async fn the_program_refuses_every_operation_the_same_and_its_file_stays_as_it_was() {
    let program = Program::start();
    let house = program.house().await;
    let before = program.dump();
    let mut asked = 0;
    for entry in table() {
        let example = example_with(&house.spare, entry);
        let mut all = refusals(entry, &example.arguments);
        // A flag that there is not is no request, and a person cannot type one.
        all.retain(|arguments| arguments["nonsense"].is_null());
        for arguments in all {
            let told = format!("{} {arguments}", title(entry));
            let first = house.ask(Road::Tcp, &example.who, entry, &arguments).await;
            if first.granted {
                assert!(!entry.about.changes(), "{told} was granted: {}", first.body);
                continue;
            }
            let socket = house.ask(Road::Socket, &example.who, entry, &arguments).await;
            assert_eq!(socket, first, "{told} over the socket");
            let typed = house.ask(Road::Typed, &example.who, entry, &arguments).await;
            if is_no_word(entry, &arguments) {
                // The command line knows by itself which words there are.
                assert_eq!(typed.body["code"], "malformed", "{told}");
            } else {
                assert_eq!(typed, first, "{told} typed");
            }
            asked += 1;
        }
    }
    assert!(asked > 60, "only {asked} requests were refused");
    assert_eq!(program.dump(), before, "a refusal left a trace");
}
