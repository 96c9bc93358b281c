//! Done only with proof: gates run on the exact commit, whatever the agent says.

use std::fs;
use std::process::Command;

use crate::house::House;

/// A project whose `baton.toml` is committed, and an agent that does this.
fn house(toml: &str, steps: &str) -> House {
    let house = House::with_repository(steps);
    let root = house.path("shop");
    fs::write(root.join("baton.toml"), format!("[project]\nname = \"shop\"\n{toml}"))
        .expect("there is room");
    git(&house, &["add", "-A"]);
    git(&house, &["commit", "-qm", "What is asked for"]);
    house
}

fn git(house: &House, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(words);
    let out = command.current_dir(house.path("shop")).output().expect("git is there");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Waits until the first run is over, parked or waits for somebody.
fn settled(house: &House) -> serde_json::Value {
    let mut run = serde_json::Value::Null;
    crate::house::until("the run settles", || {
        run = house.types(&["run", "show", "R-1.1"]);
        let state = run["state"].as_str().unwrap_or_default();
        ["completed", "failed", "cancelled", "blocked", "submitted"].contains(&state)
    });
    run
}

#[test]
fn a_gate_runs_on_the_exact_commit_and_its_receipt_can_be_checked_anywhere() {
    let mut house = house(
        "[contract.gates.tests]\ncommand = 'grep -q morning greeting.txt && git status --porcelain'\n",
        "edit greeting.txt Good morning\ncomplete It is written\n",
    );
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["state"], "completed", "{run}\n{}", house.logs());
    assert_eq!(run["result"], "verified", "{run}");
    let mut export = house.command(&["receipt", "export", "T-1", "tests"]);
    let told = export.env_remove("BATON_OUTPUT").output().expect("it starts");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let file = house.path("tests.receipt");
    fs::write(&file, &told.stdout).expect("there is room");
    let checked = house.types(&["receipt", "verify", &file.display().to_string()]);
    assert_eq!(checked["statement"]["found"], "holds", "{checked}");
    assert!(checked["statement"]["tree"].is_string(), "{checked}");
    assert!(checked["statement"]["environment"].is_string(), "{checked}");
    let mut forged = told.stdout.clone();
    let last = forged.len() / 2;
    forged[last] ^= 1;
    fs::write(&file, forged).expect("there is room");
    assert!(!house.tries(&["receipt", "verify", &file.display().to_string()]).status.success());
}

#[test]
fn a_failed_gate_hands_its_evidence_to_the_next_attempt() {
    let mut house = house(
        "[contract.gates.tests]\ncommand = 'echo so many: $(wc -l < a.txt); test $(wc -l < a.txt) -ge 2'\n",
        "edit a.txt one more\ncomplete It is done\n",
    );
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["state"], "completed", "{run}\n{}", house.logs());
    assert_eq!(run["result"], "verified", "{run}");
    assert_eq!(house.outcomes(), ["ended_without_result", "completed"], "{}", house.shown());
    let packet = house.types(&["run", "handoff", "R-1.1"]);
    assert!(packet.to_string().contains("tests"), "{packet}");
}

#[test]
fn an_agent_that_edits_what_is_asked_of_it_is_held_to_what_was_asked_and_looked_at() {
    let mut house = house(
        "[contract]\nprotected = ['tests/**']\n[contract.gates.tests]\ncommand = 'test -e greeting.txt'\n",
        "edit greeting.txt Hello\nrun rm baton.toml\ncomplete It is done\n",
    );
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["state"], "submitted", "{run}\n{}", house.logs());
    let inbox = house.types(&["inbox"]);
    assert_eq!(inbox["items"][0]["need"], "verdict", "{inbox}");
    let task = house.types(&["task", "show", "T-1"]);
    assert_eq!(task["contract"][0]["id"], "tests", "what was asked still is: {task}");
}

#[test]
fn what_nobody_can_read_parks_the_run_and_names_the_field() {
    let mut house = house(
        "[contract.gates.tests]\ncommand = 'true'\ntimeout = '0s'\n",
        "complete It is done\n",
    );
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["state"], "blocked", "{run}\n{}", house.logs());
    let said = run.to_string();
    assert!(said.contains("contract.gates.tests.timeout"), "{said}");
    fs::write(house.path("shop/baton.toml"), "[contract.gates.tests]\ncommand = 'true'\n")
        .expect("there is room");
    git(&house, &["commit", "-qam", "Put right"]);
    house.types(&["run", "unblock", "T-1", "--reason", "It is put right"]);
    crate::house::until("it is done now", || {
        house.types(&["run", "show", "R-1.1"])["result"] == "verified"
    });
}

#[test]
fn what_was_never_committed_is_not_asked_for_silently() {
    let mut house = House::with_repository("complete It is done\n");
    fs::write(house.path("shop/baton.toml"), "[contract.gates.tests]\ncommand = 'true'\n")
        .expect("there is room");
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["state"], "blocked", "{run}\n{}", house.logs());
    assert!(run.to_string().contains("git commit"), "{run}");
}

#[test]
fn a_reviewer_has_the_last_word_and_never_about_their_own_work() {
    let mut house = house(
        "[contract.criteria.guide]\ntext = 'The guide tells of it'\n[contract.gates.tests]\ncommand = 'true'\n",
        "edit guide.md It does\ncomplete It is done\n",
    );
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["state"], "submitted", "{run}\n{}", house.logs());
    let explained = house.types(&["explain", "T-1"]);
    assert!(explained.to_string().contains("review_open"), "{explained}");
    let rejected = ["review", "T-1", "reject", "Not yet", "--missing", "An example"];
    house.types(&rejected);
    crate::house::until("somebody goes on, and it waits for a review again", || {
        let run = house.types(&["run", "show", "R-1.1"]);
        run["state"] == "submitted" && house.outcomes().len() == 2
    });
    house.types(&["review", "T-1", "approve", "Now it does"]);
    let run = house.types(&["run", "show", "R-1.1"]);
    assert_eq!(run["result"], "verified", "{run}");
    let receipts = house.types(&["receipt", "list", "T-1"]).to_string();
    assert!(receipts.contains("guide"), "{receipts}");
}

#[test]
fn a_gate_sees_no_secret_and_nothing_of_the_agent() {
    let mut house = house(
        "[contract.gates.looks]\ncommand = 'env; ls -A $HOME; test -z \"$BATON_CLAIM_TOKEN$BATON_SOCKET$BATON_URL\" && ! test -e built/left'\n",
        "run mkdir -p built && echo left > built/left && echo built > .gitignore\ncomplete It is done\n",
    );
    let settings = house.data().join("worker.toml");
    let told = fs::read_to_string(&settings).expect("it is there");
    fs::write(house.path("credential"), "sesame-4711").expect("there is room");
    let more = format!(
        "env = {{ PROVIDER_KEY = 'sesame-4711' }}\nfiles = {{ '~/.demo/key' = '{}' }}\n",
        house.path("credential").display()
    );
    fs::write(&settings, told + &more).expect("there is room");
    house.work_on(&[]);
    let run = settled(&house);
    assert_eq!(run["result"], "verified", "{run}\n{}", house.logs());
    let receipts = house.types(&["receipt", "list", "T-1"]);
    let digest = receipts["items"][0]["evidence"].as_str().expect("it said something").to_owned();
    let log = find_blob(&house.data().join("blobs"), &digest).expect("it was handed in");
    let log = String::from_utf8_lossy(&log).into_owned();
    assert!(log.contains("PATH="), "{log}");
    for secret in ["sesame-4711", ".demo", "BATON_"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

/// The bytes of a blob, wherever in the folder it is kept.
fn find_blob(folder: &std::path::Path, digest: &str) -> Option<Vec<u8>> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let found = match path.is_dir() {
            true => find_blob(&path, digest),
            false if digest.ends_with(&name) || name == digest => fs::read(&path).ok(),
            false => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
