//! From a task to its end, without anybody in between.

use std::fs;

use crate::house::{House, text_of};

#[test]
fn a_task_is_worked_on_by_an_agent_and_completed_with_proof() {
    let mut house = House::served(
        "say I begin.\nedit greeting.txt Good morning\ncheckpoint The greeting is there\n\
         use 10 5 300\ncomplete It is written\n",
    );
    assert_eq!(house.work_on(&["--once"])["running"], 0);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(text_of(&house.work().join("greeting.txt")), "Good morning\n");
    house.worker_ends();
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_eq!(attempt["outcome"], "completed", "{attempt}");
    assert_ne!(attempt["death"], "none", "{attempt}");
    assert_eq!(attempt["spent_micros"], 300, "{attempt}");
    // Everything is told, so nothing secret is left of it.
    let left = house.data().join("worker/attempts/A-1.1");
    let names = fs::read_dir(&left).expect("it is kept").filter_map(Result::ok);
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert!(
        names.iter().all(|name| !["spec.json", "card.json", "outbox"].iter().any(|it| name == it)),
        "{names:?}"
    );
}

#[test]
fn an_agent_gets_its_own_token_and_nothing_of_the_worker() {
    let mut house =
        House::served("run env > env.txt\nrun ls -A \"$HOME\" > home.txt\ncomplete Told\n");
    let settings = house.data().join("worker.toml");
    let told = text_of(&settings);
    fs::write(house.path("credential"), "secret").expect("there is room");
    let more = format!(
        "env = {{ EDITOR = 'ed' }}\nfiles = {{ '~/.demo/key' = '{}' }}\n",
        house.path("credential").display()
    );
    fs::write(&settings, told + &more).expect("there is room");
    house.work_on(&["--once"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    let env = text_of(&house.work().join("env.txt"));
    let names: Vec<_> = env.lines().filter_map(|line| line.split('=').next()).collect();
    for name in ["BATON_CLAIM_TOKEN", "BATON_SOCKET", "BATON_PROJECT", "HOME", "EDITOR", "PATH"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    for name in ["BATON_HOME", "BATON_KEY", "BATON_KEY_FILE", "BATON_LOG", "BATON_OUTPUT"] {
        assert!(!names.contains(&name), "{name} is there: {names:?}");
    }
    assert_eq!(text_of(&house.work().join("home.txt")), ".demo\n");
    house.worker_ends();
    let home = house.work().with_file_name("home");
    assert!(!home.join(".demo/key").exists(), "what signed it in is taken back");
}

#[test]
fn an_agent_that_says_nothing_has_ended_without_a_result() {
    let mut house = House::served("lie All done.\n");
    house.work_on(&["--once"]);
    house.worker_ends();
    assert_eq!(house.outcomes(), ["ended_without_result"], "{}", house.logs());
}

#[test]
fn after_a_crash_the_next_attempt_goes_on_after_the_last_checkpoint() {
    let mut house = House::served(
        "edit a.txt one\ncheckpoint One\nrun test -e broken || { touch broken; kill -9 $PPID; }\n\
         edit a.txt two\ncomplete Both\n",
    );
    house.work_on(&[]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(text_of(&house.work().join("a.txt")), "one\ntwo\n");
    assert_eq!(house.outcomes(), ["failed", "completed"]);
}

#[test]
fn a_task_that_wants_an_agent_that_is_not_here_is_left_alone() {
    let mut house = House::empty("complete Done\n");
    house.serve();
    house.types(&["project", "add", "shop"]);
    house.types(&[
        "add",
        "Other",
        "-P",
        "shop",
        "--stage",
        "coding",
        "--capabilities",
        "agent:other",
    ]);
    house.types(&["add", "Own", "-P", "shop", "--stage", "coding", "--capabilities", "agent:demo"]);
    house.work_on(&["--once"]);
    house.worker_ends();
    assert_eq!(house.types(&["task", "show", "T-1"])["badge"], "queued");
    assert_eq!(house.types(&["task", "show", "T-2"])["badge"], "done_unverified");
}

#[test]
fn a_worker_elsewhere_joins_with_a_url_and_a_key() {
    let mut house = House::served("checkpoint Begun\nedit a.txt far\ncomplete Done\n");
    let other = house.work_elsewhere(&house.url.clone(), &["--once"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    house.worker_ends();
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_eq!(attempt["holder"], "far", "{attempt}");
    assert_eq!(attempt["outcome"], "completed", "{attempt}");
    assert!(other.join("worker/attempts/A-1.1").exists());
}

#[test]
fn an_agent_without_its_token_is_nobody() {
    let mut house = House::served(
        "run if env -u BATON_CLAIM_TOKEN baton ls > out.txt 2>&1; then touch owner; fi\n\
         run if baton key list > keys.txt 2>&1; then touch keys; fi\ncomplete Tried\n",
    );
    house.work_on(&["--once"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    let told = text_of(&house.work().join("out.txt"));
    assert!(!house.work().join("owner").exists() && told.contains("claim token"), "{told}");
    assert!(!house.work().join("keys").exists(), "it may not look at keys");
}

#[test]
fn a_git_project_is_worked_on_in_a_worktree_and_its_work_is_kept() {
    let mut house = House::with_repository(
        "edit a.txt one\ncheckpoint One\nrun test -e broken || { touch broken; kill -9 $PPID; }\n\
         edit a.txt two\ncomplete Both\n",
    );
    let root = house.path("shop");
    house.work_on(&[]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    let trees = house.types(&["worktree", "list"]);
    let tree = trees["worktrees"][0]["path"].as_str().unwrap_or_else(|| panic!("{trees}"));
    let tree = std::path::Path::new(tree);
    assert_eq!(text_of(&tree.join("a.txt")), "one\ntwo\n");
    assert_eq!(text_of(&tree.join("README")), "hello\n");
    assert!(!root.join("a.txt").exists(), "the project's own folder is as it was");
    assert_eq!(house.outcomes(), ["failed", "completed"]);
    let kept = house.types(&["checkpoint", "list", "T-1"]);
    let told = kept.to_string();
    assert!(told.contains("\"snapshot\""), "{told}");
}

#[test]
fn a_short_turn_that_changed_something_is_no_stall() {
    for (steps, badge) in
        [("edit a.txt one\nlie Done\n", "queued"), ("lie Done\n", "ended_without_result")]
    {
        let mut house = House::with_repository(steps);
        house.types(&["task", "edit", "T-1", "--policy", r#"{"stalls_max":1}"#]);
        house.work_on(&["--once"]);
        house.worker_ends();
        assert_eq!(house.outcomes(), ["ended_without_result"], "{}", house.logs());
        let task = house.types(&["task", "show", "T-1"]);
        assert_eq!(task["badge"], badge, "{task} {}", house.logs());
    }
}
