//! A task goes from one machine to another that shares no files with it, and its work goes with it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::house::House;
use crate::machines::{Line, Machine, changed_work, everything, git, handed_in, house};

/// What an agent does that leaves something of every sort: committed, changed, new, linked, runnable, gone.
const LEAVES: &str = "run git config user.name a && git config user.email a@b.c && echo kept > kept.txt && \
                      git add -A && git commit -qm Kept && echo two >> plan.txt && printf 'new\\000\\377' > new.bin && \
                      printf '#!/bin/sh\\n' > run.sh && chmod +x run.sh && ln -s kept.txt link && rm README\n";

/// What the next one does: its steps are counted on from where the first was.
const GOES_ON: &str = "say a\nsay b\nrun ls -A > seen.txt\ncomplete Both\n";

/// The first does its part, tells so, and reads a pipe.
fn first(house: &House) -> String {
    let pipe = house.pipe("pipe");
    format!("{LEAVES}checkpoint Half\nrun cat {}\ncomplete Alone\n", pipe.display())
}

fn goes_on(house: &House, ann: &Machine, bob: &mut Machine) {
    bob.works(house, &house.url);
    let logs = || format!("{}{}{}", house.logs(), ann.log(), bob.log());
    assert_eq!(house.waits(), 0, "{}", logs());
    let (mut theirs, mine) = (everything(&bob.tree(1)), everything(&ann.tree(1)));
    assert!(theirs.remove(Path::new("seen.txt")).is_some(), "{theirs:?}");
    assert_eq!(theirs, mine, "{}", logs());
    assert_eq!(mine.len(), 5, "{mine:?}");
    for question in [&["log", "--format=%H %an %s"][..], &["stash", "list"]] {
        assert_eq!(git(&bob.tree(1), question), git(&ann.tree(1), question));
    }
    let status = git(&bob.tree(1), &["status", "--porcelain"]);
    assert_eq!(status, " D README\n M plan.txt\n?? link\n?? new.bin\n?? run.sh\n?? seen.txt\n");
}

#[test]
fn a_task_goes_on_elsewhere_with_its_uncommitted_files() {
    let house = house();
    let mut ann = Machine::new(&house, "ann", &first(&house));
    let mut bob = Machine::new(&house, "bob", GOES_ON);
    ann.works(&house, &house.url);
    let reads = house.opened("pipe");
    ann.stops();
    drop(reads);
    goes_on(&house, &ann, &mut bob);
    assert_eq!(house.outcomes(), ["released", "completed"]);
    let told = handed_in(&house, 1).pop().expect("it was handed in");
    assert_eq!(told["git"]["bundle"].as_str().map(str::len), Some(64), "{told}");
}

#[test]
fn a_machine_without_the_repository_goes_on_from_what_the_server_has() {
    let house = house();
    let mut ann = Machine::new(&house, "ann", &first(&house));
    let mut bob = Machine::new(&house, "bob", GOES_ON);
    ann.works(&house, &house.url);
    let reads = house.opened("pipe");
    ann.stops();
    drop(reads);
    fs::remove_dir_all(bob.clone_of_project()).expect("it is ours");
    goes_on(&house, &ann, &mut bob);
}

#[test]
fn whoever_comes_back_goes_on_from_the_others_work_and_not_from_its_own() {
    let house = house();
    let pipe = house.pipe("pipe");
    let held = format!("edit a.txt ann\ncheckpoint One\nrun cat {}\ncomplete x\n", pipe.display());
    let mut ann = Machine::new(&house, "ann", &held);
    ann.works(&house, &house.url);
    let reads = house.opened("pipe");
    ann.stops();
    drop(reads);
    let held = format!("say x\nsay x\nedit a.txt bob\nrun cat {}\ncomplete x\n", pipe.display());
    let mut bob = Machine::new(&house, "bob", &held);
    bob.works(&house, &house.url);
    let reads = house.opened("pipe");
    bob.stops();
    drop(reads);
    ann.steps("say x\nsay x\nedit a.txt again\ncomplete Done\n");
    ann.works(&house, &house.url);
    assert_eq!(house.waits(), 0, "{}{}", house.logs(), ann.log());
    let text = fs::read_to_string(ann.tree(2).join("a.txt")).expect("it is there");
    assert_eq!(text, "ann\nbob\nagain\n");
}

#[test]
fn a_machine_that_dies_while_it_sends_loses_what_it_was_sending_and_nothing_before() {
    let house = house();
    // Nobody says that it is gone: its lease ends.
    house.types(&["task", "edit", "T-1", "--policy", r#"{"lease":"10s"}"#]);
    let (one, two) = (house.pipe("one"), house.pipe("two"));
    let steps = format!(
        "edit early.txt yes\ncheckpoint One\nrun cat {}\nedit late.txt yes\ncheckpoint Two\nrun cat {}\n",
        one.display(),
        two.display()
    );
    let mut ann = Machine::new(&house, "ann", &steps);
    let line = Line::to(&house);
    ann.works(&house, &line.url);
    let mut pipe = house.opened("one");
    changed_work(&house);
    line.stalls();
    pipe.write_all(b"go on\n").expect("the agent reads");
    drop(pipe);
    line.is_stuck();
    ann.dies("A-1.1");
    let mut bob = Machine::new(&house, "bob", "say a\nsay b\nsay c\nsay d\nsay e\ncomplete Done\n");
    bob.works(&house, &house.url);
    // Whoever waits hears that a death is not proved; the run goes on all the same.
    let attempt = ended(&house, "A-1.2");
    assert_eq!(attempt["outcome"], "completed", "{attempt}{}{}", ann.log(), bob.log());
    let found = everything(&bob.tree(1));
    assert!(found.contains_key(Path::new("early.txt")), "{found:?}");
    assert!(!found.contains_key(Path::new("late.txt")), "it never came: {found:?}");
}

#[test]
fn work_that_is_damaged_is_refused_and_nobody_begins_from_nothing() {
    let house = house();
    let mut ann = Machine::new(&house, "ann", &first(&house));
    let ran = house.path("ran");
    let steps = format!("say a\nsay b\nrun touch {}\ncomplete Alone\n", ran.display());
    let mut bob = Machine::new(&house, "bob", &steps);
    ann.works(&house, &house.url);
    let reads = house.opened("pipe");
    ann.stops();
    drop(reads);
    let told = handed_in(&house, 1).pop().expect("it was handed in");
    let digest = told["git"]["bundle"].as_str().expect("it has a name").to_owned();
    let blob = blob(&house.data().join("blobs"), &digest).expect("it is kept");
    let mut bytes = fs::read(&blob).expect("it is ours");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    drop(fs::remove_file(&blob));
    fs::write(&blob, bytes).expect("it is ours");
    bob.works(&house, &house.url);
    let attempt = ended(&house, "A-1.2");
    assert_eq!(attempt["outcome"], "failed", "{attempt}{}", bob.log());
    assert_eq!(attempt["code"], "no_handoff", "{attempt}");
    assert!(!ran.exists(), "its agent began from nothing");
}

/// Waits until an attempt is over.
fn ended(house: &House, attempt: &str) -> Value {
    for _ in 0..100 {
        let version = house.types(&["task", "show", "T-1"])["version"].to_string();
        let shown = house.tries(&["attempt", "show", attempt]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        if shown["outcome"].is_string() {
            return shown;
        }
        house.tries(&["run", "wait", "T-1", "--since", &version, "--wait", "10s"]);
    }
    panic!("{attempt} does not end: {}", house.logs());
}

/// Where a blob is among the server's.
fn blob(folder: &Path, digest: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.display().to_string().replace('/', "").contains(digest) {
                return Some(path);
            }
        }
    }
    None
}
