//! What is typed about worktrees, and what is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_domain::ids::{ProjectId, TaskId};

use crate::cli::tests::{Machine, typed};
use crate::worktree::{Git, House, Key, Plan, Repository, Source};

#[expect(clippy::disallowed_methods, reason = "where the programs of this machine are")]
fn programs() -> Vec<PathBuf> {
    std::env::var_os("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).collect())
}

fn git(folder: &Path, words: &[&str]) {
    let who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"];
    let ended = Command::new("git").current_dir(folder).args(who).args(words).output();
    let ended = ended.expect("git is installed");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// A machine on which an agent has worked on task 1, and is done.
fn machine() -> Machine {
    let mut machine = Machine::silent();
    machine.around.programs = programs();
    let root = machine.path("shop");
    fs::create_dir(&root).expect("a folder");
    fs::write(root.join("a.txt"), "one\n").expect("a file");
    git(&root, &["init", "-q"]);
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "first"]);
    let own = Git::find(&programs()).expect("git is installed");
    let house = House::new(&machine.data(), &"d-one".parse().expect("a name"), &own);
    let project = Repository::at(&own, &root).expect("it is a repository");
    let name: ProjectId = "shop".parse().expect("a name");
    let plan = Plan {
        attempt: 1,
        key: Key { tenant: "local".parse().expect("a name"), task: TaskId(1), generation: 1 },
        project: &name,
        source: Source::Repository(&project),
        base: project.resolve("HEAD").expect("a commit"),
        branch: None,
        from: None,
        author: ("An agent", "agent@example.org"),
        setup: &[],
    };
    let made = house.prepare(&plan, &mut |_, _, _| Err(std::io::ErrorKind::NotFound.into()));
    let mut made = made.expect("it can be made");
    fs::write(made.worktree.path().join("a.txt"), "two\n").expect("a file");
    made.worktree.snapshot(1).expect("it can be kept");
    made.worktree.finish().expect("it is written down");
    machine
}

#[tokio::test]
async fn worktrees_are_listed_pruned_and_brought_back() {
    let machine = machine();
    let list = machine.types(&["worktree", "list"]).await;
    let expected = "\
T-1      1   shop             1 snapshot    over
             …/data/worker/d-one/worktrees/local.T-1.1/tree
";
    assert_eq!((list.out.as_str(), list.exit), (expected, 0), "{}", list.err);
    let dry = machine.types(&["worktree", "prune"]).await;
    let expected = "\
T-1      1   would go, once a snapshot holds it
Nothing was done: --yes does it.
";
    assert_eq!((dry.out.as_str(), dry.exit), (expected, 0), "{}", dry.err);
    let done = machine.types(&["worktree", "prune", "--yes"]).await;
    assert_eq!(done.out, "T-1      1   gone; refs/baton/d-one/local.T-1/1/1 holds it\n");
    let none = machine.types(&["worktree", "list"]).await;
    assert_eq!(none.out, "No agent has a folder on this machine.\n");

    let to = machine.path("back");
    let words = ["worktree", "restore", "1", "--to", typed(&to)];
    let dry = machine.types(&words).await;
    assert!(dry.out.ends_with("Nothing was done: --yes does it.\n"), "{dry:?}");
    assert!(!to.exists());
    let done = machine.types(&[&words[..], &["--yes", "--json"]].concat()).await;
    assert!(done.out.contains("\"done\":true"), "{done:?}");
    assert_eq!(fs::read_to_string(to.join("a.txt")).expect("it is back"), "two\n");
}

#[tokio::test]
async fn what_is_not_there_is_told_with_a_next_step() {
    let machine = machine();
    let to = machine.path("back");
    let none = machine.types(&["worktree", "restore", "T-2", "--to", typed(&to), "--yes"]).await;
    assert_eq!(none.exit, 3);
    assert!(none.err.contains("there is no snapshot of T-2"), "{}", none.err);
    assert!(none.err.contains("baton worktree list"), "{}", none.err);
    let shop = machine.path("shop");
    let taken = machine.types(&["worktree", "restore", "T-1", "--to", typed(&shop)]).await;
    assert_eq!(taken.exit, 5, "{}", taken.err);
    let unread = machine.types(&["worktree", "prune", "T-x"]).await;
    assert_eq!(unread.exit, 2, "{}", unread.err);
}
