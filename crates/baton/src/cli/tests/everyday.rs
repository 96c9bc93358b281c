//! What everyday commands print.

use expect_test::{expect, expect_file};
use serde_json::{Value, json};

use super::Machine;
use crate::client::tests::Says;

async fn printed(words: &[&str], says: &[Value]) -> String {
    let says = says.iter().map(|body| Says::Answer(200, body.clone(), None)).collect();
    let printed = Machine::serving(says).types(words).await;
    assert_eq!(printed.exit, 0, "{printed:?}");
    printed.out + &printed.err
}

fn log(live: bool) -> Value {
    let line = |number: u64, voice: &str, text: &str| json!({ "number": number, "at": "2026-11-15T09:30:07.000Z", "voice": voice, "text": text });
    json!({
        "run": "R-1.1", "attempt": "A-1.1", "live": live, "fresh": live, "last": 6, "dropped": 2,
        "items": [
            line(3, "said", "I look at it \u{1b}[31mred."), line(4, "tool", "Bash cargo test"),
            line(5, "output", "2 passed"), line(6, "error", "a warning"),
        ],
    })
}

#[tokio::test]
async fn a_log_reads_like_a_conversation_and_steers_no_terminal() {
    let told = printed(&["logs", "1"], &[log(false)]).await;
    expect![[r#"
        … 2 lines before these
        09:30:07  I look at it [31mred.
        09:30:07  $ Bash cargo test
        09:30:07  | 2 passed
        09:30:07  ! a warning
    "#]]
    .assert_eq(&told);
    let nothing = json!({ "run": "R-1.1", "live": false, "fresh": false, "items": [], "last": 0, "dropped": 0 });
    assert_eq!(printed(&["logs", "T-1"], &[nothing]).await, "nobody has begun\n");
}

#[tokio::test]
async fn whoever_follows_asks_for_what_is_new_until_the_agent_has_ended() {
    let mut ended = log(false);
    ended["items"] = json!([]);
    ended["dropped"] = json!(0);
    let says = [log(true), ended];
    let says = says.iter().map(|body| Says::Answer(200, body.clone(), None)).collect();
    let machine = Machine::serving(says);
    let printed = machine.types(&["logs", "T-1", "-f"]).await;
    assert_eq!((printed.exit, printed.out.lines().count()), (0, 5), "{printed:?}");
    let asked: Vec<_> = machine.puppet().seen().into_iter().map(|one| one.target).collect();
    assert!(asked[1].contains("after=6") && asked[1].contains("attempt=A-1.1"), "{asked:?}");
}

#[tokio::test]
async fn a_diff_is_the_patch_itself_and_its_sum_where_that_is_asked_for() {
    let patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\told\n+\tnew\n";
    let diff = json!({
        "run": "R-1.1", "attempt": "A-1.1", "base": "1".repeat(40), "snapshot": "2".repeat(40),
        "items": [
            { "path": "x", "added": 1, "removed": 1 }, { "path": "b", "from": "a" },
        ],
        "dropped": 0, "added": 1, "removed": 1, "patch": patch, "unshown": 0,
    });
    assert_eq!(printed(&["diff", "T-1"], std::slice::from_ref(&diff)).await, patch, "to the byte");
    expect![[r#"
        x      +1 -1
        a → b  no text
        2 files, +1 -1
    "#]]
    .assert_eq(&printed(&["diff", "T-1", "--stat"], &[diff]).await);
    let none = json!({ "run": "R-1.1", "items": [], "dropped": 0, "added": 0, "removed": 0, "unshown": 0 });
    assert_eq!(printed(&["diff", "T-1"], &[none]).await, "no work was brought here yet\n");
}

fn tasks() -> Value {
    let task = |id: &str, stage: &str, badge: &str, needs: &[&str]| {
        json!({
            "id": id, "stage": stage, "badge": badge, "title": format!("The title of {id}"), "needs": needs,
            "run": { "holder": "ada" },
        })
    };
    json!({ "items": [
        task("T-1", "coding", "running", &[]),
        task("T-2", "coding", "needs_you", &["question"]),
        task("T-3", "backlog", "waiting", &[]),
    ] })
}

#[tokio::test]
async fn a_board_has_its_stages_in_order_and_what_needs_somebody_first() {
    let project = json!({ "id": "shop", "stages": [{ "name": "coding" }, { "name": "qa" }] });
    let told = printed(&["board", "-P", "shop"], &[tasks(), project]).await;
    expect![[r#"
        BACKLOG  1
          T-3     waiting             ada           The title of T-3

        CODING  2
        ! T-2     needs_you           ada           The title of T-2
          T-1     running             ada           The title of T-1

        QA  0
    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn tasks_are_picked_by_the_words_of_the_dashboard() {
    let machine = Machine::serving(vec![Says::Answer(200, tasks(), None)]);
    let printed = machine.types(&["ls", "is:needs-you", "stage:qa", "login"]).await;
    assert_eq!(printed.exit, 0, "{printed:?}");
    let asked: Vec<_> = machine.puppet().seen().into_iter().map(|one| one.target).collect();
    for part in ["badge=needs_you", "stage=qa", "text=login"] {
        assert!(asked[0].contains(part), "{asked:?}");
    }
}

#[tokio::test]
async fn only_what_waits_for_it_is_merged() {
    let held = json!({ "id": "T-1", "badge": "review", "stage": "coding", "title": "One", "holds": ["review"] });
    let free =
        json!({ "id": "T-1", "badge": "queued", "stage": "merge", "title": "One", "holds": [] });
    let told = printed(&["merge", "T-1"], &[held, free.clone()]).await;
    assert_eq!(told, "T-1  queued  merge  One\n");
    let why = json!({ "id": "T-1", "badge": "queued", "causes": [
        { "code": "no_worker", "sentence": "Nobody waits for such work now.", "command": "baton up --detach" },
    ] });
    let says = [free, why].iter().map(|body| Says::Answer(200, body.clone(), None)).collect();
    let refused = Machine::serving(says).types(&["merge", "T-1"]).await;
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.err.contains("next: baton up --detach"), "{refused:?}");
}

#[tokio::test]
async fn money_is_added_up() {
    let task = json!({ "id": "T-1", "title": "One" });
    let attempts = json!({ "items": [
        { "id": "A-1.1", "holder": "ada", "outcome": "failed", "spent_micros": 1_250_000 },
        { "id": "A-1.2", "holder": "bob", "outcome": "completed", "spent_micros": 300 },
    ] });
    let pools = json!({ "items": [
        { "pool": "budget day", "money": { "limit": "12.50", "reserved": "0.00", "spent": "1.25" } },
    ] });
    expect![[r#"
        T-1        $1.2503  One
                     $1.25  A-1.1  ada  failed
                   $0.0003  A-1.2  bob  completed
        budget budget day: 1.25 of 12.50
    "#]]
    .assert_eq(&printed(&["cost", "1"], &[task, attempts, pools]).await);
}

#[tokio::test]
async fn every_setting_says_where_it_comes_from() {
    let mut machine = Machine::silent();
    machine.around.project = Some("shop".to_owned());
    let printed =
        machine.types(&["config", "show", "--origin", "--url", "http://127.0.0.1:7117"]).await;
    assert_eq!(printed.exit, 0, "{printed:?}");
    let line =
        |name: &str| printed.out.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    assert!(line("server").is_some_and(|line| line.ends_with("flag --url")), "{printed:?}");
    assert!(
        line("project ").is_some_and(|line| line.ends_with("environment BATON_PROJECT")),
        "{printed:?}"
    );
    assert!(line("output").is_some_and(|line| line.ends_with("default")), "{printed:?}");
}

#[tokio::test]
async fn help_knows_topics_and_commands_and_nothing_else() {
    let machine = Machine::silent();
    for words in
        [&["help", "filters"][..], &["help", "exit-codes"], &["help", "task", "create"], &["help"]]
    {
        let printed = machine.types(words).await;
        assert!(printed.exit == 0 && !printed.out.is_empty(), "{words:?}: {printed:?}");
    }
    let wrong = machine.types(&["help", "filter"]).await;
    assert_eq!(wrong.exit, 3, "{wrong:?}");
    assert!(wrong.err.contains("filters"), "{wrong:?}");
}

#[tokio::test]
async fn the_manual_page_is_what_was_reviewed() {
    let printed = Machine::silent().types(&["help", "man"]).await;
    expect_file!["../../../baton.1"].assert_eq(&printed.out);
}

#[tokio::test]
async fn nothing_goes_before_somebody_has_seen_what_would() {
    let machine = Machine::silent();
    std::fs::create_dir(machine.data()).expect("there is room");
    let printed = machine.types(&["uninstall", "--data"]).await;
    assert_eq!(printed.exit, 0, "{printed:?}");
    assert!(machine.data().exists() && printed.out.contains("nothing was done"), "{printed:?}");
}
