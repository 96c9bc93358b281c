//! Worktrees are made ready by the commands of their project, once, before anybody works there.

use crate::house::House;

#[test]
fn a_worktree_is_set_up_once_by_the_commands_of_its_base_commit_and_without_secrets() {
    let settings = "[worktree]\nsetup = ['env > setup.env', 'echo once >> ready.txt']\n";
    let mut house = House::with_settings(
        "run test \"$(cat ready.txt)\" = once\n\
         run if grep -E 'BATON_(CLAIM_TOKEN|SOCKET|URL|KEY)' setup.env; then exit 1; fi\n\
         checkpoint It is ready\n\
         run test -e broken || { touch broken; kill -9 $PPID; }\n\
         run test \"$(cat ready.txt)\" = once\ncomplete Done\n",
        Some(settings),
        "{}",
    );
    house.work_on(&[]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(house.outcomes(), ["failed", "completed"], "it was not set up again");
    let left = std::fs::read_dir(house.data().join("worker/errands")).expect("there were some");
    assert_eq!(left.count(), 0, "nothing is left of them");
}

#[test]
fn a_setup_command_that_fails_is_named_and_is_not_the_agents_fault() {
    let settings = "[worktree]\nsetup = ['echo the lock file is missing >&2; exit 3']\n";
    let policy = r#"{"losses_max": 1}"#;
    let mut house = House::with_settings("complete Done\n", Some(settings), policy);
    house.work_on(&["--once"]);
    house.worker_ends();
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_eq!((&attempt["outcome"], &attempt["code"]), (&"failed".into(), &"setup_failed".into()));
    assert_eq!(attempt["certainty"], "not_started", "{attempt}");
    let why = house.types(&["event", "list", "--task", "T-1"]).to_string();
    for part in ["exit 3", "failed (3)", "the lock file is missing"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let task = house.types(&["task", "show", "T-1"]);
    assert_eq!(task["badge"], "needs_you", "{task}");
}

#[test]
fn settings_that_are_not_understood_start_nobody() {
    let settings = "[worktree]\nset_up = ['true']\n";
    let policy = r#"{"losses_max": 1}"#;
    let mut house = House::with_settings("complete Done\n", Some(settings), policy);
    house.work_on(&["--once"]);
    house.worker_ends();
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    // What a project asks for is read before anything of it: nobody works under a file that is not understood.
    assert_eq!(
        (&attempt["outcome"], &attempt["death"]),
        (&"blocked".into(), &"not_started".into())
    );
    let why = house.types(&["event", "list", "--task", "T-1"]).to_string();
    assert!(why.contains("set_up"), "{why}");
}
