//! What can be read without a tool: tasks, runs, and the packet of a run.

use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, ListResourcesResult, PaginatedRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use crate::operation::Entry;
use crate::operations;

use super::{Handler, protocol_error, short};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const SCHEME: &str = "baton://";
/// Runs in one page of the list; each is two resources.
const PAGE: u64 = 50;

fn row(noun: &str, verb: &str) -> &'static Entry {
    operations::find(noun, verb).expect("it is in the table")
}

/// The patterns of everything that can be read.
pub fn templates() -> Vec<ResourceTemplate> {
    let one = |template: &str, name: &str, about: &str, kind: &str| {
        ResourceTemplate::new(format!("{SCHEME}{template}"), name)
            .with_description(about)
            .with_mime_type(kind)
    };
    vec![
        one("tasks/{task}", "task", "A task, like T-128", JSON),
        one("runs/{run}", "run", "A run, like R-128.2", JSON),
        one("runs/{run}/handoff", "packet", "What the next holder of a run gets", TEXT),
    ]
}

/// The live runs that the caller holds, each with its packet.
pub async fn list(
    handler: &Handler,
    request: Option<PaginatedRequestParams>,
    context: &RequestContext<RoleServer>,
) -> Result<ListResourcesResult, ErrorData> {
    let mut arguments = Map::new();
    arguments.insert("mine".into(), true.into());
    arguments.insert("live".into(), true.into());
    arguments.insert("limit".into(), PAGE.into());
    if let Some(after) = request.and_then(|request| request.cursor) {
        arguments.insert("after".into(), after.into());
    }
    let page = handler.desk.ask(row("run", "list"), arguments, None, context).await;
    let page = page.map_err(protocol_error)?;
    let runs = page["items"].as_array().map_or(&[][..], Vec::as_slice);
    let ids = runs.iter().filter_map(|run| run["id"].as_str());
    let resources = ids.flat_map(|id| {
        let run = Resource::new(format!("{SCHEME}runs/{id}"), id);
        let packet = Resource::new(format!("{SCHEME}runs/{id}/handoff"), format!("{id} packet"));
        [
            run.with_description("A run that you hold").with_mime_type(JSON),
            packet.with_description("What is known of it so far").with_mime_type(TEXT),
        ]
    });
    let mut result = ListResourcesResult::with_all_items(resources.collect());
    result.next_cursor = page["next"].as_str().map(str::to_owned);
    Ok(result)
}

/// One of them.
pub async fn read(
    handler: &Handler,
    uri: &str,
    context: &RequestContext<RoleServer>,
) -> Result<ReadResourceResponse, ErrorData> {
    let unknown = || {
        let message = format!("there is no resource {:?}", short(uri));
        ErrorData::resource_not_found(message, Some(json!({ "uri": short(uri) })))
    };
    let path = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
    let parts: Vec<_> = path.split('/').collect();
    let (entry, name, id) = match parts[..] {
        ["tasks", task] => (row("task", "show"), "task", task),
        ["runs", run] => (row("run", "show"), "run", run),
        ["runs", run, "handoff"] => (row("run", "handoff"), "run", run),
        _ => return Err(unknown()),
    };
    let arguments = Map::from_iter([(name.to_owned(), Value::from(id))]);
    let answer = handler.desk.ask(entry, arguments, None, context).await;
    let answer = answer.map_err(|refused| match refused.code() {
        "not_found" | "invalid" => unknown(),
        _ => protocol_error(refused),
    })?;
    let contents = match answer["text"].as_str().filter(|_| entry.about.verb == "handoff") {
        Some(text) => ResourceContents::text(text, uri).with_mime_type(TEXT),
        None => ResourceContents::text(answer.to_string(), uri).with_mime_type(JSON),
    };
    Ok(ReadResourceResult::new(vec![contents]).into())
}
