//! A repository, a home and a worktree in which everything that git could be made to run is armed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use baton::worktree::{Fate, Git, Plan, Repository, Source, task_branch};
use baton_domain::ids::TaskId;

use super::world::{
    DEPLOYMENT, World, deployment, key, name, no_setup, plan, programs, sh, tenant, try_sh,
};

/// Every hook that git knows.
const HOOKS: [&str; 27] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "post-index-change",
];

/// Settings that name a program; `%` is the program.
const SETTINGS: [(&str, &str); 34] = [
    ("core.fsmonitor", "%"),
    ("core.sshCommand", "%"),
    ("core.pager", "%"),
    ("core.editor", "%"),
    ("core.askPass", "%"),
    ("core.gitProxy", "%"),
    ("core.alternateRefsCommand", "%"),
    ("sequence.editor", "%"),
    ("credential.helper", "!%"),
    ("gpg.program", "%"),
    ("commit.gpgSign", "true"),
    ("tag.gpgSign", "true"),
    ("diff.external", "%"),
    ("diff.evil.textconv", "%"),
    ("diff.evil.command", "%"),
    ("merge.evil.driver", "%"),
    ("filter.evil.clean", "%"),
    ("filter.evil.smudge", "%"),
    ("filter.evil.process", "%"),
    ("filter.evil.required", "true"),
    ("interactive.diffFilter", "%"),
    ("pager.ls-files", "%"),
    ("alias.rev-parse", "!%"),
    ("alias.update-ref", "!%"),
    ("alias.worktree", "!%"),
    ("remote.origin.url", "ext::%"),
    ("remote.origin.promisor", "true"),
    ("remote.origin.uploadpack", "%"),
    ("extensions.partialClone", "origin"),
    ("core.repositoryFormatVersion", "1"),
    ("protocol.ext.allow", "always"),
    ("protocol.allow", "always"),
    ("uploadpack.packObjectsHook", "%"),
    ("submodule.recurse", "true"),
];

struct Trap {
    program: PathBuf,
    marks: PathBuf,
}

impl Trap {
    fn new(world: &World) -> Self {
        let (program, marks) = (world.folder.join("evil"), world.folder.join("marks"));
        fs::create_dir(&marks).expect("a folder");
        let script = format!("#!/bin/sh\necho \"$0 $*\" >> {}/hit-$$\ncat\n", marks.display());
        fs::write(&program, script).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its rights");
        Self { program, marks }
    }

    fn hits(&self) -> Vec<String> {
        let all = fs::read_dir(&self.marks).expect("a folder");
        all.map(|one| fs::read_to_string(one.expect("a mark").path()).expect("a text")).collect()
    }

    /// Arms a repository, and the files around it.
    fn arm(&self, git_dir: &Path, tree: &Path) {
        let program = self.program.to_str().expect("a plain path");
        fs::create_dir_all(git_dir.join("hooks")).expect("a folder");
        for hook in HOOKS {
            fs::copy(&self.program, git_dir.join("hooks").join(hook)).expect("a hook");
        }
        let mut config = fs::read_to_string(git_dir.join("config")).expect("settings");
        for (setting, value) in SETTINGS {
            let (section, name) = setting.rsplit_once('.').expect("a section and a name");
            let section = match section.split_once('.') {
                Some((section, own)) => format!("{section} \"{own}\""),
                None => section.to_owned(),
            };
            config.push_str(&format!("[{section}]\n\t{name} = {}\n", value.replace('%', program)));
        }
        fs::create_dir_all(git_dir.join("info")).expect("a folder");
        fs::write(git_dir.join("more"), &config).expect("settings");
        config.push_str("[include]\n\tpath = more\n");
        fs::write(git_dir.join("config"), config).expect("settings");
        let attributes = "* filter=evil diff=evil merge=evil\n";
        fs::write(git_dir.join("info/attributes"), attributes).expect("attributes");
        fs::write(tree.join(".gitattributes"), attributes).expect("attributes");
    }
}

#[test]
fn nothing_that_a_repository_brings_along_is_run() {
    let world = World::new();
    let trap = Trap::new(&world);
    let plain = world.project();
    let root = plain.root().to_path_buf();
    sh(&root, "echo '* filter=evil diff=evil merge=evil' > .gitattributes && git add -A");
    sh(&root, "git init -q --bare bare && cp bare/config bare/more && git add -A");
    sh(
        &root,
        "printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ext::evil\\n\\tupdate = !evil\\n' > .gitmodules",
    );
    sh(&root, "git add -A && git commit -q -m armed && touch -d 2001-01-01 b.txt");
    trap.arm(&root.join(".git"), &root);
    trap.arm(&root.join("bare"), &root);

    let project = Repository::at(&world.git, &root).expect("it is a repository");
    let base = project.resolve("HEAD").expect("it has a commit");
    // A promised object that is missing would be fetched.
    assert!(project.resolve(&"1".repeat(40)).is_err());
    let name = name();
    let first = plan(&name, Source::Repository(&project), base.clone());
    let mut prepared = world.house.prepare(&first, &mut no_setup).expect("it can be made");
    let tree = prepared.worktree.path();
    sh(&tree, "echo 1 >> b.txt && git commit -q -am work && echo 2 >> b.txt && echo u > u.txt");
    trap.arm(&tree.join(".git"), &tree);
    sh(&tree, "cp -r bare embedded && touch -d 2001-01-01 run.sh src/a.txt");
    let embedded = tree.join("embedded");
    trap.arm(&embedded, &embedded);

    let taken = prepared.worktree.snapshot(1).expect("it can be kept");
    let snapshot = taken.snapshot();
    let depot = prepared.worktree.depot().expect("it is there");
    let bundle = world.folder.join("work.bundle");
    depot.bundle(&snapshot.name, std::slice::from_ref(&base), &bundle).expect("a bundle");
    world.house.take_snapshot(&key(2), &name, &[&bundle], &snapshot.commit).expect("it comes back");
    let second = Plan { key: key(2), from: Some(snapshot.commit.clone()), ..first };
    world.house.prepare(&second, &mut no_setup).expect("it can be made");
    let branch = task_branch(&deployment(DEPLOYMENT), &tenant(), TaskId(1));
    project.advance(&depot, &branch, None, &snapshot.head, &[base]).expect("it is made");
    prepared.worktree.finish().expect("it is written down");
    drop(prepared);
    world.house.list().expect("it can be read");
    let to = world.folder.join("back");
    world.house.restore(&tenant(), TaskId(1), None, &to).expect("it comes back");
    let pruned = world.house.prune(Some((&tenant(), TaskId(1))), true).expect("it can be read");
    assert!(pruned.iter().all(|one| matches!(one.fate, Fate::Gone(Some(_)))), "{pruned:?}");
    assert_eq!(trap.hits(), Vec::<String>::new());

    // The traps are set: whoever uses git without care steps into them.
    for careless in
        ["git status", "git add -A", "git commit -m x", "git diff", "git checkout -f HEAD~1"]
    {
        try_sh(&root, careless);
    }
    let hits = trap.hits().len();
    assert!(hits >= 4, "only {hits} traps went off");
    println!(
        "traps: {} armed, 0 went off for us, {hits} calls for plain git",
        HOOKS.len() + SETTINGS.len()
    );
}

#[test]
fn a_git_that_is_missing_old_or_in_the_current_folder_is_refused() {
    assert!(Git::find(&[]).is_err());
    assert!(Git::find(&[PathBuf::from("."), PathBuf::from("usr/bin")]).is_err());
    let folder = tempfile::tempdir().expect("a folder");
    let fake = folder.path().join("git");
    fs::write(&fake, "#!/bin/sh\necho git version 2.30.1\n").expect("a file");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("its rights");
    let said = Git::find(&[folder.path().to_path_buf(), "/bin".into()]).expect_err("it is old");
    assert_eq!(said.to_string(), "git version 2.30.1 is too old: 2.34 is needed");
    assert!(Git::find(&programs()).is_ok());
}

#[test]
fn a_folder_that_is_no_repository_or_a_shallow_one_is_refused_with_a_next_step() {
    let world = World::new();
    let said = Repository::at(&world.git, &world.folder).expect_err("there is none");
    assert!(said.next().starts_with("git init"), "{said}");
    let project = world.project();
    sh(project.root(), "git commit -q --allow-empty -m second");
    let url = format!("file://{}", project.root().display());
    sh(&world.folder, &format!("git clone -q --depth 1 {url} shallow"));
    let said =
        Repository::at(&world.git, &world.folder.join("shallow")).expect_err("it is shallow");
    assert!(said.next().starts_with("git fetch --unshallow"), "{said}");
    // A linked checkout leads to its repository.
    sh(project.root(), "git worktree add -q --detach ../linked");
    let linked = Repository::at(&world.git, &world.folder.join("linked")).expect("it is one");
    assert_eq!(
        linked.resolve("HEAD").expect("a commit"),
        project.resolve("HEAD").expect("a commit")
    );
}
