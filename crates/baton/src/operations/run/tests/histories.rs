//! However long a history is, and however often a request is repeated, the answer is right.

use baton_domain::time::Millis;
use serde_json::{Value, json};

use super::desk::{Desk, Who, ann, bot, secret};

/// A task that may be tried as often as this takes.
async fn patient(desk: &Desk) {
    let task = json!({ "project": "demo", "title": "paint the fence", "stage": "coding",
        "policy": { "tries_max": 500 } });
    desk.granted(&ann(), "task create", task).await;
}

async fn claim(desk: &Desk, who: &Who) -> Who {
    let reply = desk.ask(who, "run claim", json!({})).await.expect("there is work");
    who.showing(&secret(&reply, "claim_token"))
}

fn section<'a>(packet: &'a Value, name: &str) -> &'a Value {
    let sections = packet["sections"].as_array().expect("it has sections");
    let found = sections.iter().find(|section| section["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {name} in {packet}"))
}

#[tokio::test]
async fn a_packet_is_right_however_long_the_history_is() {
    let desk = Desk::new().await;
    patient(&desk).await;
    let bea = claim(&desk, &bot("bea")).await;
    desk.granted(&bea, "run ask", json!({ "run": "mine", "question": "which colour?" })).await;
    desk.granted(&ann(), "run answer", json!({ "run": "T-1", "answer": "green" })).await;
    let failed = json!({ "run": "mine", "failed": [{ "item": "post", "reason": "rotten" }] });
    desk.granted(&bea, "run progress", failed).await;
    let release = |n: u32| json!({ "run": "mine", "reason": format!("reason {n}") });
    let mut holder = bea;
    for n in 1..=130 {
        for step in 0..4 {
            let note = json!({ "run": "mine", "summary": format!("step {n}.{step}") });
            desk.granted(&holder, "run checkpoint", note).await;
        }
        desk.granted(&holder, "run release", release(n)).await;
        holder = claim(&desk, &bot("cid")).await;
    }
    let packet = desk.granted(&ann(), "run handoff", json!({ "run": "T-1" })).await;
    let text = packet["text"].as_str().expect("it is a text");
    assert!(text.len() < 44 * 1_024, "{} bytes", text.len());
    for words in ["> which colour?", "> green", "> post", "> failed: rotten", "> step 130.3"] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    let attempts = section(&packet, "attempts");
    assert_eq!(attempts["items"][0]["about"], "130 attempts ended: 130 released");
    let shown = attempts["items"].as_array().map_or(0, Vec::len) as u64 - 1;
    assert_eq!(attempts["dropped"].as_u64().map(|dropped| dropped + shown), Some(130));
    let last = &attempts["items"][usize::try_from(shown).expect("few")];
    assert_eq!((&last["from"], &last["text"]), (&json!("A-1.130 (cid)"), &json!("reason 130")));
    let notes = section(&packet, "checkpoints");
    let shown = notes["items"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(notes["dropped"].as_u64().map(|dropped| dropped + shown), Some(520));
    let again = desk.granted(&ann(), "run handoff", json!({ "run": "T-1" })).await;
    assert_eq!(packet, again, "the same records give the same packet");
    let shown = desk.granted(&ann(), "attempt show", json!({ "attempt": "A-1.1" })).await;
    assert_eq!(shown["outcome"], "released");
    let note = json!({ "task": "T-1", "number": 520 });
    assert_eq!(desk.granted(&ann(), "checkpoint show", note).await["summary"], "step 130.3");
}

#[tokio::test]
async fn items_that_no_report_among_the_last_tells_of_are_counted() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    for n in 0..20 {
        let items = json!([{ "item": format!("board {n}"), "reason": "rotten" }]);
        desk.granted(&bea, "run progress", json!({ "run": "mine", "failed": items })).await;
    }
    let packet = desk.granted(&ann(), "run handoff", json!({ "run": "T-1" })).await;
    let open = section(&packet, "open_items");
    let shown = open["items"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!((shown, open["dropped"].as_u64()), (8, Some(12)));
}

#[tokio::test]
async fn a_question_that_nobody_answered_is_told_however_much_was_noted_since() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    desk.granted(&bea, "run ask", json!({ "run": "mine", "question": "which colour?" })).await;
    for n in 0..600 {
        let note = json!({ "run": "mine", "summary": format!("waiting {n}") });
        desk.granted(&bea, "run checkpoint", note).await;
    }
    for step in 0..200 {
        // No longer than the silence after which all deadlines are put off.
        desk.world.clock.advance(Millis::seconds(4));
        desk.world.engine.sweep(100).await.expect("time passes");
        let show = desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
        if show["state"] == "blocked" {
            assert_eq!(show["question"]["text"], "which colour?");
            return;
        }
        if step % 15 == 0 {
            desk.granted(&bea, "run heartbeat", json!({ "run": "mine" })).await;
        }
    }
    panic!("the question was never given up");
}

#[tokio::test]
async fn leave_to_go_on_is_told_with_how_far_it_got() {
    let desk = Desk::new().await;
    let bea = desk.claimed(&bot("bea")).await;
    let block = json!({ "run": "mine", "kind": "capability", "capability": "ladder",
        "reason": "too high" });
    desk.granted(&bea, "run block", block).await;
    desk.granted(&ann(), "run unblock", json!({ "run": "T-1", "reason": "use the stool" })).await;
    let person = ann();
    let show = || desk.granted(&person, "run show", json!({ "run": "T-1" }));
    let sent = show().await["answer"].clone();
    assert_eq!((&sent["mark"], &sent["unblock"]), (&json!("sent"), &json!(true)));
    assert_eq!((&sent["text"], &sent["by"]), (&json!("use the stool"), &json!("ann")));
    let cid = claim(&desk, &bot("cid")).await;
    assert_eq!(show().await["answer"]["mark"], "delivered", "it came with the hand-off");
    desk.granted(&cid, "run progress", json!({ "run": "mine", "answer_applied": true })).await;
    assert_eq!(show().await["answer"]["mark"], "applied");
}

#[tokio::test]
async fn the_next_stage_and_a_task_that_is_opened_again_know_what_was_before() {
    let desk = Desk::new().await;
    let stages = json!({ "project": "demo", "stages": [{ "name": "coding" }, { "name": "qa" }] });
    desk.granted(&ann(), "project add", stages).await;
    let bea = desk.claimed(&bot("bea")).await;
    let note = json!({ "run": "mine", "summary": "half of the fence" });
    desk.granted(&bea, "run checkpoint", note).await;
    let done = json!({ "run": "mine", "summary": "all of the fence" });
    desk.granted(&bea, "run complete", done).await;
    let known = ["> half of the fence", "> all of the fence", "A-1.1 (bea): completed"];
    claim(&desk, &bot("cid")).await;
    let why = json!({ "run": "T-1", "reason": "once more" });
    for run in ["R-1.2", "R-1.3"] {
        let packet = desk.granted(&ann(), "run handoff", json!({ "run": "T-1" })).await;
        assert_eq!(packet["run"], run);
        let text = packet["text"].as_str().expect("it is a text");
        for words in known {
            assert!(text.contains(words), "{words} is missing of {run}:\n{text}");
        }
        if run == "R-1.2" {
            desk.granted(&ann(), "run cancel", why.clone()).await;
            let back = json!({ "task": "T-1", "stage": "coding" });
            desk.granted(&ann(), "task move", back).await;
        }
    }
}

#[tokio::test]
async fn a_repeated_request_is_answered_with_its_own_run() {
    let desk = Desk::new().await;
    let stages = json!({ "project": "demo", "stages": [{ "name": "coding" }, { "name": "qa" }] });
    desk.granted(&ann(), "project add", stages).await;
    let bea = desk.claimed(&bot("bea")).await;
    let done = || json!({ "run": "mine", "summary": "all of it" });
    let first = desk.ask_as(&bea, "run complete", done(), "k").await.expect("bea holds it");
    assert_eq!((&first.body["id"], &first.body["state"]), (&json!("R-1.1"), &json!("completed")));
    let cid = claim(&desk, &bot("cid")).await;
    desk.granted(&cid, "run begin", json!({ "run": "mine" })).await;
    for _ in 0..2 {
        let why = json!({ "run": "T-1", "reason": "once more" });
        desk.granted(&ann(), "run cancel", why.clone()).await;
        desk.granted(&ann(), "run retry", why).await;
    }
    let again = desk.ask_as(&bea, "run complete", done(), "k").await.expect("it was done");
    assert!(again.replayed);
    assert_eq!((&again.body["id"], &again.body["state"]), (&json!("R-1.1"), &json!("completed")));
    assert_eq!(again.body["result"], "unverified");
}

#[tokio::test]
async fn a_repeated_request_is_answered_whatever_the_rules_say_by_now() {
    let desk = Desk::new().await;
    let until = desk.world.engine.now() + Millis::minutes(1);
    let until = crate::shape::When(until).to_string();
    let pause = json!({ "project": "demo", "reason": "lunch", "until": until });
    let start = json!({ "title": "tidy up", "project": "demo" });
    let limit = json!({ "pool": "stage demo coding", "limit": 3 });
    let policy = json!({ "task": "T-1", "policy": { "attempts_max": 5 } });
    let started = desk.ask_as(&bot("bea"), "run start", start.clone(), "s").await;
    let bea = bot("bea").showing(&secret(&started.expect("it may"), "claim_token"));
    let asked =
        [("project pause", pause, "p"), ("pool set", limit, "l"), ("task edit", policy, "e")];
    for (what, arguments, key) in &asked {
        desk.ask_as(&ann(), what, arguments.clone(), key).await.expect("it may");
    }
    desk.world.clock.advance(Millis::minutes(2));
    desk.granted(&bea, "run complete", json!({ "run": "mine" })).await;
    for pool in ["project demo", "stage demo coding"] {
        desk.granted(&ann(), "pool set", json!({ "pool": pool })).await;
    }
    desk.granted(&ann(), "project remove", json!({ "project": "demo" })).await;
    for (what, arguments, key) in asked {
        let again = desk.ask_as(&ann(), what, arguments, key).await;
        assert!(again.unwrap_or_else(|no| panic!("{what}: {}", no.body())).replayed, "{what}");
    }
    let again = desk.ask_as(&bot("bea"), "run start", start, "s").await;
    let gone = again.map(|reply| reply.body).expect_err("its attempt is over");
    assert_eq!(gone.code(), "lease_lost", "it is known, and has no token any more");
    assert_eq!(gone.body()["certainty"], "happened");
}

#[tokio::test]
async fn a_claim_that_is_repeated_after_its_attempt_is_over_is_told_that_it_happened() {
    let desk = Desk::new().await;
    patient(&desk).await;
    let first = desk.ask_as(&bot("bea"), "run claim", json!({}), "k").await.expect("there is work");
    let bea = bot("bea").showing(&secret(&first, "claim_token"));
    desk.granted(&bea, "run release", json!({ "run": "mine", "reason": "no time" })).await;
    let dump = desk.dump().await;
    let again = desk.ask_as(&bot("bea"), "run claim", json!({}), "k").await;
    let over = again.map(|reply| reply.body).expect_err("its attempt is over").body();
    assert_eq!((&over["code"], &over["certainty"]), (&json!("lease_lost"), &json!("happened")));
    assert_eq!(desk.dump().await, dump, "it is not carried out twice");
    // Whoever holds nothing and asks for the first time is told that nothing happened.
    let note = json!({ "run": "mine", "summary": "too late" });
    let late = desk.refused(&bea, "run checkpoint", note).await;
    assert_eq!(late["certainty"], "did_not_happen");
}

#[tokio::test]
async fn relatives_that_are_too_many_to_show_are_counted() {
    let desk = Desk::new().await;
    let task = |title: String, more: Value| {
        let mut task = json!({ "project": "demo", "title": title });
        task.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        task
    };
    let parent = task("paint the house".into(), json!({ "stage": "coding" }));
    desk.granted(&ann(), "task create", parent).await;
    for number in 1..=20 {
        let child = task(format!("room {number}"), json!({ "parent": "T-1" }));
        desk.granted(&ann(), "task create", child).await;
    }
    let packet = desk.granted(&ann(), "run handoff", json!({ "run": "T-1" })).await;
    let relatives = section(&packet, "relatives");
    assert_eq!(relatives["items"].as_array().map(Vec::len), Some(16));
    assert_eq!((&relatives["dropped"], &packet["dropped"]), (&json!(4), &json!(4)));
    let text = packet["text"].as_str().expect("a text");
    assert!(text.contains("(4 more are not shown)"), "{text}");
}
