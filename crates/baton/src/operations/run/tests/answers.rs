//! Questions, leases, contracts.

use baton_domain::command::Verdict;
use baton_domain::contract::{Finding, Receipt};
use baton_domain::ids::LineId;
use baton_domain::lane::Wants;
use baton_domain::run::Mode;
use baton_domain::time::Millis;
use baton_store::Aim;
use serde_json::{Value, json};

use super::code;
use super::desk::{Desk, ann, bot, secret};
use crate::engine::Tokens;
use crate::engine::tests::world::{tenant, text, wish};

#[tokio::test]
async fn a_heartbeat_renews_the_lease_and_leaves_no_entry() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let before = desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
    desk.world.clock.advance(Millis::minutes(1));
    for _ in 0..2 {
        let beat = desk.ask_as(&bea, "run heartbeat", json!({ "run": "mine" }), "same").await;
        let beat = beat.expect("it holds the run").body;
        assert_ne!(beat["lease"], before["lease"], "one key does not make it a replay");
        desk.world.clock.advance(Millis::minutes(4));
    }
    let after = desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
    assert_eq!(after["version"], before["version"]);
    assert_eq!(after["as_of"], before["as_of"]);
    assert_eq!(after["state"], "leased", "a heartbeat is no work");
}

#[tokio::test]
async fn every_accepted_call_of_a_solo_holder_renews_its_lease() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let calls: [(&str, Value); 5] = [
        ("run begin", json!({ "run": "mine" })),
        ("run progress", json!({ "run": "mine", "summary": "on it" })),
        ("run checkpoint", json!({ "run": "mine", "summary": "half" })),
        ("run ask", json!({ "run": "mine", "question": "which colour?" })),
        ("run receive", json!({ "run": "mine", "mark": "delivered" })),
    ];
    for (what, arguments) in calls {
        desk.world.clock.advance(Millis::minutes(4));
        desk.granted(&bea, what, arguments).await;
        let show = desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
        let now = desk.world.engine.now() + Millis::minutes(5);
        let expected = crate::shape::When(now).to_string();
        assert_eq!(show["lease"]["expires_at"], expected, "{what} renews");
    }
}

#[tokio::test]
async fn an_answer_is_sent_then_delivered_then_applied() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let asked = json!({ "run": "mine", "question": "which colour?" });
    let asked = desk.granted(&bea, "run ask", asked).await;
    assert_eq!(asked["state"], "waiting_input");
    let show = desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
    assert_eq!(show["question"]["text"], "which colour?");
    let answer = json!({ "run": "T-1", "answer": "green" });
    assert_eq!(code(&desk.refused(&bea, "run answer", answer.clone()).await), "not_for_you");
    let answered = desk.granted(&ann(), "run answer", answer).await;
    assert_eq!(answered["answer"]["mark"], "sent");
    let heard = json!({ "run": "mine", "since": asked["version"] });
    let heard = desk.granted(&bea, "run wait", heard).await;
    assert_eq!(heard["changed"], true);
    assert_eq!(heard["run"]["answer"]["mark"], "delivered");
    assert_eq!(heard["run"]["answer"]["text"], "green");
    assert_eq!(heard["run"]["answer"]["by"], "ann");
    let applied = json!({ "run": "mine", "answer_applied": true });
    let applied = desk.granted(&bea, "run progress", applied).await;
    assert_eq!(applied["answer"]["mark"], "applied");
    let back = json!({ "run": "mine", "mark": "delivered" });
    let back = desk.granted(&bea, "run receive", back).await;
    assert_eq!(back["answer"]["mark"], "applied", "a mark never goes back");
}

fn contract() -> Value {
    json!([
        { "id": "report", "kind": "artifact", "path": "report.md" },
        { "id": "plan", "kind": "artifact", "path": "plan.md" },
        { "id": "tests", "kind": "gate", "command": "make test", "timeout": "5m" },
    ])
}

fn artifact(path: &str) -> Value {
    json!({ "path": path, "digest": "ab".repeat(32), "bytes": 5 })
}

#[tokio::test]
async fn a_refused_completion_lists_everything_missing_and_keeps_the_lease() {
    let desk = Desk::new().await;
    let goal = json!({ "title": "report", "contract": contract() });
    let started = desk.ask(&bot("bea"), "run start", goal).await.expect("it may");
    let bea = bot("bea").showing(&secret(&started, "claim_token"));
    let problem = desk.refused(&bea, "run complete", json!({ "run": "mine" })).await;
    assert_eq!(code(&problem), "incomplete");
    let lines: Vec<_> = problem["missing"].as_array().expect("it lists them").iter().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["line"], &lines[1]["line"]), (&json!("plan"), &json!("report")));
    let stale = json!({ "run": "mine", "contract": "cd".repeat(32) });
    assert_eq!(code(&desk.refused(&bea, "run complete", stale).await), "contract_changed");
}

#[tokio::test]
async fn a_completion_with_gates_waits_for_a_verifier_and_its_receipts_are_shown() {
    let desk = Desk::new().await;
    let goal = json!({ "title": "report", "contract": contract() });
    let started = desk.ask(&bot("bea"), "run start", goal).await.expect("it may");
    let bea = bot("bea").showing(&secret(&started, "claim_token"));
    let complete = json!({ "run": "mine", "summary": "written", "tree": "4b825dc6",
        "artifacts": [artifact("report.md"), artifact("plan.md")] });
    let submitted = desk.granted(&bea, "run complete", complete).await;
    assert_eq!(submitted["state"], "submitted");
    assert_eq!(submitted["waits_for"], "no_verifier");
    let receipts = desk.granted(&ann(), "receipt list", json!({ "task": "T-1" })).await;
    assert_eq!(receipts["items"], json!([]));
    let mut verifier = wish("wes", None);
    verifier.claimant.mode = Mode::Supervised;
    verifier.claimant.wants = Wants::Submitted;
    let claimed = desk.world.engine.claim(verifier).await.expect("a worker may verify");
    let Tokens::Supervised { supervisor, .. } = &claimed.tokens else { panic!("it is a worker") };
    let keyring = desk.world.engine.keyring();
    let pass = keyring.verify(supervisor.reveal(), &tenant()).expect("it is ours");
    let receipt = |line: &str, finding| Receipt {
        line: LineId::new(line).expect("a plain word is a name"),
        finding,
        at: desk.world.engine.now(),
        signed: None,
    };
    let fails = Finding::Fails { reason: text("2 of 9 fail"), evidence: None };
    let holds = || Finding::Holds { evidence: None };
    let receipts =
        vec![receipt("plan", holds()), receipt("report", holds()), receipt("tests", fails)];
    let verdict = pass.verdict(Verdict { receipts, ..Verdict::default() }).expect("it supervises");
    desk.world.order(Aim::Task(pass.task, vec![verdict])).await.expect("it verifies");
    let receipts = desk.granted(&ann(), "receipt list", json!({ "task": "T-1" })).await;
    assert_eq!(receipts["items"].as_array().map(Vec::len), Some(3));
    let tests = json!({ "task": "T-1", "line": "tests" });
    let shown = desk.granted(&ann(), "receipt show", tests).await;
    assert_eq!((&shown["found"], &shown["reason"]), (&json!("fails"), &json!("2 of 9 fail")));
    let none = json!({ "task": "T-1", "line": "nothing" });
    assert_eq!(code(&desk.refused(&ann(), "receipt show", none).await), "not_found");
    let packet = desk.granted(&ann(), "run handoff", json!({ "run": "T-1" })).await;
    let packet = packet["text"].as_str().expect("it is a text");
    assert!(packet.contains("line tests fails"), "{packet}");
    assert!(packet.contains("> 2 of 9 fail"), "{packet}");
}

#[tokio::test]
async fn a_completion_tells_of_the_run_that_it_completes_not_of_the_next() {
    let desk = Desk::new().await;
    let stages = json!([{ "name": "coding" }, { "name": "qa" }]);
    desk.granted(&ann(), "project add", json!({ "project": "two", "stages": stages })).await;
    let wish = json!({ "project": "two", "title": "in two stages", "stage": "coding" });
    let task = desk.granted(&ann(), "task create", wish).await["id"].clone();
    let claim = desk.ask(&bot("bob"), "run claim", json!({ "task": task })).await;
    let claim = claim.expect("there is one");
    let bob = bot("bob").showing(&secret(&claim, "claim_token"));
    for run in [json!("mine"), claim.body["run"]["id"].clone()] {
        let done = desk.ask_as(&bob, "run complete", json!({ "run": run }), "done").await;
        let Ok(done) = done else { continue };
        assert_eq!(done.body["id"], claim.body["run"]["id"]);
        assert_eq!(
            (&done.body["state"], &done.body["result"]),
            (&json!("completed"), &json!("unverified"))
        );
    }
    let next = desk.granted(&ann(), "task show", json!({ "task": task })).await;
    assert_eq!((&next["run"]["state"], &next["stage"]), (&json!("queued"), &json!("qa")));
}

#[tokio::test]
async fn a_renewal_says_how_far_the_events_are() {
    let desk = Desk::new().await;
    let bob = desk.claimed(&bot("bob")).await;
    let renewed = desk.granted(&bob, "run heartbeat", json!({ "run": "mine" })).await;
    let events = desk.granted(&ann(), "event list", json!({})).await;
    assert_eq!(renewed["as_of"], events["as_of"]);
}
