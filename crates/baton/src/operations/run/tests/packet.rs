//! A packet with everything in it that there can be, to the letter: `handoff.txt` is what agents read.

use baton_domain::command::Verdict;
use baton_domain::contract::{Finding, Receipt};
use baton_domain::ids::LineId;
use baton_domain::lane::Wants;
use baton_domain::run::Mode;
use baton_domain::time::Millis;
use baton_store::Aim;
use expect_test::expect_file;
use serde_json::{Value, json};

use super::desk::{Desk, Who, ann, bot, secret};
use crate::engine::Tokens;
use crate::engine::tests::world::{tenant, text, wish};

/// Asks, a minute after the last time.
async fn later(desk: &Desk, who: &Who, what: &str, arguments: Value) -> Value {
    desk.world.clock.advance(Millis::minutes(1));
    desk.granted(who, what, arguments).await
}

async fn claim(desk: &Desk, who: &Who) -> Who {
    desk.world.clock.advance(Millis::minutes(1));
    let reply = desk.ask(who, "run claim", json!({ "task": "T-2" })).await.expect("there is work");
    who.showing(&secret(&reply, "claim_token"))
}

/// A task below another one and above a third, with a contract.
async fn tree(desk: &Desk) {
    let above = json!({ "project": "demo", "title": "A garden", "kind": "epic" });
    later(desk, &ann(), "task create", above).await;
    let contract = json!([
        { "id": "report", "kind": "artifact", "path": "report.md" },
        { "id": "tests", "kind": "gate", "command": "make test", "timeout": "5m" },
    ]);
    let fence = json!({ "project": "demo", "title": "Paint the fence", "parent": "T-1",
        "body": "All of it.\n\nAlso the back.", "contract": contract, "stage": "coding" });
    later(desk, &ann(), "task create", fence).await;
    let below = json!({ "project": "demo", "title": "Buy paint", "parent": "T-2" });
    later(desk, &ann(), "task create", below).await;
}

/// The first holder asks, is answered, notes how far it is, and gets stuck.
async fn first_holder(desk: &Desk) {
    let bea = claim(desk, &bot("bea")).await;
    later(desk, &bea, "run ask", json!({ "run": "mine", "question": "Which colour?" })).await;
    later(desk, &ann(), "run answer", json!({ "run": "T-2", "answer": "Green." })).await;
    let report = json!({ "run": "mine", "done": ["gate"], "answer_applied": true,
        "failed": [{ "item": "post 3", "reason": "It is rotten." }] });
    later(desk, &bea, "run progress", report).await;
    let note = json!({ "run": "mine", "summary": "The gate is painted.\n## not a heading",
        "cursor": "post 2", "git": { "base": "a1b2c3d", "head": "d4e5f6a", "dirty": "2 files" },
        "evidence": [{ "kind": "file", "reference": "gate.png", "summary": "before and after" }] });
    later(desk, &bea, "run checkpoint", note).await;
    let block = json!({ "run": "mine", "kind": "capability", "capability": "ladder",
        "reason": "The back is too high." });
    later(desk, &bea, "run block", block).await;
    let leave = json!({ "run": "T-2", "reason": "Use the stool." });
    later(desk, &ann(), "run unblock", leave).await;
}

/// The second one completes, and what it made does not hold.
async fn second_holder(desk: &Desk) {
    let cid = claim(desk, &bot("cid")).await;
    let made = json!({ "run": "mine", "summary": "All of it is painted.", "tree": "4b825dc6",
        "artifacts": [{ "path": "report.md", "digest": "ab".repeat(32), "bytes": 5 }] });
    later(desk, &cid, "run complete", made).await;
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
    let receipts =
        vec![receipt("report", Finding::Holds { evidence: None }), receipt("tests", fails)];
    let verdict = pass.verdict(Verdict { receipts, ..Verdict::default() }).expect("it supervises");
    desk.world.order(Aim::Task(pass.task, vec![verdict])).await.expect("it verifies");
}

#[tokio::test]
async fn a_packet_tells_everything_in_the_same_words_every_time() {
    let desk = Desk::new().await;
    tree(&desk).await;
    first_holder(&desk).await;
    second_holder(&desk).await;
    let person = ann();
    let asked = || desk.granted(&person, "run handoff", json!({ "run": "T-2" }));
    let (packet, again) = (asked().await, asked().await);
    assert_eq!(packet, again);
    let sections: Vec<_> = packet["sections"].as_array().into_iter().flatten().collect();
    let names: Vec<_> = sections.iter().filter_map(|section| section["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "goal",
            "contract",
            "checkpoints",
            "attempts",
            "questions",
            "relatives",
            "findings",
            "git",
            "open_items",
        ]
    );
    let told = packet["text"].as_str().expect("it is a text");
    expect_file!["../../../../handoff.txt"].assert_eq(told);
    desk.world.clock.advance(Millis::hours(7));
    assert_eq!(asked().await["text"], packet["text"], "it does not change with the time");
}
