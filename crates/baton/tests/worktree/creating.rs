//! Making worktrees: once, whole, and again if that was cut short.

use std::fs;
use std::path::{Path, PathBuf};

use baton::worktree::{Error, Ports, STEPS, Source, State};
use baton_testkit::child::{self, Child};

use super::world::{World, everything, key, name, no_setup, plan, sh, shell_setup};

#[test]
fn a_worktree_is_a_repository_of_its_own_with_the_files_of_the_base() {
    let world = World::new();
    let project = world.project();
    let prepared = world.prepare(&project);
    assert!(prepared.made);
    let tree = prepared.worktree.path();
    assert_eq!(everything(&tree), everything(project.root()));
    assert_eq!(sh(&tree, "git status --porcelain"), "");
    assert_eq!(sh(&tree, "git rev-parse HEAD main"), sh(project.root(), "git rev-parse HEAD HEAD"));
    assert_eq!(sh(&tree, "git symbolic-ref -q HEAD || echo detached"), "detached");
    // Whatever the agent does to its settings, branches and hooks, the project does not notice.
    sh(&tree, "git config core.pager evil && git branch -f main && git checkout -q -b x");
    sh(&tree, "echo new > c.txt && git add -A && git commit -q -m work");
    assert_eq!(sh(&tree, "git log -1 --format=%an"), "Somebody");
    assert_eq!(sh(project.root(), "git branch --list --format='%(refname)'"), "refs/heads/main");
    assert!(sh(project.root(), "git worktree list").lines().count() == 1);
}

#[test]
fn a_worktree_that_is_there_is_left_as_it_is_and_set_up_once() {
    let world = World::new();
    let project = world.project();
    let base = project.resolve("HEAD").expect("a commit");
    let (name, setup) = (name(), ["echo set >> built.log".to_owned()]);
    let plan =
        baton::worktree::Plan { setup: &setup, ..plan(&name, Source::Repository(&project), base) };
    let first = world.house.prepare(&plan, &mut shell_setup).expect("it can be made");
    fs::write(first.worktree.path().join("mine"), "work").expect("a file");
    let path = first.worktree.path();
    drop(first);
    let again = world.house.prepare(&plan, &mut no_setup).expect("it is there");
    assert!(!again.made);
    assert_eq!(fs::read_to_string(path.join("mine")).expect("it is still there"), "work");
    assert_eq!(fs::read_to_string(path.join("built.log")).expect("it was set up"), "set\n");
    // One works in it at a time.
    let refused = world.house.prepare(&plan, &mut no_setup);
    assert!(matches!(refused, Err(Error::InUse(_))), "{refused:?}");
}

#[test]
fn a_setup_command_that_fails_is_told_and_everything_begins_again() {
    let world = World::new();
    let project = world.project();
    let base = project.resolve("HEAD").expect("a commit");
    let (name, setup) = (name(), ["touch left-over; echo no; exit 3".to_owned()]);
    let mut plan =
        baton::worktree::Plan { setup: &setup, ..plan(&name, Source::Repository(&project), base) };
    match world.house.prepare(&plan, &mut shell_setup) {
        Err(Error::Setup { code: Some(3), tail, .. }) => assert_eq!(tail, "no\n"),
        other => panic!("{other:?}"),
    }
    plan.setup = &[];
    let made = world.house.prepare(&plan, &mut no_setup).expect("it can be made");
    assert_eq!(everything(&made.worktree.path()), everything(project.root()));
}

#[test]
fn killed_between_any_two_steps_it_is_made_whole_by_the_next_call() {
    if let Some(arguments) = child::role("MAKER") {
        let world = World::at(PathBuf::from(&arguments[0]));
        let project = world.project();
        let base = project.resolve("HEAD").expect("a commit");
        let (name, setup) = (name(), ["touch was-set-up".to_owned()]);
        let plan = baton::worktree::Plan {
            setup: &setup,
            ..plan(&name, Source::Repository(&project), base)
        };
        let made = world.house.prepare_by_steps(&plan, &mut shell_setup, &mut |step| {
            child::say(&format!("{step:?}"));
            if format!("{step:?}") == arguments[1] {
                // Whoever waits for the line kills us here.
                loop {
                    std::thread::park();
                }
            }
        });
        made.expect("it can be made");
        return;
    }
    let mut hit = 0;
    for step in STEPS {
        let world = World::new();
        let project = world.project();
        let word = format!("{step:?}");
        let folder = world.folder.to_str().expect("a plain path");
        let name_of_this =
            "creating::killed_between_any_two_steps_it_is_made_whole_by_the_next_call";
        let end =
            Child::spawn(name_of_this, "MAKER", &[folder, &word]).kill_at(|line| line == word);
        assert!(end.killed, "{word} was never reached: {:?}", end.lines);
        let base = project.resolve("HEAD").expect("a commit");
        let (name, setup) = (name(), ["touch was-set-up".to_owned()]);
        let plan = baton::worktree::Plan {
            setup: &setup,
            ..plan(&name, Source::Repository(&project), base)
        };
        let again = world.house.prepare(&plan, &mut shell_setup).expect("it can be made");
        let mut wanted = everything(project.root());
        wanted.insert("was-set-up".into(), "file false []".into());
        assert_eq!(everything(&again.worktree.path()), wanted, "after {word}");
        assert_eq!(sh(&again.worktree.path(), "git status --porcelain"), "?? was-set-up");
        assert_eq!(again.made, word != "Ready", "after {word}");
        assert_eq!(again.worktree.state(), &State::Ready);
        hit += 1;
    }
    println!("fail points of making a worktree: {hit}/{}", STEPS.len());
}

#[test]
fn a_folder_that_was_swapped_is_not_read() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let tree = prepared.worktree.path();
    let aside = world.folder.join("aside");
    fs::rename(&tree, &aside).expect("it can be moved");
    for swap in ["cp -r aside tree", "ln -s aside tree"] {
        let swap = swap.replace("tree", tree.to_str().expect("a plain path"));
        sh(&world.folder, &swap);
        let refused = prepared.worktree.snapshot(1);
        assert!(matches!(refused, Err(Error::WorkspaceChanged(_))), "{refused:?}");
        sh(&world.folder, &format!("rm -rf {}", tree.display()));
    }
    fs::rename(&aside, &tree).expect("it can be moved back");
    prepared.worktree.snapshot(1).expect("it is the one that was made");
}

#[test]
fn what_worktreeinclude_names_is_copied_and_nothing_leads_out() {
    let world = World::new();
    let project = world.project();
    let root = project.root();
    sh(root, "printf '.env\\n*.key\\nsecrets/\\n' >> .gitignore");
    sh(root, "printf '.env\\n*.key\\nsecrets/\\nnotes.txt\\n' > .worktreeinclude");
    sh(root, "git add -A && git commit -q -m include");
    sh(root, "echo A=1 > .env && chmod 600 .env && mkdir -p secrets/deep sub");
    sh(root, "echo d > secrets/deep/d && echo k > sub/x.key && echo unfinished > notes.txt");
    fs::write(world.folder.join("outside"), "not yours").expect("a file");
    sh(root, "ln -s ../outside out.key && ln -s ../../ secrets/up && mkfifo pipe.key");
    let prepared = world.prepare(&project);
    let tree = prepared.worktree.path();
    let mut copied = prepared.included.copied.clone();
    copied.sort();
    assert_eq!(copied, [".env", "secrets/deep/d", "sub/x.key"]);
    assert_eq!(fs::read_to_string(tree.join(".env")).expect("it is copied"), "A=1\n");
    let refused: Vec<_> = prepared.included.refused.iter().map(|(path, _)| path).collect();
    assert_eq!(refused, ["out.key", "secrets/up"]);
    assert!(!tree.join("notes.txt").exists(), "what git does not ignore stays where it is");
    assert!(!Path::new(&tree).join("pipe.key").exists());
}

#[test]
fn a_quarantined_worktree_is_given_to_nobody_and_the_next_generation_is() {
    let world = World::new();
    let project = world.project();
    let mut first = world.prepare(&project);
    first.worktree.quarantine("its agent was not proved dead").expect("it is written down");
    drop(first);
    let base = project.resolve("HEAD").expect("a commit");
    let name = name();
    let mut plan = plan(&name, Source::Repository(&project), base);
    let refused = world.house.prepare(&plan, &mut no_setup);
    assert!(matches!(refused, Err(Error::Quarantined { .. })), "{refused:?}");
    plan.key = key(2);
    world.house.prepare(&plan, &mut no_setup).expect("another generation is another folder");
    let mut late = world.house.worktree(&key(1)).expect("it is there");
    late.release().expect("the proof came late");
    plan.key = key(1);
    assert!(!world.house.prepare(&plan, &mut no_setup).expect("it is free again").made);
}

#[test]
fn blocks_of_ports_never_meet() {
    let mut before = 0;
    let mut slot = 0;
    while let Some(ports) = Ports::of(slot) {
        let (told, block) = (ports.variables(), ports.0);
        assert!(before <= block.start && block.start < block.end && block.end <= 32_768);
        assert_eq!(told[0], ("PORT", block.start.to_string()));
        before = block.end;
        slot += 1;
    }
    assert_eq!(slot, 500);
}
