//! A real repository, the real git, and a `baton.toml` that was changed without being committed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cli::tests::{Machine, typed};

fn git(folder: &Path, words: &[&str]) {
    let who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    let ended = Command::new("git").current_dir(folder).args(who).args(words).output();
    let ended = ended.expect("git is here");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

fn repository(machine: &Machine, file: Option<&str>) -> std::path::PathBuf {
    let folder = machine.path("shop");
    fs::create_dir(&folder).expect("a folder");
    git(&folder, &["init", "-q"]);
    fs::write(folder.join("schema.json"), "{}").expect("a file");
    if let Some(text) = file {
        fs::write(folder.join("baton.toml"), text).expect("a file");
    }
    git(&folder, &["add", "-A"]);
    git(&folder, &["commit", "-q", "-m", "first"]);
    folder
}

fn machine() -> Machine {
    let mut machine = Machine::silent();
    machine.around.programs = ["/usr/bin", "/bin", "/usr/local/bin"].map(Into::into).to_vec();
    machine
}

const FILE: &str = "[contract.gates.tests]\ncommand = \"make test\"\n\
                    [contract.artifacts.report]\npath = \"out/report.json\"\nschema = \"schema.json\"\n\
                    [stages.qa.contract.criteria.guide]\ntext = \"The guide says so\"\n";

#[tokio::test]
async fn what_counts_is_in_the_commit_and_not_in_the_folder() {
    let machine = machine();
    let folder = repository(&machine, Some(FILE));
    let check = ["contract", "check", "--dir", typed(&folder)];
    let first = machine.types(&check).await;
    assert_eq!(first.exit, 0, "{first:?}");
    for line in ["tests            `make test` succeeds within 10m", "fits its schema", "protected"]
    {
        assert!(first.out.contains(line), "{}", first.out);
    }
    assert!(!first.out.contains("guide"), "{}", first.out);

    fs::write(folder.join("baton.toml"), "[contract.gates.tests]\ncommand = \"true\"\n")
        .expect("a file");
    git(&folder, &["add", "-A"]);
    assert_eq!(machine.types(&check).await, first, "nothing is committed");

    let of_stage = machine.types(&[&check[..], &["--stage", "qa", "--json"]].concat()).await;
    let body: serde_json::Value = serde_json::from_str(&of_stage.out).expect("JSON");
    assert_eq!(body["lines"]["guide"]["text"], "The guide says so");
    assert_eq!(body["hash"].as_str().map(str::len), Some(64));
}

#[tokio::test]
async fn what_is_wrong_is_named_with_the_next_step() {
    let machine = machine();
    let folder = repository(&machine, Some("[contract.gates.tests]\ncomand = \"make\"\n"));
    let check = ["contract", "check", "--dir", typed(&folder)];
    let refused = machine.types(&check).await;
    assert_eq!(refused.exit, 2, "{refused:?}");
    assert!(refused.err.contains("contract.gates.tests"), "{}", refused.err);
    assert!(refused.err.contains("put baton.toml right and commit it"), "{}", refused.err);

    // A link is no file of the commit, wherever it leads to.
    fs::remove_file(folder.join("baton.toml")).expect("it was there");
    std::os::unix::fs::symlink("schema.json", folder.join("baton.toml")).expect("a link");
    git(&folder, &["commit", "-q", "-a", "-m", "second"]);
    let refused = machine.types(&check).await;
    assert!(refused.err.contains("has no baton.toml"), "{}", refused.err);
    assert!(refused.err.contains("git add baton.toml"), "{}", refused.err);
}

#[tokio::test]
async fn a_repository_without_the_file_is_told_how_to_get_one() {
    let machine = machine();
    let folder = repository(&machine, None);
    let refused = machine.types(&["contract", "check", "--dir", typed(&folder)]).await;
    assert_eq!(refused.exit, 3, "{refused:?}");
    assert!(refused.err.contains("baton init, then git add baton.toml"), "{}", refused.err);
}
