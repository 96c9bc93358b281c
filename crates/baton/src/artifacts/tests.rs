mod race;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{Digest, LineId};
use baton_domain::text::Line;
use baton_store::blobs::BYTES_MAX;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{Gathered, Source};

/// A root with a folder beside it, and what a contract finds there.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["root", "root/out", "beside", "copies"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        fs::write(folder.path().join("beside/secret"), "secret").expect("a file");
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at("root").join(name), text).expect("a file");
    }

    fn source(&self) -> Source {
        Source::open(&self.at("root")).expect("a folder")
    }

    fn gather(&self, contract: &Contract) -> Gathered {
        self.source().gather(contract, &BTreeMap::new(), &self.at("copies"))
    }

    /// The one code that a path is refused with.
    fn code(&self, path: &str) -> &'static str {
        let gathered = self.gather(&asking(&[path]));
        assert!(gathered.made.is_empty(), "{path}: {gathered:?}");
        assert_eq!(gathered.open.len(), 1, "{path}: {gathered:?}");
        gathered.open[0].code
    }
}

fn asking(paths: &[&str]) -> Contract {
    let term = |path: &str| Term::Artifact { path: line(path), bytes_min: 3, schema: None };
    let name = |index: usize| LineId::new(&format!("a{index:03}")).expect("a name");
    Contract { lines: paths.iter().enumerate().map(|(i, path)| (name(i), term(path))).collect() }
}

fn line(text: &str) -> Line {
    Line::new("path", text).expect("a line")
}

fn names(gathered: &Gathered) -> Vec<&str> {
    gathered.made.iter().map(|made| made.artifact.path.as_str()).collect()
}

#[test]
fn what_is_there_is_copied_as_it_was_hashed() {
    let scene = Scene::new();
    scene.write("out/report.txt", "hello");
    let gathered = scene.gather(&asking(&["out/report.txt"]));
    assert!(gathered.open.is_empty(), "{gathered:?}");
    let made = &gathered.made[0];
    let of_hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!((made.artifact.digest.as_str(), made.artifact.bytes), (of_hello, 5));
    // What happens afterwards is not seen.
    scene.write("out/report.txt", "other");
    assert_eq!(fs::read(&made.copy).expect("the copy"), b"hello");
    drop(gathered);
    assert_eq!(fs::read_dir(scene.at("copies")).expect("a folder").count(), 0);
}

#[test]
fn whatever_is_no_plain_file_of_the_root_has_a_code_of_its_own_and_blocks_nobody() {
    let scene = Scene::new();
    let root = scene.at("root");
    scene.write("empty", "");
    scene.write("small", "ab");
    scene.write("two-names", "linked");
    fs::hard_link(root.join("two-names"), scene.at("beside/other-name")).expect("a name");
    fs::hard_link(scene.at("beside/secret"), root.join("hard")).expect("a name");
    symlink("../beside/secret", root.join("soft")).expect("a link");
    symlink("two-names", root.join("soft-inside")).expect("a link");
    symlink("../beside", root.join("folder-link")).expect("a link");
    symlink("/proc/self/fd/0", root.join("magic")).expect("a link");
    mkfifoat(CWD, root.join("pipe"), Mode::from_raw_mode(0o600)).expect("a pipe");
    let _listening = UnixListener::bind(root.join("socket")).expect("a socket");
    let large = fs::File::create(root.join("large")).expect("a file");
    large.set_len(BYTES_MAX + 1).expect("a hole");
    for (path, code) in [
        ("nowhere", "artifact_missing"),
        ("out/nowhere/deeper", "artifact_missing"),
        ("small/inside", "artifact_missing"),
        ("out", "artifact_not_a_file"),
        ("pipe", "artifact_not_a_file"),
        ("socket", "artifact_not_a_file"),
        ("empty", "artifact_empty"),
        ("small", "artifact_too_small"),
        ("large", "artifact_too_large"),
        ("hard", "artifact_linked"),
        ("two-names", "artifact_linked"),
        ("soft", "artifact_link"),
        ("soft-inside", "artifact_link"),
        ("folder-link/secret", "artifact_link"),
        ("magic", "artifact_link"),
        ("nothing-*", "artifact_missing"),
        ("sof*", "artifact_link"),
    ] {
        if path == "sof*" {
            fs::remove_file(root.join("soft-inside")).expect("it was there");
        }
        assert_eq!(scene.code(path), code, "{path}");
    }
}

#[test]
fn a_device_and_another_file_system_are_refused() {
    // What every system has: the root of another file system, with a device in it.
    let source = Source::open(Path::new("/")).expect("a folder");
    let copies = tempfile::tempdir().expect("a folder");
    let gathered =
        source.gather(&asking(&["dev/zero", "proc/version"]), &BTreeMap::new(), copies.path());
    let codes: Vec<_> = gathered.open.iter().map(|one| one.code).collect();
    assert_eq!(codes.len(), 2, "{gathered:?}");
    for code in codes {
        assert!(["artifact_outside", "artifact_not_a_file"].contains(&code), "{code}");
    }
}

#[test]
fn a_file_that_nobody_may_read_is_told_so() {
    let scene = Scene::new();
    scene.write("closed", "closed");
    let path = scene.at("root/closed");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("its rights");
    // Nothing is closed to a superuser, so whoever looks is none.
    let looks = || {
        let mut sets = capabilities(None).expect("its own");
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).expect("less is always allowed");
        scene.code("closed")
    };
    let told = thread::scope(|scope| scope.spawn(looks).join().expect("it looks"));
    assert_eq!(told, "artifact_unreadable");
}

#[test]
fn every_open_line_is_told_and_those_that_hold_are_taken() {
    let scene = Scene::new();
    scene.write("good", "good");
    scene.write("empty", "");
    let gathered = scene.gather(&asking(&["empty", "good", "nowhere", "out"]));
    assert_eq!(names(&gathered), ["good"]);
    let told: Vec<_> =
        gathered.open.iter().map(|one| (one.line.as_str(), one.code, one.path.as_str())).collect();
    assert_eq!(
        told,
        [
            ("a000", "artifact_empty", "empty"),
            ("a002", "artifact_missing", "nowhere"),
            ("a003", "artifact_not_a_file", "out"),
        ]
    );
}

#[test]
fn what_was_there_before_the_attempt_was_not_made_by_it() {
    let scene = Scene::new();
    scene.write("out/old.txt", "as it was");
    scene.write("out/changed.txt", "as it was");
    let contract = asking(&["out/*.txt"]);
    let before = scene.source().marks(&contract);
    assert_eq!(before.len(), 2);
    scene.write("out/changed.txt", "otherwise");
    scene.write("out/new.txt", "as it was");
    let gathered = scene.source().gather(&contract, &before, &scene.at("copies"));
    assert_eq!(names(&gathered), ["out/changed.txt", "out/new.txt"]);
    let stale: Vec<_> = gathered.open.iter().map(|one| (one.code, one.path.as_str())).collect();
    assert_eq!(stale, [("artifact_stale", "out/old.txt")]);
    // Touched, but the same: that is no work.
    scene.write("out/old.txt", "as it was");
    let again = scene.source().gather(&contract, &before, &scene.at("copies"));
    assert_eq!(again.open.len(), 1);
}

#[test]
fn a_pattern_finds_files_at_every_depth_and_nothing_of_git() {
    let scene = Scene::new();
    for folder in ["a", "a/b", ".git", "a/.git"] {
        fs::create_dir(scene.at("root").join(folder)).expect("a folder");
    }
    for name in ["x.json", "a/x.json", "a/b/x.json", "a/b/y.txt", ".git/x.json", "a/.git/x.json"] {
        scene.write(name, "text");
    }
    for (pattern, found) in [
        ("*.json", vec!["x.json"]),
        ("**/*.json", vec!["a/b/x.json", "a/x.json", "x.json"]),
        ("a/**", vec!["a/b/x.json", "a/b/y.txt", "a/x.json"]),
        ("a/*/y.*", vec!["a/b/y.txt"]),
        ("**/b/**/x.json", vec!["a/b/x.json"]),
    ] {
        assert_eq!(names(&scene.gather(&asking(&[pattern]))), found, "{pattern}");
    }
    let both = scene.gather(&asking(&["**/*.json", "a/x.json"]));
    assert_eq!(both.made.len(), 3, "a file that two lines ask for is taken once");
    assert!(both.open.is_empty());
}

#[test]
fn too_many_files_and_names_that_nobody_can_write_are_refused() {
    let scene = Scene::new();
    for number in 0..=256 {
        scene.write(&format!("out/{number}"), "text");
    }
    assert_eq!(scene.code("out/*"), "artifact_too_many");
    scene.write("bell\u{7}", "text");
    assert_eq!(scene.code("bell*"), "artifact_name");
    scene.write("dot.", "text");
    assert_eq!(scene.code("dot*"), "artifact_name");
}

#[test]
fn a_root_that_is_replaced_is_not_followed() {
    let scene = Scene::new();
    scene.write("file", "first");
    let source = scene.source();
    fs::rename(scene.at("root"), scene.at("moved")).expect("a name");
    symlink("beside", scene.at("root")).expect("a link");
    fs::write(scene.at("beside/file"), "other").expect("a file");
    assert!(Source::open(&scene.at("root")).is_err(), "a link is no root");
    let gathered = source.gather(&asking(&["file"]), &BTreeMap::new(), &scene.at("copies"));
    assert_eq!(fs::read(&gathered.made[0].copy).expect("the copy"), b"first");
    let of_first = Digest::new("a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e");
    assert_eq!(Ok(&gathered.made[0].artifact.digest), of_first.as_ref());
}
