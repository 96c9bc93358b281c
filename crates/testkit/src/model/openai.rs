//! The Responses API of OpenAI.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::{Asked, Dialect, Said, result};

pub const DIALECT: Dialect = Dialect { asked, say, refuse, shut };

fn asked(request: &Request) -> Asked {
    let body = &request.body;
    let mut tools = vec![];
    named("", &body["tools"], &mut tools);
    let results = body["input"].as_array().into_iter().flatten();
    let results = results.filter(|item| item["type"] == "function_call_output");
    let results = results.map(|item| told(&item["output"])).collect();
    Asked { tools, results, streamed: body["stream"] == true }
}

/// Tools by name; those of a namespace are called by both names, parted as the caller reads them.
fn named(prefix: &str, list: &Value, tools: &mut Vec<String>) {
    for tool in list.as_array().into_iter().flatten() {
        let Some(name) = tool["name"].as_str() else { continue };
        match tool.get("tools") {
            None => tools.push(format!("{prefix}{name}")),
            Some(inner) => named(&format!("{name}\u{1f}"), inner, tools),
        }
    }
}

fn told(output: &Value) -> Value {
    let texts = output.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let text: String = output.as_str().into_iter().chain(texts).collect();
    // Codex says first how long it took.
    result(text.split_once("\nOutput:\n").map_or(text.as_str(), |(_, answer)| answer))
}

fn say(said: &Said, streamed: bool) -> Answer {
    let item = match said {
        Said::Text(text) => json!({
            "type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Said::Call { id, name, arguments } => {
            let mut call = json!({
                "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                "arguments": arguments.to_string(), "status": "completed",
            });
            if let Some((space, name)) = name.split_once('\u{1f}') {
                call["namespace"] = json!(space);
                call["name"] = json!(name);
            }
            call
        }
    };
    let whole = json!({
        "id": "resp_scripted", "object": "response", "status": "completed", "output": [item],
        "usage": {
            "input_tokens": 10, "input_tokens_details": null, "output_tokens": 5,
            "output_tokens_details": null, "total_tokens": 15,
        },
    });
    if !streamed {
        return Answer::json(200, whole);
    }
    let begun = json!({ "id": "resp_scripted", "object": "response", "status": "in_progress" });
    Answer::events(&[
        (Some("response.created"), json!({ "type": "response.created", "response": begun })),
        (
            Some("response.output_item.done"),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        ),
        (Some("response.completed"), json!({ "type": "response.completed", "response": whole })),
    ])
}

fn refuse(code: u16) -> Value {
    let kind = match code {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        _ => "server_error",
    };
    json!({ "error": { "type": kind, "code": kind, "message": "it says so in the script" } })
}

/// As it tells whoever has subscribed.
fn shut(resets_at: u64) -> (Value, super::Headers) {
    let headers = vec![
        ("x-codex-primary-used-percent", "100".to_owned()),
        ("x-codex-primary-window-minutes", "300".to_owned()),
        ("x-codex-primary-reset-at", resets_at.to_string()),
    ];
    let message = "The usage limit has been reached";
    let error =
        json!({ "type": "usage_limit_reached", "message": message, "resets_at": resets_at });
    (json!({ "error": error }), headers)
}
