//! What is typed, and what of it reaches the server.

use clap::Command;
use expect_test::expect_file;
use serde_json::{Value, json};

use super::{Machine, typed};
use crate::aliases::ALIASES;
use crate::cli::tree::tree;
use crate::client::tests::{Says, problem};
use crate::operations;
use crate::problem::CODES;

#[test]
fn the_command_tree_is_sound() {
    tree().debug_assert();
}

#[test]
fn every_everyday_command_stands_for_an_operation() {
    for alias in ALIASES {
        let entry = alias.entry().unwrap_or_else(|| panic!("{} stands for nothing", alias.name));
        for name in alias.positionals {
            assert!(entry.arguments.field(name).is_some(), "{} has no {name}", alias.name);
        }
        for (name, _) in alias.fixed {
            assert!(entry.arguments.field(name).is_some(), "{} has no {name}", alias.name);
        }
    }
}

#[test]
fn every_operation_can_be_typed() {
    let tree = tree();
    for entry in operations::all() {
        let noun = tree.find_subcommand(entry.about.noun).expect("its noun is a command");
        assert!(noun.find_subcommand(entry.about.verb).is_some(), "{}", entry.about.name());
    }
}

#[test]
fn the_whole_tree_is_a_text_to_review() {
    let mut page = String::from("Every command and what it takes. ./check bless rewrites it.\n");
    let mut tree = tree();
    tree.build();
    write(&tree, "baton", &mut page);
    expect_file!["../../../commands.txt"].assert_eq(&page);
}

fn write(command: &Command, path: &str, page: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    page.push_str(&format!("\n{path}: {about}\n"));
    let root = path == "baton";
    for argument in command.get_arguments() {
        let name = argument.get_id().as_str();
        // What every command takes is told once.
        if name == "help"
            || name == "version"
            || (name.starts_with('@') && !root && name != "@input")
        {
            continue;
        }
        let shown = argument.to_string();
        let must = if argument.is_required_set() { "*" } else { "" };
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let values: Vec<_> = argument.get_possible_values();
        let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        let values = match values.is_empty() || name.starts_with('@') || values == ["true", "false"]
        {
            true => String::new(),
            false => format!(" [{}]", values.join("|")),
        };
        page.push_str(format!("  {shown}{must}  {help}{values}").trim_end());
        page.push('\n');
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write(inner, &format!("{path} {}", inner.get_name()), page);
    }
}

async fn sent(machine: Machine, words: &[&str]) -> (String, Value) {
    let printed = machine.types(words).await;
    assert_eq!(printed.exit, 0, "{words:?}: {}", printed.err);
    let seen = machine.puppet().seen().pop().expect("something was sent");
    let body = serde_json::from_str(&seen.body).unwrap_or(Value::Null);
    (format!("{} {}", seen.method, seen.target), body)
}

fn agreeing() -> Machine {
    Machine::serving(vec![Says::Answer(200, json!({ "id": "T-1" }), None)])
}

#[tokio::test]
async fn flags_become_arguments() {
    let words = [
        "add",
        "Fix it",
        "-P",
        "shop",
        "--priority",
        "high",
        "--labels",
        "a",
        "--labels",
        "b",
        "--draft",
        "--depends-on",
        "T-1",
        "--body",
        "- one",
    ];
    let (target, body) = sent(agreeing(), &words).await;
    assert_eq!(target, "POST /v1/tasks");
    let expected = json!({
        "title": "Fix it", "project": "shop", "priority": "high", "labels": ["a", "b"],
        "draft": true, "depends_on": ["T-1"], "body": "- one",
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn the_run_of_a_claim_token_need_not_be_named() {
    let (target, body) = sent(agreeing().with_token(), &["checkpoint", "half way"]).await;
    assert_eq!(
        (target.as_str(), body),
        ("POST /v1/runs/mine/checkpoints", json!({ "summary": "half way" }))
    );
    let (target, _) = sent(agreeing().with_token(), &["run", "show"]).await;
    assert_eq!(target, "GET /v1/runs/mine");
    let (target, _) = sent(agreeing().with_token(), &["run", "show", "R-1.2"]).await;
    assert_eq!(target, "GET /v1/runs/R-1.2");
    let printed = agreeing().types(&["checkpoint", "half way"]).await;
    assert_eq!(printed.exit, 2);
    assert!(printed.err.contains("`run` is missing") && printed.err.contains("BATON_CLAIM_TOKEN"));
}

#[tokio::test]
async fn show_tells_a_task_from_a_run() {
    assert_eq!(sent(agreeing(), &["show", "T-1"]).await.0, "GET /v1/tasks/T-1");
    assert_eq!(sent(agreeing(), &["show", "R-1.2"]).await.0, "GET /v1/runs/R-1.2");
}

#[tokio::test]
async fn flags_win_over_the_input_and_the_input_over_the_environment() {
    let mut machine = agreeing();
    machine.around.project = Some("usual".into());
    let path = machine.path("input.json");
    std::fs::write(&path, r#"{"title":"from the file","kind":"bug","project":"filed"}"#)
        .expect("it can be written");
    let (_, body) = sent(machine, &["add", "--input", typed(&path), "--kind", "chore"]).await;
    assert_eq!(body, json!({ "title": "from the file", "kind": "chore", "project": "filed" }));
    let mut machine = agreeing();
    machine.around.project = Some("usual".into());
    let (_, body) = sent(machine, &["add", "x"]).await;
    assert_eq!(body["project"], "usual");
    let machine = agreeing();
    std::fs::write(machine.path("input.json"), "[1]").expect("it can be written");
    let path = machine.path("input.json");
    let printed = machine.types(&["add", "--input", typed(&path)]).await;
    assert_eq!(printed.exit, 2);
    assert!(printed.err.contains("must be an object of JSON"), "{}", printed.err);
}

#[tokio::test]
async fn no_word_is_guessed() {
    for words in [&["ad", "x"][..], &["task", "creat"], &["add", "x", "--prio", "high"]] {
        let printed = Machine::silent().types(words).await;
        assert_eq!(printed.exit, 2, "{words:?}");
    }
}

#[tokio::test]
async fn every_code_has_its_exit() {
    for code in CODES.iter().filter(|code| code.word != "unknown") {
        let body = problem(code.word, code.status, "did_not_happen");
        let machine = Machine::serving(vec![Says::Answer(code.status, body, None)]);
        let printed = machine.types(&["ls"]).await;
        assert_eq!(printed.exit, code.exit, "{}", code.word);
        assert_eq!((printed.out.as_str(), printed.err.as_str()), ("", "error: x\n  why: y\n"));
    }
}

#[tokio::test]
async fn each_invocation_has_a_key_of_its_own_unless_one_is_given() {
    let machine = agreeing();
    for _ in 0..2 {
        machine.types(&["add", "x", "-P", "shop"]).await;
    }
    machine.types(&["add", "x", "-P", "shop", "--idempotency-key", "k", "--if-match", "3"]).await;
    machine.types(&["ls"]).await;
    let seen = machine.puppet().seen();
    let keys: Vec<_> = seen.iter().map(|one| one.key.as_deref()).collect();
    assert!(keys[0] != keys[1] && keys[0].is_some_and(|key| key.starts_with("cli-")));
    assert_eq!((keys[2], keys[3]), (Some("k"), None));
    assert_eq!(seen[2].if_match.as_deref(), Some("\"3\""));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_exits_124_and_says_how_to_ask_again() {
    let machine = Machine::serving(vec![Says::HangsUp]);
    let printed = machine
        .types(&["add", "x", "-P", "shop", "--timeout", "10ms", "--idempotency-key", "k"])
        .await;
    assert_eq!(printed.exit, 124);
    assert!(printed.err.contains("--timeout ran out"), "{}", printed.err);
    assert!(printed.err.contains("--idempotency-key k"), "{}", printed.err);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_can_be_read_by_a_program() {
    let machine = Machine::serving(vec![Says::HangsUp]);
    let typed = ["add", "x", "-P", "shop", "--timeout", "10ms", "--idempotency-key", "k", "--json"];
    let printed = machine.types(&typed).await;
    let error: Value = serde_json::from_str(&printed.err).expect("an object on one line");
    assert_eq!(printed.exit, 124);
    assert_eq!(error["error"]["certainty"], "unknown");
    assert_eq!(error["error"]["next"][0], "the same command with --idempotency-key k");
}

#[tokio::test]
async fn an_input_that_says_a_thing_twice_is_refused_as_the_server_would() {
    let machine = Machine::silent();
    let path = machine.path("input.json");
    std::fs::write(&path, r#"{"project":"shop","title":"a","title":"b"}"#).expect("there is room");
    let printed = machine.types(&["add", "--input", typed(&path)]).await;
    assert_eq!(printed.exit, 2);
    assert!(printed.err.contains("\"title\" stands twice"), "{}", printed.err);
}

/// A place that takes nothing in.
struct Broken(std::io::ErrorKind);

impl std::io::Write for Broken {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Err(self.0.into())
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_is_no_success() {
    let machine = Machine::silent();
    let mut full = Broken(std::io::ErrorKind::StorageFull);
    let printed = machine.types_into(&["completions", "bash"], &mut full).await;
    assert_eq!(printed.exit, 1);
    assert!(printed.err.contains("the answer could not be written"), "{}", printed.err);
    let mut gone = Broken(std::io::ErrorKind::BrokenPipe);
    let printed = machine.types_into(&["completions", "bash"], &mut gone).await;
    assert_eq!((printed.exit, printed.err.as_str()), (0, ""), "a reader may stop reading");
}

#[tokio::test]
async fn the_usual_project_is_not_meant_where_something_else_is_named() {
    let usual = || {
        let mut machine = agreeing();
        machine.around.project = Some("usual".into());
        machine
    };
    let (_, body) = sent(usual(), &["scheduler", "resume"]).await;
    assert_eq!(body.get("project"), None, "the scheduler is no project");
    let (_, body) = sent(usual(), &["scheduler", "resume", "-P", "shop"]).await;
    assert_eq!(body["project"], "shop");
    let (_, body) = sent(usual(), &["run", "claim", "--task", "T-5"]).await;
    assert_eq!((body.get("project"), &body["task"]), (None, &json!("T-5")));
    let (_, body) = sent(usual(), &["run", "claim"]).await;
    assert_eq!(body["project"], "usual");
    let (target, _) = sent(usual(), &["run", "list", "--task", "T-5"]).await;
    assert_eq!(target, "GET /v1/runs?task=T-5");
    let (target, _) = sent(usual(), &["run", "list"]).await;
    assert_eq!(target, "GET /v1/runs?project=usual");
}

#[tokio::test]
async fn without_a_server_every_command_exits_6_and_says_how_to_start_one() {
    let printed = Machine::silent().types(&["ls"]).await;
    let expected = "error: The server cannot be reached\n  why: no server answers at …/s: nothing \
                    listens there\n  next: baton serve\n";
    assert_eq!((printed.exit, printed.err.as_str()), (6, expected));
    let printed = Machine::silent().types(&["ls", "--json"]).await;
    let error: Value = serde_json::from_str(&printed.err).expect("an object on one line");
    assert_eq!(error["error"]["code"], "unreachable");
    let printed = Machine::silent().types(&[]).await;
    assert_eq!((printed.exit, printed.out.contains("next: baton serve")), (0, true));
}

#[tokio::test]
async fn ids_are_written_in_one_way_however_they_are_typed() {
    for id in ["128", "t-128", "T-128"] {
        assert_eq!(sent(agreeing(), &["show", id]).await.0, "GET /v1/tasks/T-128", "{id}");
        assert_eq!(sent(agreeing(), &["explain", id]).await.0, "GET /v1/tasks/T-128/explain");
        let (target, _) = sent(agreeing(), &["cancel", id, "enough"]).await;
        assert_eq!(target, "POST /v1/runs/T-128/cancel", "{id}");
    }
    for id in ["128.2", "r-128.2", "R-128.2"] {
        assert_eq!(sent(agreeing(), &["show", id]).await.0, "GET /v1/runs/R-128.2", "{id}");
    }
    let (target, _) = sent(agreeing(), &["attempt", "show", "a-128.3"]).await;
    assert_eq!(target, "GET /v1/attempts/A-128.3");
    let words = ["add", "128", "-P", "shop", "--depends-on", "7", "--parent", "t-8"];
    let (_, body) = sent(agreeing(), &words).await;
    assert_eq!((&body["title"], &body["parent"]), (&json!("128"), &json!("T-8")));
    assert_eq!(body["depends_on"], json!(["T-7"]));
    let (target, _) = sent(agreeing(), &["show", "12x"]).await;
    assert_eq!(target, "GET /v1/tasks/12x", "what is no id is left for the server to refuse");
}

#[tokio::test]
async fn a_mistake_is_told_as_what_why_and_what_next() {
    let machine = Machine::silent();
    for (words, why, next) in [
        (&["lst"][..], "'ls'", "baton --help"),
        (&["add"], "<TITLE>", "baton add --help"),
        (&["task", "create", "--kind", "novel"], "'novel'", "baton task create --help"),
        (&["claim", "--blocked=perhaps"], "'perhaps'", "baton claim --help"),
    ] {
        let printed = machine.types(words).await;
        let [what, told, then] = printed.err.lines().collect::<Vec<_>>()[..] else {
            panic!("three lines: {}", printed.err);
        };
        assert!(what.starts_with("error: ") && told.starts_with("  why: "), "{}", printed.err);
        assert!(told.contains(why), "{told}");
        assert_eq!((then, printed.exit), (format!("  next: {next}").as_str(), 2));
    }
}

fn as_it_is(badge: &str, needs: &Value) -> Says {
    let task = json!({ "id": "T-1", "badge": badge, "stage": "coding", "title": "x", "version": 3,
        "needs": needs });
    Says::Answer(200, task, None)
}

#[tokio::test]
async fn whoever_waits_for_a_task_learns_how_it_came_out() {
    let waited = Says::Answer(200, json!({ "changed": true, "wait": "50s", "run": {} }), None);
    for (badge, needs, exit) in [
        ("done", json!([]), 0),
        ("done_unverified", json!([]), 0),
        ("failed", json!(["failure"]), 10),
        ("waiting_for_input", json!(["question"]), 11),
        ("rejected", json!([]), 12),
    ] {
        let says = vec![as_it_is("running", &json!([])), waited.clone(), as_it_is(badge, &needs)];
        let machine = Machine::serving(says);
        let printed = machine.types(&["wait", "1"]).await;
        assert_eq!((printed.exit, printed.err.as_str()), (exit, ""), "{badge}");
        assert!(printed.out.starts_with(&format!("T-1  {badge}")), "{}", printed.out);
        let asked: Vec<_> = machine.puppet().seen().into_iter().map(|one| one.target).collect();
        assert_eq!(asked, ["/v1/tasks/T-1", "/v1/runs/T-1/wait", "/v1/tasks/T-1"]);
        assert_eq!(machine.puppet().seen()[1].body, r#"{"since":3}"#);
    }
}
