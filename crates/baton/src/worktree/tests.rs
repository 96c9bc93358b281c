//! What names mean. Everything else is tried with real repositories, in `tests/worktree`.

use super::names::plain;
use super::refs::is_branch;
use super::scan::is_refused;

#[test]
fn different_names_stay_different_and_mean_nothing_to_a_path() {
    assert_eq!(plain("team/shop.web"), "team%2fshop%2eweb");
    assert_eq!(plain("a:b@c_d-e"), "a%3ab%40c_d-e");
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
