//! Work that lands by itself: from a repository and a few tasks to commits on its branch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton::clock::{Stopwatch as _, SystemStopwatch};
use serde_json::Value;

use super::house::{House, text_of};

/// Each agent makes a file that nobody else makes.
const STEPS: &str = "say I begin\nrun date +%N > $(mktemp work.XXXXXX)\ncomplete It is made\n";

/// A repository that is set up as the README says, with this in place of what `init` wrote about its stages.
struct Shop {
    house: House,
    root: PathBuf,
}

impl Shop {
    fn new(steps: &str, pipeline: &str) -> Self {
        let mut house = House::empty(steps);
        let root = house.path("shop");
        fs::create_dir(&root).expect("there is room");
        git(&root, &["init", "-q", "-b", "main"]);
        house.serve();
        let shop = Self { house, root };
        shop.types(&["init", "--yes"]);
        let file = shop.root.join("baton.toml");
        let written = text_of(&file);
        let stages = "stages = [\"coding\", \"qa\", \"merge\"]\nmerge = \"approve\"\n";
        assert!(written.contains(stages), "{written}");
        fs::write(&file, written.replace(stages, pipeline)).expect("it is ours");
        git(&shop.root, &["add", "-A"]);
        git(&shop.root, &["commit", "-qm", "Set up Baton"]);
        shop.types(&["project", "add", "shop"]);
        shop
    }

    /// What a person types in the repository.
    fn types(&self, words: &[&str]) -> Value {
        let out = self.house.command(words).current_dir(&self.root).output().expect("it starts");
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{words:?}: {said}{told}\n{}", self.house.logs());
        serde_json::from_str(&told).expect("it answers JSON")
    }

    fn waits(&self, tasks: &[&str]) {
        let words: Vec<_> = ["wait"].into_iter().chain(tasks.iter().copied()).collect();
        let words = [words, vec!["--timeout", "90s"]].concat();
        let out = self.house.tries(&words);
        let all = self.house.tries(&["task", "list", "--ended"]).stdout;
        let told = String::from_utf8_lossy(&all).into_owned();
        assert!(out.status.success(), "{words:?}: {told}\n{}", self.house.logs());
    }
}

fn git(root: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(words);
    let out = command.current_dir(root).output().expect("git is there");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

/// What the README promises: from an empty repository to five tasks on its branch, each of them proved.
#[test]
fn five_tasks_that_depend_on_each_other_are_coded_checked_and_landed_by_themselves() {
    let watch = SystemStopwatch::start();
    let gates = "merge = \"auto\"\n\n[contract.gates.tests]\ncommand = \"ls work.*\"\n";
    let mut shop = Shop::new(STEPS, gates);
    shop.types(&["add", "Number 1", "--stage", "coding", "-P", "shop"]);
    for number in 2..=5 {
        let (title, on) = (format!("Number {number}"), format!("T-{}", number - 1));
        shop.types(&["add", &title, "--depends-on", &on, "-P", "shop"]);
    }
    shop.house.work_on(&[]);
    shop.waits(&["T-1", "T-2", "T-3", "T-4", "T-5"]);
    println!("five tasks landed in {} ms", watch.micros() / 1_000);
    let log = git(&shop.root, &["log", "--first-parent", "--format=%s", "main"]);
    for number in 1..=5 {
        assert!(log.contains(&format!("feat: Number {number} (T-{number})")), "{log}");
        let task = shop.types(&["task", "show", &format!("T-{number}")]);
        assert_eq!(task["badge"], "done", "it is proved: {task}");
    }
    let files = git(&shop.root, &["ls-files"]);
    assert_eq!(files.lines().filter(|name| name.starts_with("work.")).count(), 5, "{files}");
    assert_eq!(git(&shop.root, &["status", "--porcelain"]), "", "its owner's checkout went along");
    let branches = git(&shop.root, &["branch", "--list", "baton/*"]);
    assert_eq!(branches, "", "what has landed leaves no branch");
    let left = shop.types(&["worktree", "list"]);
    assert_eq!(left["worktrees"].as_array().map(Vec::len), Some(0), "and no worktree: {left}");
    let runs = shop.types(&["run", "list", "--task", "T-1"]).to_string();
    for stage in ["coding", "qa", "merge"] {
        assert!(runs.contains(stage), "{runs}");
    }
    let receipts = shop.types(&["receipt", "list", "T-1"]);
    let count = receipts["items"].as_array().map(Vec::len);
    assert!(count.is_some_and(|count| count >= 2), "of coding and of qa: {receipts}");
}

/// What Baton finds bad goes back to an agent, which is told what was found.
#[test]
fn work_that_fails_in_qa_goes_back_with_its_evidence() {
    let steps = "run baton run handoff mine > /dev/null\n\
                 run if ls try.* 2>/dev/null; then touch fixed; fi; mktemp try.XXXXXX\ncomplete Tried\n";
    let gates =
        "merge = \"auto\"\n\n[stages.merge.contract.gates.fixed]\ncommand = \"test -e fixed\"\n";
    let mut shop = Shop::new(steps, gates);
    shop.types(&["add", "Number 1", "--stage", "coding", "-P", "shop"]);
    shop.house.work_on(&[]);
    shop.waits(&["T-1"]);
    assert!(git(&shop.root, &["ls-files"]).contains("fixed"), "the second try has it");
    let events = shop.types(&["event", "list", "--task", "T-1"]).to_string();
    assert!(events.contains("set_back") && events.contains("merge_gates"), "{events}");
}

#[test]
fn a_person_agrees_before_it_lands_unless_the_file_says_otherwise() {
    let mut shop = Shop::new(STEPS, "stages = [\"coding\", \"merge\"]\n");
    shop.types(&["add", "Number 1", "--stage", "coding", "-P", "shop"]);
    let before = git(&shop.root, &["rev-parse", "main"]);
    shop.house.work_on(&[]);
    assert_eq!(shop.house.waits(), 11, "it waits for a person: {}", shop.house.logs());
    assert_eq!(git(&shop.root, &["rev-parse", "main"]), before);
    shop.types(&["task", "unhold", "T-1", "--reason", "I have looked at it"]);
    shop.waits(&["T-1"]);
    assert_ne!(git(&shop.root, &["rev-parse", "main"]), before);
}

#[test]
fn changes_of_the_owner_are_waited_for_and_explained() {
    let mut shop = Shop::new(STEPS, "stages = [\"coding\", \"merge\"]\nmerge = \"auto\"\n");
    fs::write(shop.root.join("baton.toml"), "# mine\n").expect("it is ours");
    shop.types(&["add", "Number 1", "--stage", "coding", "-P", "shop"]);
    shop.house.work_on(&[]);
    let mut told = String::new();
    super::house::until("it waits", || {
        told = shop.types(&["explain", "T-1"]).to_string();
        told.contains("target branch")
    });
    assert_eq!(text_of(&shop.root.join("baton.toml")), "# mine\n");
    git(&shop.root, &["checkout", "-q", "baton.toml"]);
    shop.types(&["run", "retry", "T-1", "--reason", "It is clean now"]);
    shop.waits(&["T-1"]);
    assert_eq!(git(&shop.root, &["status", "--porcelain"]), "");
}
