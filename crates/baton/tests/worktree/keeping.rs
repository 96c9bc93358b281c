//! What is listed, what comes back, and what may go.

use std::fs;

use baton::worktree::{Error, Fate, House, State};
use baton_domain::ids::TaskId;

use super::world::{World, deployment, everything, kept, key, name, no_setup, plan, sh, tenant};

#[test]
fn a_worktree_that_is_over_goes_and_comes_back() {
    let world = World::new();
    let mut prepared = world.prepare(&world.project());
    let tree = prepared.worktree.path();
    sh(&tree, "echo c > c.txt && git add -A && git commit -q -m c && echo u > u.txt");
    sh(&tree, "mkdir -p built/deep && echo x > built/deep/x && chmod -R a-w built");
    let before = everything(&tree);
    let fates = |task, yes| -> Vec<Fate> {
        let pruned = world.house.prune(task, yes).expect("it can be read");
        pruned.into_iter().map(|one| one.fate).collect()
    };
    assert_eq!(fates(None, true), [Fate::InUse]);
    prepared.worktree.finish().expect("it is written down");
    assert_eq!(fates(None, true), [Fate::InUse]);
    drop(prepared);
    assert_eq!(fates(None, false), [Fate::Gone(None)]);
    assert!(tree.exists(), "a dry run touches nothing");
    let name = "refs/baton/d-one/local.T-1/0/1";
    assert_eq!(fates(None, true), [Fate::Gone(Some(name.to_owned()))]);
    assert!(!tree.parent().expect("a folder").exists());
    assert_eq!(fates(None, true), []);

    let to = world.folder.join("back");
    let restored = world.house.restore(&tenant(), TaskId(1), None, &to).expect("it comes back");
    assert_eq!(restored.name, name);
    let mut wanted = before;
    wanted.retain(|path, _| !path.starts_with("built"));
    assert_eq!(everything(&to), wanted);
    assert_eq!(sh(&to, "git status --porcelain"), "?? u.txt");
    let refused = world.house.restore(&tenant(), TaskId(1), None, &to);
    assert!(matches!(refused, Err(Error::Exists(_))), "{refused:?}");
    let refused = world.house.restore(&tenant(), TaskId(2), None, &world.folder.join("no"));
    assert!(matches!(refused, Err(Error::NoSnapshot(_))), "{refused:?}");
    assert!(!world.folder.join("no").exists());
}

#[test]
fn what_no_snapshot_can_hold_is_quarantined_and_stays() {
    let world = World::new();
    let project = world.project();
    for (generation, deed) in [
        (1, "git init -q nested && cd nested && echo n > n && git add -A && git commit -q -m n"),
        (
            2,
            "git checkout -q --detach && git commit -q --allow-empty -m x && rm -rf .git/objects/??",
        ),
        (3, "head -c 70000000 /dev/urandom > model"),
    ] {
        let name = name();
        let base = project.resolve("HEAD").expect("a commit");
        let mut plan = plan(&name, baton::worktree::Source::Repository(&project), base);
        plan.key = key(generation);
        let mut prepared = world.house.prepare(&plan, &mut no_setup).expect("it can be made");
        let tree = prepared.worktree.path();
        sh(&tree, deed);
        prepared.worktree.finish().expect("it is written down");
        drop(prepared);
        for _ in 0..2 {
            let pruned = world.house.prune(Some((&tenant(), TaskId(1))), true).expect("it is read");
            let own =
                pruned.iter().find(|one| one.key.generation == generation).expect("it is told");
            assert!(matches!(own.fate, Fate::Quarantined(_)), "{deed}: {:?}", own.fate);
            assert!(tree.exists(), "{deed}");
        }
        let state = world.house.worktree(&key(generation)).expect("it is there").state().clone();
        assert!(matches!(state, State::Quarantined { .. }), "{state:?}");
    }
}

#[test]
fn a_worktree_whose_task_goes_on_goes_only_if_it_is_named_and_a_quarantined_one_never() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    drop(prepared);
    let all = world.house.prune(None, true).expect("it can be read");
    assert_eq!(all[0].fate, Fate::Needed);
    let tenant = tenant();
    let named = Some((&tenant, TaskId(1)));
    let other = world.house.prune(Some((&tenant, TaskId(2))), true).expect("it can be read");
    assert_eq!(other, []);
    let mut worktree = world.house.worktree(&key(1)).expect("it is there");
    worktree.quarantine("stop unverified").expect("it is written down");
    worktree.finish().expect("nothing to write");
    let pruned = world.house.prune(named, true).expect("it can be read");
    assert_eq!(pruned[0].fate, Fate::Quarantined("stop unverified".into()));
    worktree.release().expect("it is written down");
    let pruned = world.house.prune(named, true).expect("it can be read");
    assert!(matches!(pruned[0].fate, Fate::Gone(Some(_))));
}

#[test]
fn two_deployments_on_one_machine_never_touch_each_other() {
    let world = World::new();
    let project = world.project();
    let other = House::new(&world.folder.join("data"), &deployment("d-two"), &world.git);
    let mut ours = world.prepare(&project);
    let (name, base) = (name(), project.resolve("HEAD").expect("a commit"));
    let plan = plan(&name, baton::worktree::Source::Repository(&project), base.clone());
    let mut theirs = other.prepare(&plan, &mut no_setup).expect("it can be made");
    assert_ne!(ours.worktree.path(), theirs.worktree.path());
    fs::write(ours.worktree.path().join("x"), "ours").expect("a file");
    fs::write(theirs.worktree.path().join("x"), "theirs").expect("a file");
    let (one, two) = (kept(&ours.worktree, 1), kept(&theirs.worktree, 1));
    assert_eq!(one.name, "refs/baton/d-one/local.T-1/1/1");
    assert_eq!(two.name, "refs/baton/d-two/local.T-1/1/1");
    assert_eq!(House::all(&world.folder.join("data"), &world.git).expect("both").len(), 2);

    // A bundle of theirs that we take in stays under our name, and changes none of our refs.
    let bundle = world.folder.join("theirs.bundle");
    let depot = theirs.worktree.depot().expect("it is there");
    depot.bundle(&two.name, &[base], &bundle).expect("a bundle");
    let last = |house: &House| house.list().expect("it is read")[0].last.clone();
    let before = last(&world.house);
    world.house.take_snapshot(&key(2), &name, &[&bundle], &two.commit).expect("it can be taken in");
    assert_eq!(last(&world.house), before);

    ours.worktree.finish().expect("it is written down");
    theirs.worktree.finish().expect("it is written down");
    let path = theirs.worktree.path();
    drop((ours, theirs));
    let pruned = world.house.prune(None, true).expect("it can be read");
    assert_eq!(pruned.len(), 1);
    assert!(path.exists(), "theirs is not ours to prune");
    assert_eq!(last(&other), Some((two.name, two.commit)));
}

#[test]
fn tasks_of_two_tenants_with_the_same_number_never_meet() {
    let world = World::new();
    let project = world.project();
    let ours = world.prepare(&project);
    let (name, base) = (name(), project.resolve("HEAD").expect("a commit"));
    let mut plan = plan(&name, baton::worktree::Source::Repository(&project), base);
    plan.key.tenant = "local/t-1".parse().expect("a name");
    let theirs = world.house.prepare(&plan, &mut no_setup).expect("it can be made");
    let (one, two) = (kept(&ours.worktree, 1), kept(&theirs.worktree, 1));
    assert_eq!(two.name, "refs/baton/d-one/local_2ft-1.T-1/1/1");
    assert_ne!(one.name, two.name);
    assert_ne!(
        ours.worktree.depot().expect("one").objects(),
        theirs.worktree.depot().expect("two").objects()
    );
}
