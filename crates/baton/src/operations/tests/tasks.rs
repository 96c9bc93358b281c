use serde_json::{Value, json};

use super::desk::{Asker, Desk, ids};

fn word<'a>(task: &'a Value, field: &str) -> &'a str {
    task[field].as_str().expect("it is a word")
}

#[tokio::test]
async fn a_draft_is_published_moved_and_put_back() {
    let desk = Desk::open().await;
    let task = desk.task("begin", json!({ "draft": true })).await;
    let coding = json!({ "task": task, "stage": "coding" });
    assert_eq!(desk.refused("task move", coding.clone()).await.0, "draft");
    assert_eq!(desk.done("task publish", json!({ "task": task })).await["draft"], false);
    let moved = desk.done("task move", coding).await;
    assert_eq!((word(&moved, "stage"), word(&moved, "badge")), ("coding", "queued"));
    let back = desk.done("task move", json!({ "task": task, "stage": "backlog" })).await;
    assert_eq!((word(&back, "stage"), back.get("run")), ("backlog", None));
    for stage in ["done", "closed", "archived", "backlog"] {
        let later = json!({ "task": task, "stage": stage, "start_at": "2024-01-01T00:00:00Z" });
        let (code, problem) = desk.refused("task move", later).await;
        assert_eq!(code, "invalid", "{stage} {problem}");
    }
    let nowhere = json!({ "task": task, "stage": "nowhere" });
    assert_eq!(desk.refused("task move", nowhere).await.0, "no_stage");
    let later = json!({ "task": task, "stage": "coding", "start_at": "2024-01-01T00:00:00Z" });
    assert_eq!(word(&desk.done("task move", later).await, "badge"), "delayed");
}

#[tokio::test]
async fn a_task_that_needs_approval_is_agreed_to_or_rejected() {
    let desk = Desk::open().await;
    let wish = json!({ "stage": "coding", "needs_approval": true });
    let (yes, no) = (desk.task("yes", wish.clone()).await, desk.task("no", wish).await);
    assert_eq!(desk.refused("run claim", json!({ "task": yes })).await.0, "approval_pending");
    assert_eq!(desk.done("task approve", json!({ "task": yes })).await["approval"], "approved");
    desk.done("task approve", json!({ "task": yes })).await;
    let rejected = desk.done("task reject", json!({ "task": no, "reason": "too wide" })).await;
    assert_eq!((word(&rejected, "stage"), word(&rejected, "badge")), ("closed", "rejected"));
    assert_eq!(rejected["ending_reason"], "too wide");
    assert_eq!(desk.refused("task approve", json!({ "task": no })).await.0, "ended");
    assert_eq!(desk.refused("task reject", json!({ "task": yes })).await.0, "invalid");
    let plain = desk.task("plain", json!({})).await;
    assert_eq!(desk.refused("task approve", json!({ "task": plain })).await.0, "wrong_state");
}

#[tokio::test]
async fn holds_stop_a_task_and_lifting_them_lets_it_go_on() {
    let desk = Desk::open().await;
    let task = desk.task("hold", json!({ "stage": "coding" })).await;
    let why = json!({ "task": task, "reason": "a look" });
    for (on, off, word) in [("freeze", "unfreeze", "frozen"), ("hold", "unhold", "review")] {
        let held = desk.done(&format!("task {on}"), why.clone()).await;
        assert_eq!((&held["holds"], &held["badge"]), (&json!([word]), &json!(word)));
        assert_eq!(desk.refused("run claim", json!({ "task": task })).await.0, "on_hold");
        let lifted = desk.done(&format!("task {off}"), why.clone()).await;
        assert_eq!((&lifted["holds"], &lifted["badge"]), (&json!([]), &json!("queued")));
        for verb in [on, off] {
            let blank = json!({ "task": task, "reason": "" });
            assert_eq!(desk.refused(&format!("task {verb}"), blank).await.0, "invalid");
        }
    }
}

#[tokio::test]
async fn a_task_is_closed_as_what_was_said_and_archived() {
    let desk = Desk::open().await;
    let (old, new) = (desk.task("old", json!({})).await, desk.task("new", json!({})).await);
    let wrong = [
        (json!({ "task": old, "reason": "x", "ending": "superseded" }), "invalid"),
        (json!({ "task": old, "reason": "x", "by": new }), "invalid"),
        (json!({ "task": old, "reason": "x", "ending": "superseded", "by": old }), "invalid"),
        (json!({ "task": old, "reason": "x", "ending": "superseded", "by": "T-99" }), "not_found"),
        (json!({ "task": old, "reason": "x", "ending": "done" }), "invalid"),
        (json!({ "task": old }), "invalid"),
    ];
    for (arguments, code) in wrong {
        assert_eq!(desk.refused("task close", arguments.clone()).await.0, code, "{arguments}");
    }
    assert_eq!(desk.refused("task archive", json!({ "task": old })).await.0, "wrong_state");
    let closed = json!({ "task": old, "reason": "better", "ending": "superseded", "by": new });
    let closed = desk.done("task close", closed).await;
    assert_eq!((&closed["badge"], &closed["superseded_by"]), (&json!("superseded"), &json!(new)));
    let archived = desk.done("task archive", json!({ "task": old })).await;
    assert_eq!(word(&archived, "stage"), "archived");
    let gone = desk.done("task close", json!({ "task": new, "reason": "enough" })).await;
    assert_eq!(word(&gone, "ending"), "abandoned");
}

#[tokio::test]
async fn a_task_waits_for_another_as_long_as_it_is_told_to() {
    let desk = Desk::open().await;
    let (first, then) = (desk.task("first", json!({})).await, desk.task("then", json!({})).await);
    let waiting = desk.done("task depend", json!({ "task": then, "on": first })).await;
    assert_eq!(waiting["waits_for"], json!([first]));
    let circle = json!({ "task": first, "on": then });
    assert_eq!(desk.refused("task depend", circle).await.0, "cycle");
    let unknown = json!({ "task": first, "on": "T-99" });
    assert_eq!(desk.refused("task depend", unknown).await.0, "not_found");
    let free = desk.done("task undepend", json!({ "task": then, "on": first })).await;
    assert_eq!(free["waits_for"], json!([]));
}

#[tokio::test]
async fn a_tree_shows_each_task_before_those_below_it() {
    let desk = Desk::open().await;
    let epic = desk.task("epic", json!({ "kind": "epic" })).await;
    let left = desk.task("left", json!({ "parent": epic })).await;
    let right = desk.task("right", json!({ "parent": epic })).await;
    let below = desk.task("below", json!({ "parent": left })).await;
    desk.task("elsewhere", json!({})).await;
    desk.done("task close", json!({ "task": right, "reason": "no" })).await;
    let tree = desk.done("task tree", json!({ "task": epic })).await;
    assert_eq!(ids(&tree, "id"), [&epic, &left, &below, &right].map(String::as_str));
    let depths: Vec<_> = tree["items"].as_array().expect("items").iter().collect();
    let depths: Vec<_> = depths.iter().map(|item| item["depth"].as_u64()).collect();
    assert_eq!(depths, [Some(0), Some(1), Some(2), Some(1)]);
    assert_eq!((&tree["dropped"], &tree["more"]), (&json!(0), &json!(false)));
    let tree = desk.done("task tree", json!({ "task": left })).await;
    assert_eq!(ids(&tree, "id"), [&left, &below].map(String::as_str));
    assert_eq!(tree["items"][0]["depth"], 0);
    assert_eq!(desk.refused("task tree", json!({ "task": "T-99" })).await.0, "not_found");
}

#[tokio::test]
async fn an_explanation_names_the_first_cause_first_and_the_command_that_helps() {
    let desk = Desk::open().await;
    let task = desk.task("stuck", json!({ "draft": true })).await;
    let causes = async || {
        let told = desk.done("task explain", json!({ "task": task })).await;
        let causes = told["causes"].as_array().expect("it has causes").clone();
        let of = |field: &str| {
            let words = causes.iter().map(|cause| cause[field].as_str().unwrap_or("").to_owned());
            words.collect::<Vec<_>>()
        };
        (of("code"), of("command"))
    };
    let (codes, commands) = causes().await;
    assert_eq!(codes[0], "draft");
    assert_eq!(commands[0], format!("baton task publish {task}"));
    desk.done("task publish", json!({ "task": task })).await;
    let (codes, commands) = causes().await;
    assert_eq!(codes, ["backlog"]);
    assert_eq!(commands, [format!("baton task move {task} --stage coding")]);
    desk.done("task move", json!({ "task": task, "stage": "coding" })).await;
    desk.done("scheduler pause", json!({ "reason": "night" })).await;
    let (codes, commands) = causes().await;
    assert_eq!((codes[0].as_str(), commands[0].as_str()), ("paused", "baton scheduler resume"));
    let told = desk.done("task explain", json!({ "task": task })).await;
    assert_eq!(told["causes"][0]["words"], "night", "why, in the words of who paused it");
    desk.done("scheduler resume", json!({})).await;
    assert_eq!(causes().await.0, ["no_worker"]);
    desk.done("run claim", json!({})).await;
    assert_eq!(causes().await.0, ["held"]);
    assert_eq!(desk.refused("task explain", json!({ "task": "T-99" })).await.0, "not_found");
}

#[tokio::test]
async fn a_task_of_somebody_else_is_a_task_that_is_not_there() {
    let desk = Desk::open().await;
    let task = desk.task("mine", json!({ "stage": "coding" })).await;
    let reason = json!({ "task": task, "reason": "why" });
    let plain = json!({ "task": task });
    let asked = [
        ("task show", plain.clone()),
        ("task publish", plain.clone()),
        ("task edit", json!({ "task": task, "title": "theirs" })),
        ("task edit", json!({ "task": task, "policy": { "losses_max": 3 } })),
        ("task move", json!({ "task": task, "stage": "backlog" })),
        ("task approve", plain.clone()),
        ("task reject", reason.clone()),
        ("task freeze", reason.clone()),
        ("task unfreeze", reason.clone()),
        ("task hold", reason.clone()),
        ("task unhold", reason.clone()),
        ("task close", reason),
        ("task archive", plain.clone()),
        ("task depend", json!({ "task": task, "on": "T-98" })),
        ("task undepend", json!({ "task": task, "on": task })),
        ("task tree", plain.clone()),
        ("task explain", plain),
        ("scheduler pause", json!({ "task": task, "reason": "why" })),
        ("pool set", json!({ "pool": format!("budget {task}"), "limit": 1 })),
    ];
    for (what, arguments) in asked {
        let theirs = desk.refused_to(&Asker::stranger(), what, arguments.clone()).await;
        let missing = arguments.to_string().replace(&task, "T-99");
        let missing = serde_json::from_str(&missing).expect("it is JSON");
        assert_eq!(theirs, desk.refused(what, missing).await, "{what}");
        assert_eq!(theirs.0, "not_found", "{what}");
    }
}

#[tokio::test]
async fn an_agent_may_make_tasks_but_not_decide_about_them() {
    let desk = Desk::open().await;
    let task = desk.task("mine", json!({ "needs_approval": true })).await;
    let agent = Asker::agent();
    let wish = json!({ "project": "demo", "title": "found on the way" });
    desk.ask_as(&agent, "task create", wish).await.expect("an agent may make tasks");
    let reason = json!({ "task": task, "reason": "why" });
    for (what, arguments) in [
        ("task approve", json!({ "task": task })),
        ("task edit", json!({ "task": task, "contract": [] })),
        ("task unhold", reason.clone()),
        ("task close", reason),
        ("pool set", json!({ "pool": "holder ann", "limit": 9 })),
        ("scheduler resume", json!({})),
    ] {
        assert_eq!(desk.refused_to(&agent, what, arguments).await.0, "not_for_you", "{what}");
    }
}

#[tokio::test]
async fn what_cannot_be_is_told_with_its_field_and_rule() {
    let desk = Desk::open().await;
    desk.done("task create", json!({ "project": "demo", "title": "one" })).await;
    let create = |more: Value| {
        let mut task = json!({ "project": "demo", "title": "two" });
        task.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        ("task create", task)
    };
    let wrong = [
        (create(json!({ "title": "two\nlines" })), "title", "must be one line"),
        (create(json!({ "start_at": "2026-11-15T09:30:00+25:00" })), "start_at", "with its zone"),
        (
            create(json!({ "policy": { "backoff": "1h", "backoff_max": "1m" } })),
            "policy.backoff_max",
            "must be at least `backoff`",
        ),
        (("task depend", json!({ "task": "T-1", "on": "T-1" })), "on", "none waits for itself"),
        (create(json!({ "labels": vec!["a"; 17] })), "labels", "at most 16"),
    ];
    for ((what, arguments), field, rule) in wrong {
        let (code, problem) = desk.refused(what, arguments).await;
        let told = problem["errors"][0].clone();
        assert_eq!((code, &told["field"]), ("invalid", &json!(field)), "{problem}");
        assert!(told["rule"].as_str().expect("a rule").contains(rule), "{problem}");
    }
}
