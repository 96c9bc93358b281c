//! Every finding, injected alone into a machine on which all is well.

mod elsewhere;

use std::path::{Path, PathBuf};

use baton_domain::time::Timestamp;

use super::facts::{Database, Facts, Pepper, Server, State, Thing, Told, Trouble, quoted};
use super::isolation::Tried;
use super::judge::{Finding, Level, judge};
use crate::shim::Isolation;
use crate::surroundings::{Hidden, Surroundings};

fn thing(path: &str, mode: u32, folder: bool) -> Thing {
    Thing { path: path.into(), state: State::Present { mode, ours: true, folder } }
}

/// A machine that lets agents be kept apart.
fn apart() -> Tried {
    let isolation =
        Isolation { namespace: Some(7), subreaper: true, own_proc: true, ..Isolation::default() };
    Tried { isolation, switch: None }
}

const NOON: Timestamp = Timestamp(1_794_735_000_000);

/// A machine on which all is well.
fn well() -> Facts {
    Facts {
        folder: thing("/d", 0o700, true),
        in_use: true,
        unfinished: false,
        free: Some(1 << 40),
        free_min: 256 << 20,
        network: None,
        read_only: false,
        database: Database::Sound { version: 1, incarnation: 0x5f },
        condition: None,
        database_changed_at: Some(NOON),
        socket_folder: thing("/d/run", 0o700, true),
        blobs: thing("/d/blobs", 0o700, true),
        secrets: vec![thing("/d/pepper", 0o600, false)],
        pepper: Pepper::Fits,
        leftovers: vec![],
        stale_socket: None,
        server: Server::Green,
        told: Told { pid: Some(7), now: Some(NOON), ..Told::default() },
        place: "/d/run/baton.sock".into(),
        host: None,
        plain_beyond: false,
        serve: "baton serve --data /d".into(),
        now: NOON,
        around: Surroundings::default(),
        key_file: None,
        isolation: Some(apart()),
        repository: None,
    }
}

/// The only finding that is not good.
fn only(change: impl FnOnce(&mut Facts)) -> Finding {
    let mut facts = well();
    change(&mut facts);
    let mut found: Vec<_> =
        judge(&facts).into_iter().filter(|one| one.level != Level::Good).collect();
    let first = found.pop().expect("it is found");
    assert_eq!(found, [], "and nothing else");
    first
}

fn check(level: Level, about: &str, fix: &str, change: impl FnOnce(&mut Facts)) {
    let found = only(change);
    assert_eq!((found.level, found.about), (level, about), "{found:?}");
    assert!(found.fix.as_deref().is_some_and(|said| said.contains(fix)), "{found:?}");
}

#[test]
fn a_machine_on_which_all_is_well_has_no_findings() {
    assert!(judge(&well()).iter().all(|one| one.level == Level::Good && one.fix.is_none()));
}

#[test]
fn what_is_wrong_with_the_folder_is_found_alone() {
    use Level::{Odd, Wrong};
    check(Wrong, "folder", "chmod 700 /d", |facts| facts.folder = thing("/d", 0o755, true));
    check(Wrong, "folder", "mv /d", |facts| facts.folder = thing("/d", 0o700, false));
    check(Wrong, "folder", "chown", |facts| {
        facts.folder.state = State::Present { mode: 0o700, ours: false, folder: true };
    });
    check(Wrong, "folder", "export BATON_HOME=", |facts| facts.folder.state = State::Unreadable);
    check(Wrong, "disk", "baton serve --data /var/tmp", |facts| facts.network = Some("nfs"));
    check(Wrong, "disk", "mount -o remount,rw", |facts| facts.read_only = true);
    check(Wrong, "disk", "df -h", |facts| facts.free = Some(1));
    check(Odd, "disk", "df -h", |facts| facts.free = None);
    check(Odd, "restore", "baton serve", |facts| facts.unfinished = true);
    check(Odd, "copies", "rm '/d/a b.partial'", |facts| {
        facts.leftovers = vec!["/d/a b.partial".into()];
    });
    check(Wrong, "blobs", "chmod 700 /d/blobs", |facts| {
        facts.blobs = thing("/d/blobs", 0o755, true);
    });
    check(Odd, "socket", "baton serve", |facts| facts.stale_socket = Some("/d/s".into()));
    check(Wrong, "pepper", "mv /d/pepper ", |facts| facts.pepper = Pepper::Wrong);
    check(Wrong, "pepper", "find / -name pepper", |facts| facts.pepper = Pepper::Missing);
    check(Wrong, "pepper", "mv /d/pepper ", |facts| facts.pepper = Pepper::Unusable("x".into()));
    check(Odd, "database", "baton serve", |facts| facts.database = Database::Absent);
    check(Wrong, "database", "which -a baton", |facts| {
        facts.database = Database::Newer("x".into())
    });
    check(Wrong, "database", "mv /d /d.broken; baton serve", |facts| {
        facts.database = Database::Broken("x".into());
    });
    check(Wrong, "secret", "chmod 600 /d/pepper", |facts| {
        facts.secrets = vec![thing("/d/pepper", 0o644, false)];
    });
    check(Wrong, "socket", "chmod 700 /d/run", |facts| {
        facts.socket_folder = thing("/d/run", 0o777, true);
    });
}

#[test]
fn what_is_wrong_with_the_server_and_the_clock_is_found_alone() {
    use Level::{Odd, Wrong};
    check(Wrong, "server", "baton serve", |facts| {
        facts.in_use = false;
        facts.server = Server::Silent("nobody".into());
    });
    let refused =
        |next: Option<&str>| Server::Refused { why: "x".into(), next: next.map(str::to_owned) };
    check(Wrong, "server", "unset BATON_URL", |facts| facts.server = refused(None));
    check(Wrong, "server", "chmod 600 /k", |facts| facts.server = refused(Some("chmod 600 /k")));
    check(Wrong, "server", "unset BATON_KEY", |facts| {
        facts.around.key = Some(Hidden::new("k"));
        facts.server = refused(Some("baton doctor"));
    });
    check(Wrong, "server", "unset BATON_CLAIM_TOKEN", |facts| {
        facts.around.claim_token = Some(Hidden::new("t"));
        facts.server = refused(Some("unset BATON_CLAIM_TOKEN"));
    });
    check(Wrong, "server", "ssh far baton key create", |facts| {
        facts.host = Some("far".into());
        facts.server = refused(None);
    });
    check(Wrong, "server", "unset BATON_URL", |facts| {
        facts.in_use = false;
        facts.server = Server::Nowhere("no URL".into());
    });
    check(Wrong, "server", "ssh far baton doctor", |facts| {
        facts.in_use = false;
        facts.host = Some("far".into());
        facts.server = Server::Silent("nobody".into());
    });
    let trouble = |next: &str| {
        Server::Troubled(vec![Trouble { detail: "it stands".into(), next: next.into() }])
    };
    check(Wrong, "server", "df -h", |facts| facts.server = trouble("df -h"));
    check(Wrong, "server", "kill -TERM 7; sleep 3; baton serve", |facts| {
        facts.server = trouble("baton doctor");
    });
    check(Odd, "version", "which -a baton", |facts| facts.told.version = Some("99.0.0".into()));
    check(Odd, "agents", "baton inbox", |facts| facts.told.stop_unverified = 2);
    check(Odd, "accounts", "baton pool list", |facts| {
        facts.told.exhausted = Some("every account is exhausted".to_owned());
    });
    check(Odd, "clock", "kill -TERM 7", |facts| facts.told.now = Some(Timestamp(NOON.0 + 61_000)));
    check(Wrong, "clock", "timedatectl", |facts| facts.now = Timestamp(0));
    check(Odd, "clock", "timedatectl", |facts| {
        facts.now.0 -= 120_000;
        facts.told.now = None;
    });
    let mut facts = well();
    facts.server = Server::Silent("nobody".into());
    let lock = judge(&facts).into_iter().find(|one| one.about == "lock").expect("it is looked at");
    assert_eq!(lock.level, Level::Wrong, "it is in use, but not where we ask");
}

#[test]
fn what_contradicts_in_the_environment_is_found_alone() {
    let odd = |fix: &str, change: fn(&mut Surroundings)| {
        check(Level::Odd, "environment", fix, |facts| change(&mut facts.around));
    };
    odd("unset BATON_SOCKET", |around| {
        around.url = Some("http://localhost:1".into());
        around.socket = Some("/s".into());
    });
    odd("unset BATON_PEPPER_FILE", |around| around.pepper_file = Some("/p".into()));
    odd("export BATON_HOME=$PWD/data", |around| around.home = Some("data".into()));
    odd("unset BATON_OUTPUT", |around| around.output = Some("xml".into()));
    odd("unset BATON_KEY", |around| around.unreadable = vec!["BATON_KEY"]);
    odd("unset BATON_KEY_FILE", |around| {
        around.key = Some(Hidden::new("k"));
        around.key_file = Some("/k".into());
    });
    check(Level::Odd, "environment", "ssh -fNL 7117:localhost:7117 far", |facts| {
        (facts.plain_beyond, facts.host) = (true, Some("far".into()));
    });
    check(Level::Wrong, "key file", "chmod 600 /k", |facts| {
        facts.key_file = Some(thing("/k", 0o640, false));
    });
    check(Level::Wrong, "environment", "unset BATON_KEY_FILE", |facts| {
        facts.key_file = Some(Thing { path: PathBuf::from("/k"), state: State::Absent });
    });
}

#[test]
fn looking_makes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data: &Path = &folder.path().join("data");
    let facts = Facts::gather(data, &Surroundings::default(), Timestamp(1_794_735_000_000));
    assert_eq!(facts.folder.state, State::Absent);
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    let found = judge(&facts).into_iter().find(|one| one.about == "folder");
    let fix = format!("baton serve --data {}", quoted(data));
    assert_eq!(found.and_then(|one| one.fix), Some(fix));
}

#[test]
fn what_keeps_agents_from_being_kept_apart_is_found_alone() {
    let denied = |facts: &mut Facts, switch| {
        let mut tried = apart();
        tried.isolation.namespace = None;
        tried.isolation.denied = vec!["namespace: Operation not permitted".into()];
        tried.switch = switch;
        facts.isolation = Some(tried);
    };
    let check = |fix: &str, change: &dyn Fn(&mut Facts)| {
        check(Level::Odd, "isolation", fix, |facts| change(facts));
    };
    check("sudo sysctl user.max_user_namespaces=15000", &|facts| {
        denied(facts, Some("user.max_user_namespaces=15000"));
    });
    check("Delegate=yes", &|facts| denied(facts, None));
    check("docker run --security-opt", &|facts| {
        denied(facts, None);
        let tried = facts.isolation.as_mut().expect("it was tried");
        tried.isolation.cgroup = Some("/g".into());
    });
    check("docker run --security-opt", &|facts| {
        let mut tried = apart();
        tried.isolation.own_proc = false;
        facts.isolation = Some(tried);
    });
}
