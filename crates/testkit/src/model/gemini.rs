//! The generateContent API of Gemini.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::{Asked, Dialect, Said, result};

pub const DIALECT: Dialect = Dialect { asked, say, refuse, shut };

fn asked(request: &Request) -> Asked {
    let body = &request.body;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let declared = list(&body["tools"]).into_iter();
    let declared = declared.flat_map(|tool| list(&tool["functionDeclarations"]));
    let tools = declared.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    let parts = list(&body["contents"]).into_iter().flat_map(|content| list(&content["parts"]));
    let results = parts.filter_map(|part| part.get("functionResponse").cloned());
    let results = results.map(|result| told(&result["response"])).collect();
    let streamed = request.target.contains(":streamGenerateContent");
    Asked { tools, results, streamed }
}

fn told(response: &Value) -> Value {
    let said = ["output", "error"].iter().find_map(|name| response[*name].as_str());
    said.map_or_else(|| response.clone(), |said| result(inside(said)))
}

/// What a tool answered is marked as somebody else's before the model reads it.
fn inside(said: &str) -> &str {
    let marked = said.trim().strip_prefix("<untrusted_context>");
    marked.and_then(|said| said.strip_suffix("</untrusted_context>")).unwrap_or(said).trim()
}

fn say(said: &Said, streamed: bool) -> Answer {
    let part = match said {
        Said::Text(text) => json!({ "text": text }),
        Said::Call { id, name, arguments } => {
            json!({ "functionCall": { "id": id, "name": name, "args": arguments } })
        }
    };
    let whole = json!({
        "candidates": [{
            "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 },
        "modelVersion": "scripted",
    });
    if streamed { Answer::events(&[(None, whole)]) } else { Answer::json(200, whole) }
}

fn refuse(code: u16) -> Value {
    let status = match code {
        401 => "UNAUTHENTICATED",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": code, "status": status, "message": "it says so in the script" } })
}

/// It does not say when.
fn shut(_resets_at: u64) -> (Value, super::Headers) {
    (refuse(super::LIMITED), vec![])
}
