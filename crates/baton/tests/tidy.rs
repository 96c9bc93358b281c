//! The house rules that no compiler guards. Each failure says where, and what to do instead.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use modules::MODULES;
use reading::{Part, Rule, dependencies, files, is_allowed, is_test, metadata, none, used_names};

#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/reading.rs"]
mod reading;

/// This file has to spell what it forbids.
const SELF: &str = "crates/baton/tests/tidy.rs";

/// Which of our crates may stand in whose `[dependencies]`. The testkit is for tests only.
const CRATES: &[(&str, &[&str])] = &[
    ("baton-domain", &[]),
    ("baton-store", &["baton-domain"]),
    ("baton", &["baton-domain", "baton-store"]),
    ("baton-testkit", &[]),
];

const DATABASES: &[&str] =
    &["rusqlite", "libsqlite3-sys", "postgres", "tokio-postgres", "sqlx", "diesel", "redb", "sled"];
const MAY_NAME_A_DATABASE: &[&str] = &["baton-store", "baton-testkit"];

/// Where attacks are listed with the tests that try them.
const ATTACKS: &str = "docs/reliability.md";
/// Those that the surfaces of today are open to.
const ATTACKS_TRIED: [&str; 40] = [
    "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "A14", "A15",
    "A16", "A17", "A18", "A19", "A20", "A21", "A22", "A23", "A24", "A25", "A26", "A27", "A28",
    "A29", "A30", "A31", "A32", "A33", "A34", "A35", "A36", "A37", "A38", "A39", "A40",
];
/// What other supervisors get wrong, in the same file.
const EDGES_TRIED: [&str; 15] = [
    "E15", "E16", "E17", "E18", "E19", "E20", "E21", "E22", "E23", "E24", "E25", "E26", "E27",
    "E28", "E29",
];

const FILE_LINES_MAX: usize = 500;
const DOMAIN_LINES_MAX: usize = 8_800;

#[test]
fn the_domain_depends_on_serde_and_thiserror_only() {
    let found: Vec<_> = dependencies("baton-domain", &[Value::Null]).into_iter().collect();
    assert_eq!(found, ["serde", "thiserror"], "the domain stays pure");
}

#[test]
fn our_crates_depend_one_way() {
    let mut offences = Vec::new();
    for package in metadata(&["--no-deps"]) {
        let name = package["name"].as_str().expect("a package has a name");
        let Some((_, may_use)) = CRATES.iter().find(|(own, _)| *own == name) else {
            offences.push(format!("add a row for `{name}` to CRATES in {SELF}"));
            continue;
        };
        for used in dependencies(name, &[Value::Null, "build".into()]) {
            if CRATES.iter().any(|(own, _)| *own == used) && !may_use.contains(&&*used) {
                offences.push(format!("`{name}` may not depend on `{used}`"));
            }
        }
    }
    none(offences);
}

#[test]
fn only_the_store_names_a_database() {
    let mut offences = Vec::new();
    for (name, _) in CRATES.iter().filter(|(name, _)| !MAY_NAME_A_DATABASE.contains(name)) {
        for used in dependencies(name, &[Value::Null, "build".into(), "dev".into()]) {
            if DATABASES.contains(&&*used) {
                offences.push(format!("`{name}` may not name the database `{used}`"));
            }
        }
    }
    none(offences);
}

#[test]
fn only_one_module_knows_the_sdk_of_mcp() {
    let elsewhere = |path: &str| !path.starts_with("crates/baton/src/mcp");
    let sdk = ["rmcp", "::"].concat();
    let names = |source: &str| source.contains(&sdk);
    let found = files().into_iter().filter(|(path, source)| elsewhere(path) && names(source));
    none(found.map(|(path, _)| format!("{path} names the SDK of MCP")).collect::<Vec<_>>());
}

#[test]
fn modules_use_only_what_their_row_allows() {
    let rows: BTreeMap<_, _> = MODULES.iter().copied().collect();
    let mut offences = BTreeSet::new();
    for (path, source) in files() {
        let Some(inner) = path.strip_prefix("crates/baton/src/") else { continue };
        let Some(inner) = inner.strip_suffix(".rs") else { continue };
        let module = inner.split('/').next().expect("a path has a first part");
        // The library's root only lists the modules, and a test may look around.
        if module == "lib" || is_test(&path) {
            continue;
        }
        let Some(may_use) = rows.get(module) else {
            offences.insert(format!(
                "{path}: add a row for `{module}` to MODULES in tests/tidy/modules.rs"
            ));
            continue;
        };
        let to_the_top = "super::".repeat(inner.split('/').count());
        let mut uses = used_names(&source, &["crate::", &to_the_top]);
        // The root declares the modules and names them without `crate::`.
        let is_used = |name: &&str| !used_names(&source, &[&format!("{name}::")]).is_empty();
        if module == "main" {
            uses.extend(rows.keys().copied().filter(is_used).map(str::to_owned));
        }
        for used in uses {
            if used != module && rows.contains_key(used.as_str()) && !may_use.contains(&&*used) {
                offences.insert(format!("{path}: `{module}` may not use `{used}`"));
            }
        }
    }
    none(offences);
}

#[test]
fn no_two_modules_use_each_other() {
    let mut rest: BTreeMap<_, _> = MODULES.iter().copied().collect();
    // What uses nothing of the rest stands below it; in a circle nobody does.
    while let Some(lowest) = rest
        .iter()
        .find(|(_, may_use)| may_use.iter().all(|used| !rest.contains_key(used)))
        .map(|(name, _)| *name)
    {
        rest.remove(lowest);
    }
    let circle: Vec<_> = rest.keys().collect();
    assert!(
        circle.is_empty(),
        "{circle:?} use each other, or what does: take apart what both need"
    );
}

#[test]
fn no_file_is_too_long() {
    let long = |(path, source): (String, String)| {
        let counts = path == "check"
            || [".rs", ".sql", ".css", ".js", ".sh", ".py"].iter().any(|end| path.ends_with(end));
        let lines = source.lines().count();
        (counts && lines > FILE_LINES_MAX)
            .then(|| format!("{path}: {lines} lines, at most {FILE_LINES_MAX}; split by meaning"))
    };
    none(files().into_iter().filter_map(long));
}

#[test]
fn the_domain_stays_small() {
    let of_the_domain = |path: &str| path.starts_with("crates/domain/src/") && !is_test(path);
    let sources = files().into_iter().filter(|(path, _)| of_the_domain(path));
    let lines: usize = sources.map(|(_, source)| source.lines().count()).sum();
    assert!(lines <= DOMAIN_LINES_MAX, "the domain has {lines} lines, at most {DOMAIN_LINES_MAX}");
}

#[test]
fn every_dependency_says_why() {
    let mut offences = Vec::new();
    for (path, manifest) in files() {
        if !(path.starts_with("crates/") && path.ends_with("/Cargo.toml")) {
            continue;
        }
        let mut section = "";
        for (number, line) in (1..).zip(manifest.lines()) {
            let opens = line.starts_with('[');
            section = if opens { line } else { section };
            let names_one = if opens {
                line.contains("dependencies.")
            } else {
                section.contains("dependencies]") && line.starts_with(char::is_alphanumeric)
            };
            let why = line.split_once('#').map_or("", |(_, why)| why.trim());
            if names_one && why.is_empty() && !line.starts_with("baton-") {
                offences.push(format!("{path}:{number}: say why, `{line} # …`"));
            }
        }
    }
    none(offences);
}

#[test]
fn files_are_named_after_what_they_hold() {
    let says_nothing = ["mod", "util", "utils", "common", "helper", "helpers", "imp", "misc"];
    let named = |(path, _): (String, String)| {
        let mut stems = path.split('/').filter_map(|part| part.split('.').next());
        stems
            .any(|stem| says_nothing.contains(&stem))
            .then(|| format!("{path}: name it after what it holds; `foo.rs` beside `foo/`"))
    };
    none(files().into_iter().filter_map(named));
}

#[test]
fn sql_is_written_in_the_store_only() {
    Rule {
        forbids: &["SELECT ", "INSERT INTO", "UPDATE * SET ", "DELETE FROM"],
        inside: Part::Text,
        of: |path| path.starts_with("crates/") && path.contains("/src/"),
        except: &["crates/store/src/", "crates/testkit/src/", "crates/baton/src/bench"],
        instead: "ask the store; SQL has one home",
    }
    .check();
}

#[test]
fn state_has_one_writer() {
    Rule {
        forbids: &[".state = ", ".run = "],
        inside: Part::Code,
        of: |path| path.starts_with("crates/") && path.contains("/src/") && !is_test(path),
        except: &["crates/domain/src/apply"],
        instead: "decide an event; only `apply` writes state",
    }
    .check();
}

#[test]
fn the_domain_iterates_in_order() {
    Rule {
        forbids: &["HashMap", "HashSet", "RandomState"],
        inside: Part::Code,
        of: |path| path.starts_with("crates/domain/src/"),
        except: &[],
        instead: "take the BTree one; deciding twice must give the same events in the same order",
    }
    .check();
}

#[test]
fn no_test_sleeps_or_looks_away() {
    Rule {
        forbids: &["thread::sleep", "time::sleep", "time::{*sleep", "#[ignore", "#[should_panic"],
        inside: Part::Code,
        of: is_test,
        except: &[],
        instead: "wait for the thing itself, assert the error itself",
    }
    .check();
}

#[test]
fn what_is_left_to_do_names_its_issue() {
    let has_issue = |line: &str| line.split('#').skip(1).any(|s| s.starts_with(char::is_numeric));
    let mut offences = Vec::new();
    for (path, source) in files().into_iter().filter(|(path, _)| path != SELF) {
        for (number, line) in (1..).zip(source.lines()) {
            let mut words = line.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| ["TODO", "FIXME", "XXX"].contains(&word)) && !has_issue(line) {
                offences.push(format!("{path}:{number}: name the issue, like #12"));
            }
        }
    }
    none(offences);
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    let hosts = ["index", "static"].map(|host| format!("{host}.crates.io"));
    let tops = ["work", "farm", "home", "root"].map(|top| format!("/{top}/"));
    let in_a_longer_path = |c: char| c.is_alphanumeric() || "_-.~/{}$".contains(c);
    let mut offences = Vec::new();
    for (path, source) in files() {
        for (number, line) in (1..).zip(source.lines()) {
            let machine = tops.iter().any(|top| {
                let mut found = line.match_indices(top.as_str());
                found.any(|(at, _)| !line[..at].ends_with(in_a_longer_path))
            });
            let registry = hosts.iter().any(|host| line.contains(host))
                || (path != SELF
                    && (line.contains("artifactory") || line.contains("replace-with")));
            if machine || registry {
                offences.push(format!("{path}:{number}: this is true of one machine only"));
            }
        }
    }
    none(offences);
}

#[test]
fn every_crate_is_from_crates_io_under_a_known_licence() {
    let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
    let packages = metadata(&[]);
    let offences = packages.iter().filter_map(|package| {
        let (name, source) = (&package["name"], &package["source"]);
        let licence = package["license"].as_str().unwrap_or("none");
        let ours = source.is_null() && CRATES.iter().any(|(own, _)| name == own);
        if !ours && source != crates_io {
            Some(format!("{name} comes from {source}, not from crates.io"))
        } else {
            (!is_allowed(licence)).then(|| format!("{name} has the licence {licence}"))
        }
    });
    none(offences);
}

#[test]
fn every_attack_names_tests_that_exist() {
    let sources = files();
    let (_, page) = sources.iter().find(|(path, _)| path == ATTACKS).expect("it is written");
    let tests = sources.iter().filter(|(path, _)| path.ends_with(".rs"));
    let tests: String = tests.map(|(_, source)| source.as_str()).collect();
    let mut offences = Vec::new();
    for attack in ATTACKS_TRIED.into_iter().chain(EDGES_TRIED) {
        let row = page.lines().find(|line| line.starts_with(&format!("| {attack} |")));
        let named = row.map_or(0, |row| row.matches('`').count() / 2);
        if named == 0 {
            offences.push(format!("{ATTACKS}: {attack} names no test"));
        }
    }
    for line in page.lines() {
        for name in line.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 2)
        {
            if !tests.contains(&format!("fn {name}(")) {
                offences.push(format!("{ATTACKS}: there is no test `{name}`"));
            }
        }
    }
    none(offences);
}
