//! What names mean, what paths reach, and what a git is that does not end. Everything else is tried with real
//! repositories, in `tests/worktree`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::beneath::Root;
use super::names::plain;
use super::refs::is_branch;
use super::scan::is_refused;
use super::{Error, Git};

#[test]
fn different_names_stay_different_and_mean_nothing_to_a_path() {
    assert_eq!(plain("team/shop.web"), "team_2fshop_2eweb");
    assert_eq!(plain("a:b@c_d-e"), "a_3ab_40c_5fd-e");
}

#[test]
fn a_branch_cannot_leave_its_folder() {
    for good in ["refs/heads/main", "refs/heads/a/b-c.d"] {
        assert!(is_branch(good), "{good}");
    }
    for bad in [
        "refs/heads/",
        "refs/heads/../x",
        "refs/heads/a//b",
        "refs/heads/.x",
        "refs/heads/x.lock",
        "refs/heads/a b",
        "refs/heads/a\nb",
        "refs/tags/x",
        "HEAD",
        "refs/heads/-x",
        "refs/heads/x@{1}",
    ] {
        assert!(!is_branch(bad), "{bad}");
    }
}

#[test]
fn names_that_some_file_system_takes_for_gits_own_are_refused() {
    for (name, link) in [
        (".git/config", false),
        ("a/.GIT/hooks/x", false),
        ("git~1", false),
        (".git . ", false),
        (".g\u{200c}it/config", false),
        ("a\\.git\\x", false),
        (".git::$INDEX", false),
        (".gitmodules", true),
        (".GITMODULES", true),
    ] {
        assert!(is_refused(name.as_bytes(), link), "{name}");
    }
    for (name, link) in
        [(".gitignore", false), (".gitmodules", false), ("git", false), ("a.git", true)]
    {
        assert!(!is_refused(name.as_bytes(), link), "{name}");
    }
}

#[test]
fn no_path_leads_out_of_its_root_on_a_new_kernel_or_an_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    for folder in [&inside, &outside, &inside.join("deep")] {
        fs::create_dir(folder).expect("a folder");
    }
    for file in [inside.join("file"), inside.join("deep/file"), outside.join("file")] {
        fs::write(file, "text").expect("a file");
    }
    symlink("../out", inside.join("up")).expect("a link");
    symlink("deep", inside.join("across")).expect("a link");
    symlink("file", inside.join("name")).expect("a link");
    let root = Root::open(&inside).expect("a folder");
    let (flags, none) = (OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    for good in ["file", "deep/file"] {
        assert!(root.file(Path::new(good)).is_ok(), "{good}");
        assert!(root.step_by_step(Path::new(good), flags, none).is_ok(), "{good}");
    }
    for bad in ["up/file", "across/file", "name"] {
        assert!(root.file(Path::new(bad)).is_err(), "{bad}");
        assert!(root.step_by_step(Path::new(bad), flags, none).is_err(), "{bad}");
    }
    for bad in ["../out/file", "/etc/passwd", "", "./file", "deep/../file", "deep"] {
        assert!(root.file(Path::new(bad)).is_err(), "{bad}");
    }
    assert!(root.make(Path::new("up/new"), 0o600).is_err());
    assert!(root.make(Path::new("file"), 0o600).is_err());
    assert!(root.make(Path::new("a/b/new"), 0o600).is_ok());
    assert_eq!(fs::read_dir(outside).expect("a folder").count(), 1);
}

/// A program that calls itself git.
fn pretended(script: &str) -> (tempfile::TempDir, Git) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("git");
    let whole = format!(
        "#!/bin/sh\nfor word; do last=$word; done\n\
         [ \"$last\" = version ] && echo git version 2.99.0 && exit\n{script}\n"
    );
    fs::write(&program, whole).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its rights");
    let folders = [folder.path(), Path::new("/usr/bin"), Path::new("/bin")].map(PathBuf::from);
    let git = Git::find(&folders).expect("it says that it is git");
    (folder, git)
}

#[test]
fn a_git_that_does_not_end_is_killed_with_everything_that_it_started() {
    let (_kept, git) = pretended("tail -f /dev/null & tail -f /dev/null");
    let call = git.call(Path::new("/dev/null"), "status").within(Duration::from_millis(200));
    // It returns at all because nobody is left who holds its output open.
    let ended = call.run();
    assert!(matches!(ended, Err(Error::TooSlow { .. })), "{ended:?}");
}

#[test]
fn a_git_that_ends_leaves_nobody_behind_who_holds_its_output() {
    let (_kept, git) = pretended("tail -f /dev/null & echo done");
    let said = git.call(Path::new("/dev/null"), "status").run().expect("it ends");
    assert_eq!(said, b"done\n");
}

#[test]
fn a_git_that_says_too_much_is_not_listened_to() {
    let (_kept, git) = pretended("cat /dev/zero");
    let ended = git.call(Path::new("/dev/null"), "status").at_most(1_000).run();
    assert!(matches!(ended, Err(Error::TooMuch { .. })), "{ended:?}");
}

#[test]
fn a_git_that_fails_is_quoted_and_has_no_environment_but_ours() {
    let (_kept, git) = pretended("echo it broke >&2; env >&2; exit 3");
    match git.call(Path::new("/nowhere"), "status").run() {
        Err(Error::Git { code: Some(3), said, .. }) => {
            assert!(said.starts_with("it broke\n"), "{said}");
            let names = said.lines().skip(1).filter_map(|line| line.split_once('='));
            let known = |name: &str| {
                ["PATH", "HOME", "XDG_CONFIG_HOME", "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD"]
                    .contains(&name)
                    || name.starts_with("GIT_")
            };
            let strange: Vec<_> = names.map(|(name, _)| name).filter(|name| !known(name)).collect();
            assert!(strange.is_empty(), "{strange:?}");
            assert!(said.contains("GIT_DIR=/nowhere") && said.contains("HOME=/dev/null"), "{said}");
        }
        other => panic!("{other:?}"),
    }
}
