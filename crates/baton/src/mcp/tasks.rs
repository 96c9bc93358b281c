//! A run as a task of the protocol: a handle that a client polls, answers and cancels.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask,
    ErrorData, GetTaskResult, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value};

use baton_domain::ids::RunId;

use crate::operation::Entry;
use crate::operations;

use super::desk::Refused;
use super::question::{self, Question, Reply};
use super::tools::Offer;
use super::{Handler, check, invalid, is_modern, protocol_error, short};

/// How often a client should look.
const POLL_MS: u64 = 2_000;
/// Said of every state that cannot be used, whatever is wrong with it.
const BAD_STATE: &str = "requestState is not valid: call the tool again without it";

fn row(noun: &str, verb: &str) -> &'static Entry {
    operations::find(noun, verb).expect("it is in the table")
}

/// The answer to `run_wait` in place of waiting: a task for whoever understands tasks, a form for
/// whoever could answer what the run waits for. Whoever holds the run itself just waits.
pub async fn instead(
    handler: &Handler,
    offer: &'static Offer,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let about = &offer.entry.about;
    let mut arguments = request.arguments.clone().unwrap_or_default();
    if (about.noun, about.verb) != ("run", "wait") || !is_modern(context) {
        return Ok(None);
    }
    let token = handler.desk.has_token(context);
    let fill = |arguments: &mut Map<_, _>| handler.mine.fill(offer, arguments, token);
    let meant = check(offer, &arguments).and_then(|()| fill(&mut arguments));
    if meant.is_err() || token || arguments.contains_key("attempt") {
        return Ok(None);
    }
    let client = context.client_capabilities().unwrap_or_default();
    let run = || show(handler, &arguments, context);
    if client.supports_tasks() {
        return Ok(match run().await {
            Ok(run) => {
                let answers = may_answer(handler, context);
                let task = detailed(&run, answers);
                Some(CallToolResponse::Task(CreateTaskResult::new(task.task)))
            }
            Err(refused) => Some(handler.told(refused, context).into()),
        });
    }
    let forms = client.elicitation.is_some_and(|forms| forms.form.is_some() || forms.url.is_none());
    if !forms && request.request_state.is_none() {
        return Ok(None);
    }
    ask(handler, request, &arguments, context).await
}

/// The question of the run as the result, or what becomes of the answer that came with the call.
async fn ask(
    handler: &Handler,
    request: &CallToolRequestParams,
    arguments: &Map<String, Value>,
    context: &RequestContext<RoleServer>,
) -> Result<Option<CallToolResponse>, ErrorData> {
    let asked = request.arguments.clone().unwrap_or_default();
    let caller = handler.desk.caller(context);
    let bound = caller.map(|caller| question::bound(&caller, &request.name, &asked));
    let Some(seal) = bound.and_then(|bound| handler.desk.seal(bound)) else {
        return if request.request_state.is_some() { Err(invalid(BAD_STATE)) } else { Ok(None) };
    };
    let Ok(run) = show(handler, arguments, context).await else { return Ok(None) };
    let question = Question::of(&run).filter(|_| may_answer(handler, context));
    match (&request.request_state, question) {
        (None, Some(question)) => Ok(question.result(&seal).map(Into::into)),
        (None, None) => Ok(None),
        (Some(sealed), Some(question)) if question.opens(&seal, sealed) => {
            let responses = request.input_responses.clone().unwrap_or_default();
            match question.reply(&responses) {
                None => Ok(question.result(&seal).map(Into::into)),
                Some(Reply::None) => Ok(None),
                Some(Reply::Answer(answer)) => {
                    let answered = answer_run(handler, &run, &answer, context).await;
                    Ok(answered.err().map(|refused| handler.told(refused, context).into()))
                }
            }
        }
        (Some(_), _) => Err(invalid(BAD_STATE)),
    }
}

/// `tasks/get`.
pub async fn get(
    handler: &Handler,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<GetTaskResult, ErrorData> {
    let run = find(handler, id, context).await?;
    Ok(GetTaskResult::new(detailed(&run, may_answer(handler, context))))
}

/// `tasks/update`: answers the question that the run waits for. What is said of a question that is
/// no longer open changes nothing, as the protocol asks.
pub async fn update(
    handler: &Handler,
    id: &str,
    responses: &InputResponses,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let run = find(handler, id, context).await?;
    let reply = Question::of(&run).and_then(|question| question.reply(responses));
    match reply {
        Some(Reply::Answer(answer)) => {
            answer_run(handler, &run, &answer, context).await.map_err(protocol_error)
        }
        Some(Reply::None) | None => Ok(()),
    }
}

/// `tasks/cancel`: calls the run off, for those who may. What is finished stays as it is.
pub async fn cancel(
    handler: &Handler,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    let run = find(handler, id, context).await?;
    if status(&run).is_terminal() {
        return Ok(());
    }
    let mut arguments = Map::new();
    arguments.insert("run".into(), id.into());
    arguments.insert("reason".into(), "cancelled by its client over MCP".into());
    let cancelled = handler.desk.ask(row("run", "cancel"), arguments, None, context).await;
    cancelled.map(drop).map_err(protocol_error)
}

async fn answer_run(
    handler: &Handler,
    run: &Value,
    answer: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(), Refused> {
    let mut arguments = Map::new();
    arguments.insert("run".into(), run["id"].clone());
    arguments.insert("answer".into(), answer.into());
    // An answer is to the question that was read, not to one that came since.
    let version = run["version"].as_u64();
    handler.desk.ask(row("run", "answer"), arguments, version, context).await.map(drop)
}

async fn find(
    handler: &Handler,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let unknown = || invalid(format!("there is no task {:?}", short(id)));
    let run: RunId = id.parse().map_err(|_| unknown())?;
    let mut arguments = Map::new();
    arguments.insert("run".into(), run.to_string().into());
    let found = show(handler, &arguments, context).await;
    found.map_err(|refused| match refused.code() {
        "not_found" => unknown(),
        _ => protocol_error(refused),
    })
}

async fn show(
    handler: &Handler,
    arguments: &Map<String, Value>,
    context: &RequestContext<RoleServer>,
) -> Result<Value, Refused> {
    let run = arguments.get("run").cloned().unwrap_or_default();
    let only = Map::from_iter([("run".to_owned(), run)]);
    handler.desk.ask(row("run", "show"), only, None, context).await
}

fn may_answer(handler: &Handler, context: &RequestContext<RoleServer>) -> bool {
    handler.desk.admits(row("run", "answer"), context)
}

fn status(run: &Value) -> TaskStatus {
    match run["state"].as_str() {
        Some("completed" | "failed") => TaskStatus::Completed,
        Some("cancelled") => TaskStatus::Cancelled,
        Some(_) | None => TaskStatus::Working,
    }
}

/// A run as the protocol sees it, for a caller who may answer its questions or may not.
fn detailed(run: &Value, may_answer: bool) -> DetailedTask {
    let question = Question::of(run);
    let payload = match (run["state"].as_str(), &question) {
        (Some("completed"), _) => finished(CallToolResult::structured(run.clone())),
        // That it failed is an outcome of the work, not of the call.
        (Some("failed"), _) => finished(CallToolResult::structured_error(run.clone())),
        (Some("cancelled"), _) => TaskPayload::Cancelled,
        (_, Some(question)) if may_answer => {
            TaskPayload::InputRequired { input_requests: question.requests() }
        }
        (_, _) => TaskPayload::Working,
    };
    let time = |names: &[&str]| {
        let told = names.iter().find_map(|name| run.pointer(name).and_then(Value::as_str));
        told.unwrap_or("1970-01-01T00:00:00Z").to_owned()
    };
    let created = time(&["/opened_at", "/ready_at", "/finished_at"]);
    let changed =
        time(&["/finished_at", "/question/asked_at", "/block/since", "/ready_at", "/opened_at"]);
    let state = run["state"].as_str().unwrap_or("unknown");
    let message = question.map_or_else(|| format!("The run is {state}."), |it| it.shown());
    let id = run["id"].as_str().unwrap_or_default();
    let task = Task::new(id, payload.status(), created, changed)
        .with_status_message(message)
        .with_poll_interval_ms(POLL_MS);
    DetailedTask::new(task, payload)
}

fn finished(result: CallToolResult) -> TaskPayload {
    let result = match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => JsonObject::new(),
    };
    TaskPayload::Completed { result }
}
