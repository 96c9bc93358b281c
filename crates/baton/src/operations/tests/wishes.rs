//! What a task is made of: policy, contract, patches.

use serde_json::{Value, json};

use super::desk::{Asker, Desk};

fn rule<'a>(problem: &'a Value, field: &str) -> &'a str {
    assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    problem["errors"][0]["rule"].as_str().expect("a rule is a sentence")
}

#[tokio::test]
async fn a_task_gets_the_policy_that_was_chosen_over_the_defaults() {
    let desk = Desk::open().await;
    let policy = json!({ "attempts_max": 5, "lease": "90s" });
    let task = desk.task("try", json!({ "policy": policy })).await;
    let shown = desk.done("task show", json!({ "task": task })).await;
    assert_eq!(shown["policy"]["attempts_max"], 5);
    assert_eq!(shown["policy"]["lease"], "1m 30s");
    assert_eq!(shown["policy"]["losses_max"], 10, "what was not chosen is the default");
    let edit = json!({ "task": task, "policy": { "losses_max": 3 } });
    let edited = desk.done("task edit", edit).await;
    assert_eq!(edited["policy"]["losses_max"], 3);
    assert_eq!(edited["policy"]["attempts_max"], 5, "an edit leaves what it does not name");
    let edit = json!({ "task": task, "policy": { "lease": "1000d" } });
    let (code, problem) = desk.refused("task edit", edit).await;
    assert_eq!((code, rule(&problem, "policy.lease")), ("invalid", "must be 1 s to 24 h"));
    let edit = json!({ "task": task, "policy": { "leese": "1m" } });
    assert_eq!(desk.refused("task edit", edit).await.0, "invalid");
}

#[tokio::test]
async fn the_lines_of_a_contract_read_back_as_they_were_written() {
    let desk = Desk::open().await;
    let lines = json!([
        { "id": "tests", "kind": "gate", "command": "make test", "timeout": "5m" },
        { "id": "report", "kind": "artifact", "path": "out/report.md", "bytes_min": 10 },
        { "id": "fast", "kind": "criterion", "text": "it is fast", "check": "make bench" },
        { "id": "quick", "kind": "gate", "command": "true" },
    ]);
    let task = desk.task("prove", json!({ "contract": lines })).await;
    let shown = desk.done("task show", json!({ "task": task })).await;
    let read: Vec<_> = shown["contract"].as_array().expect("it has lines").iter().collect();
    let ids: Vec<_> = read.iter().map(|line| line["id"].as_str().expect("a name")).collect();
    assert_eq!(ids, ["fast", "quick", "report", "tests"]);
    assert_eq!(read[0]["check"], "make bench");
    assert_eq!(read[1]["timeout"], "10m", "a gate that does not say may take ten minutes");
    assert_eq!(read[2]["bytes_min"], 10);
    assert_eq!(read[3]["command"], "make test");
    let none = desk.done("task edit", json!({ "task": task, "contract": [] })).await;
    assert_eq!(none["contract"], json!([]));
}

#[tokio::test]
async fn contracts_that_ask_for_the_same_have_the_same_hash() {
    let desk = Desk::open().await;
    let one = json!({ "id": "a", "kind": "gate", "command": "true" });
    let two = json!({ "id": "b", "kind": "artifact", "path": "b.txt" });
    let hash = async |lines: Value| {
        let task = desk.task("prove", json!({ "contract": lines })).await;
        let task = task.parse().expect("it is an id");
        let tenant = crate::engine::tests::world::tenant();
        let row = desk.world.engine.task(&tenant, task).await.expect("it can be read").what;
        row.expect("it is there").flow.contract.clone().expect("it has one").hash
    };
    let first = hash(json!([one, two])).await;
    assert_eq!(first, hash(json!([two, one])).await);
    assert_ne!(first, hash(json!([one])).await);
}

#[tokio::test]
async fn a_line_whose_fields_do_not_fit_is_named() {
    let desk = Desk::open().await;
    let cases = [
        (json!({ "id": "t", "kind": "gate" }), "command", "is missing"),
        (json!({ "id": "t", "kind": "artifact" }), "path", "is missing"),
        (json!({ "id": "t", "kind": "criterion", "check": "true" }), "text", "is missing"),
        (json!({ "id": "t", "kind": "gate", "command": "x", "path": "y" }), "path", "must not"),
        (
            json!({ "id": "t", "kind": "criterion", "text": "x", "timeout": "1m" }),
            "timeout",
            "must not",
        ),
        (json!({ "id": "t", "kind": "spell" }), "kind", "must be one of"),
    ];
    for (line, field, says) in cases {
        let good = json!({ "id": "good", "kind": "gate", "command": "true" });
        let wish = json!({ "project": "demo", "title": "x", "contract": [good, line] });
        let (code, problem) = desk.refused("task create", wish).await;
        assert_eq!(code, "invalid");
        let rule = rule(&problem, &format!("contract[1].{field}"));
        assert!(rule.starts_with(says), "{rule}");
    }
    for lines in [
        json!([{ "id": "t", "kind": "gate", "command": "x" }, { "id": "t", "kind": "gate", "command": "y" }]),
        json!([{ "id": "t", "kind": "artifact", "path": "../secret" }]),
    ] {
        let wish = json!({ "project": "demo", "title": "x", "contract": lines });
        assert_eq!(desk.refused("task create", wish).await.0, "invalid");
    }
}

#[tokio::test]
async fn an_edit_changes_what_it_names_and_empties_what_it_clears() {
    let desk = Desk::open().await;
    let task =
        desk.task("old", json!({ "body": "long", "assignee": "bob", "labels": ["a"] })).await;
    let edited =
        desk.done("task edit", json!({ "task": task, "title": "new", "labels": [] })).await;
    assert_eq!((&edited["title"], &edited["body"]), (&json!("new"), &json!("long")));
    assert_eq!(edited["labels"], json!([]));
    let cleared =
        desk.done("task edit", json!({ "task": task, "clear": ["body", "assignee"] })).await;
    assert!(cleared.get("body").is_none() && cleared.get("assignee").is_none());
    let both = json!({ "task": task, "body": "x", "clear": ["body"] });
    let (_, problem) = desk.refused("task edit", both).await;
    assert_eq!(rule(&problem, "body"), "must not be given and cleared at once");
    let unknown = json!({ "task": task, "clear": ["title"] });
    assert_eq!(desk.refused("task edit", unknown).await.0, "invalid");
}

#[tokio::test]
async fn an_edit_of_an_old_version_is_refused_and_names_the_present_one() {
    let desk = Desk::open().await;
    let task = desk.task("old", json!({})).await;
    let edit = |title: &str| json!({ "task": task, "title": title });
    desk.ask_as(&Asker::if_match(1), "task edit", edit("new")).await.expect("it is at version 1");
    for edit in [edit("late"), json!({ "task": task, "policy": { "losses_max": 3 } })] {
        let (code, problem) = desk.refused_to(&Asker::if_match(1), "task edit", edit).await;
        assert_eq!((code, &problem["version"]), ("version_changed", &json!(2)));
    }
    let freeze = json!({ "task": task, "reason": "cold" });
    let (code, _) = desk.refused_to(&Asker::if_match(1), "task freeze", freeze).await;
    assert_eq!(code, "version_changed", "everything that a person says can be conditional");
}

#[tokio::test]
async fn a_repeated_request_is_carried_out_once() {
    let desk = Desk::open().await;
    let wish = json!({ "project": "demo", "title": "once" });
    let again = Asker::key("the-same");
    let first = desk.ask_as(&again, "task create", wish.clone()).await.expect("it may be made");
    let second = desk.ask_as(&again, "task create", wish).await.expect("it was made");
    assert_eq!(first["id"], second["id"]);
    let other = json!({ "project": "demo", "title": "another" });
    assert_eq!(desk.refused_to(&again, "task create", other).await.0, "key_reused");
}

#[tokio::test]
async fn an_edit_that_changes_nothing_writes_nothing_and_answers_as_it_is() {
    let desk = Desk::open().await;
    let task = desk.task("one", json!({ "policy": { "losses_max": 3 } })).await;
    let before = desk.dump().await;
    let same = json!({ "task": task, "title": "one", "labels": [], "clear": ["body"],
        "policy": { "losses_max": 3 } });
    let edited = desk.done("task edit", same).await;
    assert_eq!((&edited["version"], &edited["policy"]["losses_max"]), (&json!(1), &json!(3)));
    assert_eq!(desk.dump().await, before);
    // What is not chosen stays as it is by then, whoever changed it meanwhile.
    for policy in [json!({ "tries_max": 7 }), json!({ "wall": "1h" })] {
        desk.done("task edit", json!({ "task": task, "policy": policy })).await;
    }
    let shown = desk.done("task show", json!({ "task": task })).await;
    let policy = &shown["policy"];
    assert_eq!((&policy["losses_max"], &policy["tries_max"]), (&json!(3), &json!(7)));
    assert_eq!(policy["wall"], "1h");
}
