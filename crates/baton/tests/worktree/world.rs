//! A machine with a project, a data folder, and people and agents that use git in their own way.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use baton::worktree::{
    Git, Held, House, Key, Oid, Plan, Prepared, Ran, Repository, Source, Taken, Worktree,
};
use baton_domain::ids::{DeploymentId, ProjectId, TaskId, TenantId};

pub const DEPLOYMENT: &str = "d-one";

/// A machine.
pub struct World {
    pub folder: PathBuf,
    pub git: Git,
    pub house: House,
    _kept: Option<tempfile::TempDir>,
}

impl World {
    pub fn new() -> Self {
        let kept = tempfile::tempdir().expect("a folder");
        let folder = kept.path().canonicalize().expect("it is there");
        Self { _kept: Some(kept), ..Self::at(folder) }
    }

    /// A machine that somebody else looks after.
    pub fn at(folder: PathBuf) -> Self {
        let git = Git::find(&programs()).expect("git is installed");
        let house = House::new(&folder.join("data"), &deployment(DEPLOYMENT), &git);
        Self { folder, git, house, _kept: None }
    }

    /// The repository of the project, with a first commit.
    pub fn project(&self) -> Repository {
        let root = self.folder.join("project");
        if !root.exists() {
            fs::create_dir(&root).expect("a folder");
            sh(
                &root,
                "git init -q -b main && mkdir src && echo one > src/a.txt && echo two > b.txt",
            );
            sh(&root, "printf '#!/bin/sh\\n' > run.sh && chmod +x run.sh && ln -s b.txt link");
            sh(&root, "echo 'built/' > .gitignore && git add -A && git commit -q -m first");
        }
        Repository::at(&self.git, &root).expect("it is a repository")
    }

    /// A worktree of task 1 at the head of the project.
    pub fn prepare(&self, project: &Repository) -> Prepared {
        let base = project.resolve("HEAD").expect("it has a commit");
        let name = name();
        let plan = plan(&name, Source::Repository(project), base);
        self.house.prepare(&plan, &mut no_setup).expect("it can be made")
    }
}

pub fn deployment(name: &str) -> DeploymentId {
    name.parse().expect("a name")
}

pub fn tenant() -> TenantId {
    "local".parse().expect("a name")
}

pub fn name() -> ProjectId {
    "team/shop.web".parse().expect("a name")
}

pub fn key(generation: u32) -> Key {
    Key { tenant: tenant(), task: TaskId(1), generation }
}

pub fn plan<'a>(project: &'a ProjectId, source: Source<'a>, base: Oid) -> Plan<'a> {
    Plan {
        key: key(1),
        attempt: 1,
        project,
        source,
        base,
        branch: Some("main"),
        from: None,
        author: ("An agent", "agent@example.org"),
        setup: &[],
    }
}

/// A project that has nothing to set up.
pub fn no_setup(command: &str, _: &Path, _: &mut Held) -> std::io::Result<Ran> {
    panic!("nobody asked for `{command}`");
}

/// Runs a command as a plain shell does.
pub fn shell_setup(command: &str, folder: &Path, _: &mut Held) -> std::io::Result<Ran> {
    let ended = shell(folder, command).output()?;
    let tail = String::from_utf8_lossy(&ended.stdout).into_owned();
    Ok(Ran { command: command.to_owned(), code: ended.status.code(), tail })
}

#[expect(clippy::disallowed_methods, reason = "where the programs of this machine are")]
pub fn programs() -> Vec<PathBuf> {
    std::env::var_os("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).collect())
}

fn shell(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder).env_clear();
    command.env("PATH", std::env::join_paths(programs()).expect("it was parted before"));
    command.env("HOME", folder.parent().unwrap_or(folder)).env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Somebody");
        command.env(format!("GIT_{who}_EMAIL"), "somebody@example.org");
        command.env(format!("GIT_{who}_DATE"), "1700000000 +0000");
    }
    command
}

/// What somebody types, and what is printed.
#[track_caller]
pub fn sh(folder: &Path, script: &str) -> String {
    let ended = shell(folder, script).output().expect("a shell");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&ended.stdout).trim_end().to_owned()
}

/// The same, whatever becomes of it.
pub fn try_sh(folder: &Path, script: &str) {
    drop(shell(folder, script).output());
}

/// Everything in a folder besides its repository: path, kind, whether it can be run, and content.
pub fn everything(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let about = path.symlink_metadata().expect("it is there");
            let inside = path.strip_prefix(root).expect("it is inside").to_path_buf();
            if about.is_dir() {
                if inside != Path::new(".git") {
                    folders.push(path);
                }
            } else if about.is_symlink() {
                let to = fs::read_link(&path).expect("a link");
                found.insert(inside, format!("link {}", to.display()));
            } else if about.is_file() {
                let runs = about.permissions().mode() & 0o100 != 0;
                let bytes = fs::read(&path).expect("a file");
                found.insert(inside, format!("file {runs} {bytes:?}"));
            }
        }
    }
    found
}

/// Which file it is.
pub fn inode(path: &Path) -> u64 {
    path.metadata().expect("it is there").ino()
}

/// Takes a snapshot that must be a new one.
#[track_caller]
pub fn kept(worktree: &Worktree, attempt: u32) -> baton::worktree::Snapshot {
    match worktree.snapshot(attempt).expect("it can be kept") {
        Taken::New(snapshot) => snapshot,
        Taken::Same(snapshot) => panic!("nothing new since {}", snapshot.name),
    }
}
