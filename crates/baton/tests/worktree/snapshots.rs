//! Snapshots: what they hold, what they do not touch, and that they come back exactly.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use baton::worktree::{Left, Plan, Prepared, Source, Taken};
use baton_testkit::chance::Chance;
use baton_testkit::rounds;

use super::world::{World, everything, inode, kept, key, name, no_setup, plan, sh, tenant};

/// The same work in the next generation.
fn handed_over(world: &World, from: &Prepared, generation: u32, attempt: u32) -> Prepared {
    let snapshot = from.worktree.snapshot(attempt).expect("it can be kept").snapshot().clone();
    let name = name();
    let plan = Plan {
        key: key(generation),
        from: Some(snapshot.commit),
        ..plan(&name, Source::Bundles, snapshot.base)
    };
    world.house.prepare(&plan, &mut no_setup).expect("it can be made")
}

#[test]
fn nothing_new_is_kept_when_nothing_has_changed() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let worktree = &prepared.worktree;
    let first = kept(worktree, 1);
    for attempt in [1, 2] {
        match worktree.snapshot(attempt).expect("it can be kept") {
            Taken::Same(same) => assert_eq!(same.name, first.name),
            Taken::New(new) => panic!("{} is not new", new.name),
        }
    }
    fs::write(worktree.path().join("b.txt"), "TWO\n").expect("a file");
    let second = kept(worktree, 2);
    assert_ne!(second.tree, first.tree);
    assert_eq!(second.name, "refs/baton/d-one/local.T-1/2/1");
    fs::write(worktree.path().join("b.txt"), "two\n").expect("a file");
    assert_eq!(kept(worktree, 2).tree, first.tree);
}

#[test]
fn a_snapshot_touches_neither_index_nor_head_nor_stash() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let tree = prepared.worktree.path();
    sh(&tree, "echo staged > s.txt && git add s.txt && echo more >> s.txt && echo x > u.txt");
    let status = "git status --porcelain=v2";
    let before = sh(&tree, status);
    let files = || {
        [".git/index", ".git/HEAD"].map(|name| {
            let path = tree.join(name);
            (inode(&path), fs::read(&path).expect("a file"))
        })
    };
    let untouched = files();
    kept(&prepared.worktree, 1);
    assert!(files() == untouched, "they are the same files with the same bytes");
    assert_eq!(sh(&tree, status), before);
    assert_eq!(sh(&tree, "git stash list && git for-each-ref refs/baton"), "");
}

#[test]
fn committed_stashed_staged_and_untracked_work_comes_back() {
    let world = World::new();
    let first = world.prepare(&world.project());
    let tree = first.worktree.path();
    sh(&tree, "git checkout -q -b feature && echo c > c.txt && git add -A && git commit -q -m c");
    sh(
        &tree,
        "git checkout -q -b side main && echo s > side.txt && git add -A && git commit -q -m s",
    );
    sh(&tree, "git checkout -q feature && echo one >> b.txt && git stash -q && echo two >> b.txt");
    sh(&tree, "git stash -q && rm src/a.txt && chmod +x b.txt && echo u > 'un tracked'");
    sh(
        &tree,
        "mkdir -p built && echo no > built/x && echo yes > built/forced && git add -f built/forced",
    );
    let second = handed_over(&world, &first, 2, 1);
    let again = second.worktree.path();
    let mut wanted = everything(&tree);
    wanted.remove(Path::new("built/x")).expect("what is ignored is not kept");
    assert_eq!(everything(&again), wanted);
    assert_eq!(sh(&again, "git symbolic-ref HEAD"), "refs/heads/feature");
    for question in ["git rev-parse HEAD feature side main", "git stash list --format=%H"] {
        assert_eq!(sh(&again, question), sh(&tree, question), "{question}");
    }
    let status = sh(&again, "git status --porcelain");
    assert_eq!(status, " M b.txt\nA  built/forced\n D src/a.txt\n?? \"un tracked\"");
    // Nothing has changed on the way, so there is nothing new to keep.
    let same = second.worktree.snapshot(2).expect("it can be kept");
    assert_eq!(
        same.snapshot().tree,
        first.worktree.snapshot(1).expect("it can be kept").snapshot().tree
    );
}

#[test]
fn what_is_too_large_special_or_a_repository_of_its_own_is_left_out_and_named() {
    let world = World::new();
    let project = world.project();
    sh(
        project.root(),
        "head -c 70000000 /dev/zero > asset && git add -A && git commit -q -m asset",
    );
    let prepared = world.prepare(&project);
    let tree = prepared.worktree.path();
    let first = kept(&prepared.worktree, 1);
    assert!(first.left_out.is_empty(), "what is committed needs no room: {:?}", first.left_out);
    sh(&tree, "head -c 70000000 /dev/urandom > model && mkfifo pipe && printf x >> asset");
    sh(
        &tree,
        "git init -q nested && echo n > nested/n && echo 'x' > 'git~1' && ln -s b .gitmodules",
    );
    sh(&tree, "echo secret > closed && chmod 0 closed");
    let second = kept(&prepared.worktree, 1);
    let mut left = second.left_out.files.clone();
    left.sort_by(|a, b| a.0.cmp(&b.0));
    let mut wanted = vec![
        (".gitmodules".to_owned(), Left::Name),
        ("asset".to_owned(), Left::TooLarge),
        ("git~1".to_owned(), Left::Name),
        ("model".to_owned(), Left::TooLarge),
        ("nested".to_owned(), Left::Repository),
    ];
    // Root reads what nobody may read.
    if fs::read(tree.join("closed")).is_err() {
        wanted.insert(2, ("closed".to_owned(), Left::Unreadable));
    }
    assert_eq!(left, wanted);
}

#[test]
fn a_file_behind_a_link_is_gone_and_never_read() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let tree = prepared.worktree.path();
    let outside = world.folder.join("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("a.txt"), "not yours").expect("a file");
    kept(&prepared.worktree, 1);
    sh(&tree, &format!("rm -r src && ln -s {} src", outside.display()));
    let snapshot = kept(&prepared.worktree, 1);
    let depot = prepared.worktree.depot().expect("it is there");
    let folder = depot.objects().parent().expect("a folder").to_path_buf();
    let listed = sh(&folder, &format!("git ls-tree -r --name-only {}", snapshot.tree));
    assert_eq!(listed, ".gitignore\nb.txt\nlink\nrun.sh\nsrc");
}

#[test]
fn an_agent_cannot_have_us_read_objects_of_a_repository_that_it_may_not_see() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let tree = prepared.worktree.path();
    let secret = world.folder.join("secret");
    fs::create_dir(&secret).expect("a folder");
    sh(&secret, "git init -q && echo s3cret > s && git add -A && git commit -q -m s");
    let commit = sh(&secret, "git rev-parse HEAD");
    let alternates = tree.join(".git/objects/info/alternates");
    let line = format!("{}\n", secret.join(".git/objects").display());
    fs::write(&alternates, fs::read_to_string(&alternates).expect("a list") + &line)
        .expect("a file");
    sh(&tree, &format!("git update-ref refs/heads/theirs {commit}"));
    sh(&tree, &format!("ln -s {} .git/objects/pack/pack-00.pack", secret.join("s").display()));
    let snapshot = kept(&prepared.worktree, 1);
    assert_eq!(snapshot.left_out.commits, 1);
    let depot = prepared.worktree.depot().expect("it is there");
    let folder = depot.objects().parent().expect("a folder").to_path_buf();
    let found = sh(&folder, &format!("git cat-file -e {commit} 2>&1 && echo found || echo none"));
    assert!(found.ends_with("none"), "{found}");
}

#[test]
fn a_snapshot_is_taken_of_a_worktree_whose_repository_was_destroyed() {
    let world = World::new();
    for damage in
        ["rm -rf .git", "echo x > .git/HEAD", "echo x > .git/index", "rm -rf .git && ln -s / .git"]
    {
        let project = world.project();
        let name = name();
        let base = project.resolve("HEAD").expect("a commit");
        let mut plan = plan(&name, Source::Repository(&project), base);
        plan.key = key(10 + u32::try_from(damage.len()).expect("a short text"));
        let prepared = world.house.prepare(&plan, &mut no_setup).expect("it can be made");
        let tree = prepared.worktree.path();
        fs::write(tree.join("work.txt"), damage).expect("a file");
        sh(&tree, damage);
        let snapshot = kept(&prepared.worktree, 1);
        let depot = prepared.worktree.depot().expect("it is there");
        let folder = depot.objects().parent().expect("a folder").to_path_buf();
        assert_eq!(sh(&folder, &format!("git cat-file blob {}:work.txt", snapshot.commit)), damage);
    }
}

#[test]
fn only_so_many_snapshots_of_an_attempt_are_kept_and_always_the_last() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let file = prepared.worktree.path().join("count");
    let mut last = None;
    for count in 0..36 {
        fs::write(&file, format!("{count}")).expect("a file");
        last = Some(kept(&prepared.worktree, 1));
    }
    let listed = world.house.list().expect("it can be read");
    let last = last.expect("there is one");
    assert_eq!((listed[0].snapshots, &listed[0].last), (32, &Some((last.name, last.commit))));
}

/// Names that have broken programs before.
const NAMES: [&[u8]; 14] = [
    b"plain",
    b"with space",
    b"new\nline",
    "\u{e9}t\u{e9}".as_bytes(),
    "e\u{301}".as_bytes(),
    b"\xff\xfe",
    b"-dash",
    b"quote\"d'",
    b"back\\slash",
    b"tab\tbed",
    b":colon",
    b"!bang",
    b"#hash",
    b"deep/er/still",
];

fn edit(chance: &mut Chance, tree: &Path) {
    let picked: &[u8] = NAMES[chance.index(NAMES.len())];
    let path = tree.join(Path::new(std::ffi::OsStr::from_bytes(picked)));
    let path = if chance.chance(0.3) { tree.join("src").join("a.txt") } else { path };
    if let Some(parent) = path.parent() {
        // A file may be where a folder is wanted.
        drop(fs::create_dir_all(parent));
    }
    match chance.below(7) {
        0 | 1 => {
            let count = chance.below(5_000);
            let bytes: Vec<u8> = (0..count).map(|_| chance.next_u64().to_be_bytes()[0]).collect();
            drop(fs::write(&path, bytes));
        }
        2 => drop(fs::write(&path, "a line\r\nanother $Id$\n")),
        3 => drop(fs::remove_file(&path)),
        4 => {
            let mode = if chance.chance(0.5) { 0o755 } else { 0o640 };
            drop(fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
        }
        5 => {
            drop(fs::remove_file(&path));
            let to = PathBuf::from(*chance.pick(&["b.txt", "../out", "/nowhere", "a\nb"]));
            drop(std::os::unix::fs::symlink(to, &path));
        }
        _ => {
            drop(fs::write(tree.join(".gitattributes"), "* text eol=crlf ident\n*.txt filter=x\n"))
        }
    }
}

#[test]
fn whatever_was_done_to_a_worktree_it_comes_back_exactly() {
    let world = World::new();
    let mut at = world.prepare(&world.project());
    let mut chance = Chance::new(20_261_116);
    let count = u32::try_from(rounds(6)).expect("a few");
    for round in 0..count {
        for _ in 0..chance.below(12) {
            edit(&mut chance, &at.worktree.path());
            if chance.chance(0.2) {
                at.worktree.snapshot(round + 1).expect("it can be kept");
            }
            if chance.chance(0.1) {
                sh(&at.worktree.path(), "git add -A && git commit -q --allow-empty -m more");
            }
        }
        let next = handed_over(&world, &at, round + 2, round + 1);
        let (before, after) = (at.worktree.path(), next.worktree.path());
        assert_eq!(everything(&after), everything(&before), "round {round}");
        let head = "git rev-parse HEAD";
        assert_eq!(sh(&after, head), sh(&before, head), "round {round}");
        at = next;
    }
    let listed = world.house.list().expect("it can be read");
    assert_eq!(listed.len(), usize::try_from(count).expect("a few") + 1);
    assert!(world.house.last_snapshot(&tenant(), at.worktree.key().task, None).is_ok());
}

#[test]
fn whatever_an_agent_swaps_while_it_is_read_nothing_outside_is_ever_kept() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    let tree = prepared.worktree.path();
    let outside = world.folder.join("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("f"), "not yours").expect("a file");
    let secret = sh(&outside, "git hash-object f");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (own, aside) = (tree.join("swap"), tree.join("aside"));
            for count in 0_u64.. {
                if over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                // A folder, then a link that leads out of the same name, then a file that is a link.
                drop(fs::create_dir(&own));
                drop(fs::write(own.join("f"), count.to_string()));
                drop(fs::rename(&own, &aside));
                drop(std::os::unix::fs::symlink(&outside, &own));
                drop(fs::remove_file(&own));
                drop(fs::remove_file(aside.join("f")));
                drop(std::os::unix::fs::symlink(outside.join("f"), aside.join("f")));
                drop(fs::remove_dir_all(&aside));
            }
        });
        for attempt in 1..=u32::try_from(rounds(12)).expect("a few") {
            prepared.worktree.snapshot(attempt).expect("it can be kept all the time");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let depot = prepared.worktree.depot().expect("it is there");
    let folder = depot.objects().parent().expect("a folder").to_path_buf();
    let found =
        sh(&folder, &format!("git cat-file -e {secret} 2>/dev/null && echo found || echo none"));
    assert_eq!(found, "none");
}

#[test]
fn whoever_looks_at_the_same_time_gets_the_same() {
    let world = World::new();
    let prepared = world.prepare(&world.project());
    fs::write(prepared.worktree.path().join("b.txt"), "changed").expect("a file");
    let worktree = &prepared.worktree;
    let taken: Vec<_> = std::thread::scope(|scope| {
        let look = |attempt| scope.spawn(move || worktree.snapshot(attempt).expect("it is kept"));
        let threads: Vec<_> = (0..4).map(|_| look(1)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(taken.iter().filter(|one| matches!(one, Taken::New(_))).count(), 1);
    assert!(taken.iter().all(|one| one.snapshot() == taken[0].snapshot()));
}

#[test]
fn a_task_keeps_its_base_when_its_project_has_moved_on() {
    let world = World::new();
    let project = world.project();
    let first = world.prepare(&project);
    fs::write(first.worktree.path().join("b.txt"), "changed").expect("a file");
    let snapshot = kept(&first.worktree, 1);
    sh(project.root(), "echo later > later && git add -A && git commit -q -m later");
    let name = name();
    let later = project.resolve("HEAD").expect("a commit");
    let plan = Plan {
        key: key(2),
        from: Some(snapshot.commit.clone()),
        ..plan(&name, Source::Repository(&project), later)
    };
    let second = world.house.prepare(&plan, &mut no_setup).expect("it can be made");
    assert_eq!(second.worktree.base(), &snapshot.base);
    assert_eq!(everything(&second.worktree.path()), everything(&first.worktree.path()));
    let same = second.worktree.snapshot(2).expect("it can be kept");
    assert_eq!(same.snapshot().commit, snapshot.commit, "the same work over the same base");
}
