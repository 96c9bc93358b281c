//! The Messages API of Anthropic.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::{Asked, Dialect, Said, result};

pub const DIALECT: Dialect = Dialect { asked, say, refuse, shut };

fn asked(request: &Request) -> Asked {
    let body = &request.body;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let names = list(&body["tools"]);
    let tools = names.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
    let blocks = list(&body["messages"]).into_iter().flat_map(|message| list(&message["content"]));
    let results = blocks.filter(|block| block["type"] == "tool_result");
    let results = results.map(|block| told(&block["content"])).collect();
    Asked { tools, results, streamed: body["stream"] == true }
}

fn told(content: &Value) -> Value {
    let texts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let text: String = content.as_str().into_iter().chain(texts).collect();
    result(&text)
}

fn message(content: &Value, reason: Option<&str>) -> Value {
    json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": "scripted",
        "content": content, "stop_reason": reason, "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 },
    })
}

fn say(said: &Said, streamed: bool) -> Answer {
    let (whole, begun, delta, reason) = match said {
        Said::Text(text) => (
            json!({ "type": "text", "text": text }),
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        Said::Call { id, name, arguments } => (
            json!({ "type": "tool_use", "id": id, "name": name, "input": arguments }),
            json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }),
            "tool_use",
        ),
    };
    if !streamed {
        return Answer::json(200, message(&json!([whole]), Some(reason)));
    }
    let named = |event: Value| {
        let name = event["type"].as_str().expect("every event has a type").to_owned();
        (name, event)
    };
    let events = [
        json!({ "type": "message_start", "message": message(&json!([]), None) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": begun }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 5 },
        }),
        json!({ "type": "message_stop" }),
    ];
    let events: Vec<_> = events.into_iter().map(named).collect();
    let events: Vec<_> =
        events.iter().map(|(name, event)| (Some(name.as_str()), event.clone())).collect();
    Answer::events(&events)
}

fn refuse(code: u16) -> Value {
    let kind = match code {
        401 => "authentication_error",
        429 => "rate_limit_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": "it says so in the script" } })
}

/// As it tells whoever has subscribed.
fn shut(resets_at: u64) -> (Value, super::Headers) {
    let said = |name, value: &str| (name, value.to_owned());
    let reset = resets_at.to_string();
    let headers = vec![
        said("anthropic-ratelimit-unified-status", "rejected"),
        said("anthropic-ratelimit-unified-reset", &reset),
        said("anthropic-ratelimit-unified-representative-claim", "five_hour"),
        said("anthropic-ratelimit-unified-5h-utilization", "1.0"),
        said("anthropic-ratelimit-unified-5h-reset", &reset),
        said("anthropic-ratelimit-unified-5h-status", "rejected"),
        said("retry-after", "3600"),
    ];
    (refuse(super::LIMITED), headers)
}
