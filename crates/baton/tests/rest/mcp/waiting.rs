//! Runs as tasks of the protocol, and questions as forms.

use baton_domain::key::Kind;
use baton_domain::time::Millis;
use serde_json::{Value, json};

use super::speaking::{is_bad_state, message, refusal};
use crate::caller::{Answer, Ask, Caller};
use crate::serving::{Serving, folder, start};
use crate::world::World;

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// A run whose agent asks, and the key of the agent.
async fn asking(world: &World) -> (String, String, Value) {
    world.queued().await;
    let (_, bea) = world.make_key("bea", Kind::Agent, "agent").await;
    let claimed = world.call(&bea, "run_claim", json!({})).await;
    let claimed = &claimed["result"]["structuredContent"];
    let attempt = claimed["attempt"].clone();
    let question = json!({ "attempt": attempt, "question": "Which of the two?" });
    let asked = world.call(&bea, "run_ask", question).await;
    assert_eq!(asked["result"]["structuredContent"]["state"], "waiting_input", "{asked}");
    (claimed["run"]["id"].as_str().expect("it has one").to_owned(), bea, attempt)
}

async fn task(world: &World, key: &str, method: &str, params: Value) -> Value {
    world.ask(&world.modern(key, method, params, &tasks())).await.json()
}

#[tokio::test]
async fn a_run_is_a_task_that_only_a_person_answers() {
    let world = World::noon().await;
    let (run, bea, attempt) = asking(&world).await;
    let wait = json!({ "run": run });
    let made = world.call_as(&world.key, "run_wait", wait, &tasks()).await;
    assert_eq!(
        (&made["result"]["resultType"], &made["result"]["taskId"]),
        (&json!("task"), &json!(run))
    );
    let named = || json!({ "taskId": run });
    let seen = task(&world, &world.key, "tasks/get", named()).await;
    assert_eq!(seen["result"]["status"], "input_required", "{seen}");
    let requests = seen["result"]["inputRequests"].as_object().expect("it asks").clone();
    let (key, form) = requests.iter().next().expect("one question");
    let words = form["params"]["message"].as_str().expect("it has words");
    assert!(
        words.starts_with("The agent of R-") && words.ends_with("Which of the two?"),
        "{words}"
    );
    // Its agent sees that it waits, and cannot answer itself.
    let own = task(&world, &bea, "tasks/get", named()).await;
    assert_eq!(own["result"]["status"], "working");
    let answer = json!({ "action": "accept", "content": { "answer": "The left one" } });
    let update = json!({ "taskId": run, "inputResponses": { key: answer } });
    let refused = task(&world, &bea, "tasks/update", update.clone()).await;
    assert_eq!(refused["error"]["data"]["code"], "forbidden", "{refused}");
    let accepted = task(&world, &world.key, "tasks/update", update).await;
    assert_eq!(accepted["result"]["resultType"], "complete", "{accepted}");
    let read = world.call(&bea, "run_wait", json!({ "attempt": attempt })).await;
    let answer = &read["result"]["structuredContent"]["run"]["answer"];
    assert_eq!(answer["text"], "The left one", "{read}");
    let done = world.call(&bea, "run_complete", json!({ "attempt": attempt })).await;
    assert_eq!(done["result"]["structuredContent"]["state"], "completed", "{done}");
    let ended = task(&world, &world.key, "tasks/get", named()).await;
    assert_eq!(ended["result"]["status"], "completed");
    assert_eq!(ended["result"]["result"]["structuredContent"]["id"], json!(run));
}

#[tokio::test]
async fn who_does_not_know_tasks_is_not_given_one_and_a_foreign_one_is_unknown() {
    let world = World::noon().await;
    let (run, ..) = asking(&world).await;
    let wait = json!({ "run": run, "wait": "1ms" });
    let plain = world.call(&world.key, "run_wait", wait).await;
    assert_eq!(plain["result"]["resultType"], "complete", "{plain}");
    let foreign = world.foreign_key().await;
    for id in [run.as_str(), "R-999999.1", "nonsense"] {
        let unknown = task(&world, &foreign, "tasks/get", json!({ "taskId": id })).await;
        assert_eq!(unknown["error"]["code"], -32_602, "{unknown}");
    }
}

/// Waits for the run with a form, and with what a client brings back.
async fn wait(world: &World, key: &str, arguments: &Value, back: Option<(&str, &Value)>) -> Answer {
    let mut params = json!({ "name": "run_wait", "arguments": arguments });
    if let Some((state, responses)) = back {
        params["requestState"] = state.into();
        params["inputResponses"] = responses.clone();
    }
    world.ask(&world.modern(key, "tools/call", params, &forms())).await
}

#[tokio::test]
async fn a_state_is_good_for_one_question_of_one_caller_and_for_nothing_else() {
    let world = World::noon().await;
    let (run, ..) = asking(&world).await;
    let (_, dan) = world.make_key("dan", Kind::Person, "all").await;
    let asked = json!({ "run": run, "wait": "1ms" });
    let first = wait(&world, &world.key, &asked, None).await.json();
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    let state = first["result"]["requestState"].as_str().expect("it is sealed").to_owned();
    let requests = first["result"]["inputRequests"].as_object().expect("it asks").clone();
    let key = requests.keys().next().expect("one question").clone();
    let answer = json!({ key: { "action": "accept", "content": { "answer": "Left" } } });
    for at in 0..state.len() {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(bytes).expect("it is plain");
        let back = Some((flipped.as_str(), &answer));
        assert!(is_bad_state(&wait(&world, &world.key, &asked, back).await), "byte {at}");
    }
    let back = Some((state.as_str(), &answer));
    assert!(is_bad_state(&wait(&world, &dan, &asked, back).await), "of another caller");
    let other = json!({ "run": run, "wait": "2ms" });
    assert!(is_bad_state(&wait(&world, &world.key, &other, back).await), "for another request");
    // One that its client kept for too long is worth as little as one that somebody made up.
    world.clock.advance(Millis::minutes(5));
    assert!(is_bad_state(&wait(&world, &world.key, &asked, back).await), "too late");
    let again = wait(&world, &world.key, &asked, None).await.json();
    let state = again["result"]["requestState"].as_str().expect("it is sealed").to_owned();
    let back = Some((state.as_str(), &answer));
    world.clock.advance(Millis(5 * 60 * 1_000 - 1));
    let taken = wait(&world, &world.key, &asked, back).await.json();
    assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
    assert!(is_bad_state(&wait(&world, &world.key, &asked, back).await), "a second time");
}

#[tokio::test]
async fn a_session_remembers_what_was_claimed_in_it() {
    let world = World::noon().await;
    world.queued().await;
    let (_, bea) = world.make_key("bea", Kind::Agent, "agent").await;
    let (one, other) = (world.session(&bea).await, world.session(&bea).await);
    let claimed = world.call_in(&bea, &one, "run_claim", json!({})).await;
    assert_eq!(claimed["result"]["isError"], false, "{claimed}");
    let note = json!({ "summary": "half of it" });
    let noted = world.call_in(&bea, &one, "run_checkpoint", note.clone()).await;
    assert_eq!(noted["result"]["isError"], false, "{noted}");
    let strange = world.call_in(&bea, &other, "run_checkpoint", note).await;
    assert_eq!(refusal(&strange), "invalid", "another session holds nothing");
    let get = message("tasks/get", json!({ "taskId": "R-1.1" }));
    let asked = world.in_session(&bea, &one, Ask::new("POST", "/mcp").json(&get));
    assert_eq!(world.ask(&asked).await.status, 200);
}

#[tokio::test]
async fn a_stream_begins_with_a_message_for_clients_that_would_stumble_over_anything_else() {
    let world = World::noon().await;
    for (version, says_nothing) in [("2025-06-18", false), ("2025-11-25", true)] {
        let params = json!({
            "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let mut caller = world.connect().await;
        caller.send(&world.posted(&world.key, &message("initialize", params))).await;
        let (_, headers) = caller.head().await.expect("it answers");
        let first = first_data(&mut caller).await;
        assert_eq!(first.is_empty(), says_nothing, "{version}: {first}");
        let list = Ask::new("POST", "/mcp").json(&message("tools/list", json!({})));
        let list = world.in_session(&world.key, &headers["mcp-session-id"], list);
        let list = list.without("mcp-protocol-version").with("mcp-protocol-version", version);
        let mut caller = world.connect().await;
        caller.send(&list).await;
        assert_eq!(caller.head().await.expect("it answers").0, 200, "{version}");
        assert_eq!(first_data(&mut caller).await.is_empty(), says_nothing, "{version}");
    }
}

/// What the first event of a stream says.
async fn first_data(caller: &mut Caller) -> String {
    loop {
        let line = caller.line().await.expect("a stream has events");
        if let Some(data) = line.strip_prefix("data:") {
            return data.trim().to_owned();
        }
    }
}

#[tokio::test]
async fn a_task_outlives_a_server_that_was_killed() {
    let home = folder();
    let mut server = start(home.path());
    let change = |server: &Serving, (method, path): (&str, &str), body: &Value| {
        let mut ask = Ask::change(method, path, path, body);
        ask.headers.extend(server.get("/").headers);
        ask
    };
    let stages = json!({ "stages": [{ "name": "coding" }] });
    let wish = json!({ "title": "Something to do", "project": "shop", "stage": "coding" });
    for (what, body) in [(("PUT", "/v1/projects/shop"), &stages), (("POST", "/v1/tasks"), &wish)] {
        let answer = server.connect().await.ask(&change(&server, what, body)).await;
        assert!(answer.status < 300, "{what:?}");
    }
    server.child.kill().expect("it is there");
    drop(server);
    let server = start(home.path());
    let params = json!({ "taskId": "R-1.1", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": tasks(),
    } });
    let mut ask = Ask::new("POST", "/mcp").json(&message("tasks/get", params));
    ask.headers.extend(server.get("/").headers);
    let ask = ask
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tasks/get")
        .with("mcp-name", "R-1.1");
    let seen = server.connect().await.ask(&ask).await.json();
    assert_eq!(seen["result"]["status"], "working", "{seen}");
}
