use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Model, Turn, always};

/// Asks, and answers status and body.
fn ask(model: &Model, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(model.address).expect("it listens");
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("an answer has a status"), body.to_owned())
}

fn claude(results: &[&str]) -> Value {
    let results: Vec<_> = results
        .iter()
        .map(|text| json!({ "role": "user", "content": [{ "type": "tool_result", "content": text }] }))
        .collect();
    json!({ "stream": true, "tools": [{ "name": "mcp__baton__run_show" }], "messages": results })
}

fn codex(results: &[&str]) -> Value {
    let results: Vec<_> = results
        .iter()
        .map(|text| json!({ "type": "function_call_output", "call_id": "c", "output": text }))
        .collect();
    json!({ "stream": true, "input": results, "tools": [
        { "type": "namespace", "name": "mcp__baton", "tools": [{ "type": "function", "name": "run_show" }] },
    ] })
}

fn gemini(results: &[&str]) -> Value {
    let results: Vec<_> = results
        .iter()
        .map(
            |text| json!({ "parts": [{ "functionResponse": { "response": { "output": text } } }] }),
        )
        .collect();
    json!({ "contents": results, "tools": [{ "functionDeclarations": [{ "name": "run_show" }] }] })
}

fn script() -> Vec<Turn> {
    vec![
        Turn::Call { tool: "run_show", arguments: always(json!({ "run": "R-1.1" })) },
        Turn::Call {
            tool: "run_show",
            arguments: Box::new(|results| json!({ "run": results[0]["id"] })),
        },
        Turn::Text("done".to_owned()),
    ]
}

/// A provider: where it is asked, how, and how a call is told in its answer.
type Provider = (&'static str, fn(&[&str]) -> Value);

const PROVIDERS: [Provider; 3] = [
    ("/v1/messages", claude),
    ("/v1/responses", codex),
    ("/v1beta/models/x:streamGenerateContent?alt=sse", gemini),
];

#[test]
fn the_turn_is_told_by_what_the_tools_have_answered() {
    for (path, body) in PROVIDERS {
        let model = Model::start(script()).expect("there is a port");
        let first = ask(&model, path, &body(&[])).1;
        assert!(first.contains("R-1.1") && first.contains("run_show"), "{first}");
        // Asked again without an answer, it says the same again.
        assert!(ask(&model, path, &body(&[])).1.contains("R-1.1"));
        let second = ask(&model, path, &body(&[r#"{ "id": "R-7.1" }"#])).1;
        assert!(second.contains("R-7.1"), "{second}");
        assert!(ask(&model, path, &body(&["{}", "{}"])).1.contains("done"));
        assert!(ask(&model, path, &body(&["{}", "{}", "{}"])).1.contains("That is all"));
        assert_eq!(model.recorded().len(), 5);
        assert_eq!(model.missing(), [] as [&str; 0]);
    }
}

#[test]
fn what_gemini_cli_marks_as_untrusted_is_read_all_the_same() {
    let model = Model::start(script()).expect("there is a port");
    let marked = "<untrusted_context>\n{ \"id\": \"R-7.1\" }\n</untrusted_context>";
    let said = ask(&model, PROVIDERS[2].0, &gemini(&[marked])).1;
    assert!(said.contains("R-7.1"), "{said}");
}

#[test]
fn what_is_asked_beside_the_conversation_is_no_turn() {
    let model = Model::start(script()).expect("there is a port");
    for (path, _) in PROVIDERS {
        assert!(ask(&model, path, &json!({ "stream": true })).1.contains("ok"));
    }
    assert_eq!(ask(&model, "/v1/files", &json!({})).0, 404);
    assert!(ask(&model, "/v1/messages", &claude(&[])).1.contains("R-1.1"));
}

#[test]
fn a_refusal_is_told_once_and_then_the_script_goes_on() {
    for (path, body) in PROVIDERS {
        let mut turns = vec![
            Turn::Status { code: 429, retry_after: Some(1) },
            Turn::Status { code: 500, retry_after: None },
            Turn::Status { code: 401, retry_after: None },
            Turn::Slow(Duration::from_millis(1)),
        ];
        turns.extend(script());
        let model = Model::start(turns).expect("there is a port");
        let codes = [(); 4].map(|()| ask(&model, path, &body(&[])).0);
        assert_eq!(codes, [429, 500, 401, 200]);
        assert!(ask(&model, path, &body(&["{}", "{}"])).1.contains("done"));
    }
}

#[test]
fn a_runaway_never_ends_and_a_tool_that_is_not_there_is_told() {
    let runaway = Turn::Runaway { tool: "run_show", arguments: always(json!({ "run": "R-9.1" })) };
    let model = Model::start(vec![runaway]).expect("there is a port");
    for count in [0, 1, 50] {
        let answer = ask(&model, "/v1/messages", &claude(&vec!["{}"; count])).1;
        assert!(answer.contains("R-9.1"));
    }
    let absent = Turn::Call { tool: "run_fly", arguments: always(json!({})) };
    let model = Model::start(vec![absent]).expect("there is a port");
    assert!(ask(&model, "/v1/messages", &claude(&[])).1.contains("no tool run_fly"));
    assert_eq!(model.missing().len(), 1);
}
