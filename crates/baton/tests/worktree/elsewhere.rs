//! From one machine to another that shares no files with it.

use std::fs;

use baton::worktree::{Error, Plan, Repository, Source};

use super::world::{World, everything, kept, key, name, no_setup, plan, sh, tenant};

#[test]
fn a_task_goes_on_elsewhere_with_its_uncommitted_files() {
    let (here, there) = (World::new(), World::new());
    let first = here.prepare(&here.project());
    let tree = first.worktree.path();
    let base = first.worktree.base().clone();
    sh(&tree, "echo more >> b.txt && git commit -q -am more && echo u > u.txt && rm run.sh");
    let snapshot = kept(&first.worktree, 1);
    let depot = first.worktree.depot().expect("it is there");

    // What travels are two files: the base once, then what was added to it.
    let (whole, added) = (here.folder.join("base.bundle"), here.folder.join("work.bundle"));
    depot.bundle("refs/baton/d-one/local.T-1/base/1", &[], &whole).expect("a bundle");
    let bytes =
        depot.bundle(&snapshot.name, std::slice::from_ref(&base), &added).expect("a bundle");
    assert!(bytes < 4_096, "{bytes} bytes for three small changes");
    let (tenant, name) = (tenant(), name());
    let refused = there.house.take_snapshot(&key(2), &name, &[&added], &snapshot.commit);
    assert!(matches!(refused, Err(Error::MissingBase(_))), "{refused:?}");
    let refused = there.house.take_base((&tenant, &name), &[&whole], &snapshot.commit);
    assert!(matches!(refused, Err(Error::OtherBundle(_))), "{refused:?}");
    there.house.take_base((&tenant, &name), &[&whole], &base).expect("it can be taken in");
    there.house.take_snapshot(&key(2), &name, &[&added], &snapshot.commit).expect("it, too");
    there.house.take_snapshot(&key(2), &name, &[&added], &snapshot.commit).expect("and again");

    let plan = Plan {
        key: key(2),
        from: Some(snapshot.commit.clone()),
        ..plan(&name, Source::Bundles, base)
    };
    let second = there.house.prepare(&plan, &mut no_setup).expect("it can be made");
    let again = second.worktree.path();
    assert_eq!(everything(&again), everything(&tree));
    let status = "git status --porcelain && git log --format=%H";
    assert_eq!(sh(&again, status), sh(&tree, status));
    // The same work has the same name everywhere.
    assert_eq!(kept(&second.worktree, 2).tree, snapshot.tree);
    fs::write(again.join("u.txt"), "further").expect("a file");
    let next = kept(&second.worktree, 3);
    let depot = second.worktree.depot().expect("it is there");
    let back = there.folder.join("back.bundle");
    depot.bundle(&next.name, &[snapshot.commit], &back).expect("a bundle");
    here.house.take_snapshot(&key(2), &name, &[&back], &next.commit).expect("it comes back");
}

#[test]
fn a_bundle_that_was_cut_or_changed_is_refused_and_leaves_nothing() {
    let (here, there) = (World::new(), World::new());
    let first = here.prepare(&here.project());
    let base = first.worktree.base().clone();
    let depot = first.worktree.depot().expect("it is there");
    let file = here.folder.join("base.bundle");
    depot.bundle("refs/baton/d-one/local.T-1/base/1", &[], &file).expect("a bundle");
    let whole = fs::read(&file).expect("a file");
    for cut in [0, 10, 60, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).expect("a file");
        let refused = there.house.take_base((&tenant(), &name()), &[&file], &base);
        assert!(refused.is_err(), "{cut} of {} bytes were taken in", whole.len());
    }
    let mut changed = whole.clone();
    let last = changed.len() - 30;
    changed[last] ^= 1;
    fs::write(&file, &changed).expect("a file");
    assert!(there.house.take_base((&tenant(), &name()), &[&file], &base).is_err());
    let depot = there.house.depot(&tenant(), &name()).expect("it was made");
    let folder = depot.objects().parent().expect("a folder").to_path_buf();
    assert_eq!(sh(&folder, "git for-each-ref && git count-objects"), "0 objects, 0 kilobytes");
    fs::write(&file, &whole).expect("a file");
    there.house.take_base((&tenant(), &name()), &[&file], &base).expect("whole it can be taken in");
}

#[test]
fn a_repository_with_longer_names_for_objects_is_a_repository_like_any_other() {
    let (here, there) = (World::new(), World::new());
    let root = here.folder.join("long");
    fs::create_dir(&root).expect("a folder");
    sh(
        &root,
        "git init -q --object-format=sha256 && echo a > a && git add -A && git commit -q -m a",
    );
    let project = Repository::at(&here.git, &root).expect("it is a repository");
    let first = here.prepare(&project);
    let tree = first.worktree.path();
    sh(&tree, "echo b > b && git add -A && git commit -q -m b && echo c > c");
    let snapshot = kept(&first.worktree, 1);
    assert_eq!(snapshot.commit.as_str().len(), 64);
    let depot = first.worktree.depot().expect("it is there");
    let file = here.folder.join("whole.bundle");
    depot.bundle(&snapshot.name, &[], &file).expect("a bundle");
    let (commit, name) = (snapshot.commit, name());
    there.house.take_snapshot(&key(1), &name, &[&file], &commit).expect("it can be taken in");
    let plan = Plan { from: Some(commit), ..plan(&name, Source::Bundles, snapshot.base) };
    let second = there.house.prepare(&plan, &mut no_setup).expect("it can be made");
    assert_eq!(everything(&second.worktree.path()), everything(&tree));
    assert_eq!(sh(&second.worktree.path(), "git status --porcelain"), "?? c");
}
