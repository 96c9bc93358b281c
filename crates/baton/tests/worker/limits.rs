//! Limits that real agents run into: accounts, money, places, room.

use std::fs;

use serde_json::Value;

use crate::house::{BATON, House, text_of};

/// How often something is looked at before a test gives up; each look is a command of its own.
const LOOKS_MAX: usize = 3_000;
/// The account of every agent here.
const ACCOUNT: &str = "account = 'acme'\n";

fn settings(house: &House, head: &str, tail: &str) {
    let steps = house.path("steps");
    let text = format!(
        "memory_floor = '0'\ndisk_floor = '0'\n{head}\n[agents.demo]\nprogram = 'script'\n\
         arguments = ['{}']\n{tail}",
        steps.display()
    );
    fs::write(house.data().join("worker.toml"), text).expect("there is room");
}

/// A server with a project, and a worker's settings.
fn house(steps: &str, head: &str, tail: &str) -> House {
    let mut house = House::empty(steps);
    settings(&house, head, tail);
    house.serve();
    house.types(&["project", "add", "shop"]);
    house
}

fn add(house: &House, more: &[&str]) {
    let words = ["add", "Something", "--stage", "coding"];
    let words: Vec<_> = words.into_iter().chain(more.iter().copied()).collect();
    house.types(&words);
}

/// Looks until something is so.
fn until<T>(house: &House, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look() {
            return found;
        }
    }
    panic!("{what} never comes: {}", house.logs())
}

fn count(house: &House, badge: &str) -> u64 {
    house.types(&["stats", "show"])["badges"][badge].as_u64().unwrap_or(0)
}

fn ended(house: &House) -> u64 {
    house.types(&["stats", "show"])["ended"].as_u64().expect("it is counted")
}

fn lines(house: &House, name: &str) -> Vec<String> {
    let text = fs::read_to_string(house.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn attempts(house: &House, task: usize) -> Vec<Value> {
    let page = house.types(&["attempt", "list", &format!("T-{task}")]);
    page["items"].as_array().expect("a list").clone()
}

#[test]
fn fifty_tasks_wait_for_their_account_and_none_burns_a_try() {
    const TASKS: usize = 50;
    let mut house = House::empty("");
    let log = house.path("spawned").display().to_string();
    let steps = |rest: &str| format!("run date +%s%3N >> {log}\n{rest}\n");
    house.steps(&steps("limit 12s"));
    settings(&house, "slots = 4", ACCOUNT);
    house.serve();
    house.types(&["project", "add", "shop"]);
    // Whoever were blamed once would have failed for good.
    let policy = r#"{"attempts_max":1,"losses_max":1}"#;
    for _ in 0..TASKS {
        add(&house, &["-P", "shop", "--policy", policy]);
    }
    house.work_on(&[]);
    let reset = until(&house, "the limit", || {
        let stats = house.types(&["stats", "show"]);
        stats["exhausted"]["until"].as_str().map(str::to_owned)
    });
    house.steps(&steps("complete Done"));
    let told = house.command(&[]).env_remove("BATON_OUTPUT").output().expect("it starts");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("every account is exhausted (acme); the first opens at"), "{told}");
    let reset: jiff::Timestamp = reset.parse().expect("it is a time");
    until(&house, "the end", || (ended(&house) == TASKS as u64).then_some(()));
    let began: Vec<i64> =
        lines(&house, "spawned").iter().filter_map(|at| at.parse().ok()).collect();
    let before = began.iter().filter(|at| **at < reset.as_millisecond()).count();
    assert!(before <= 4, "{before} began before the account was open again");
    assert_eq!(began.len(), TASKS + before, "each began once more at most");
    for task in 1..=TASKS {
        let outcomes: Vec<_> =
            attempts(&house, task).iter().map(|it| it["outcome"].clone()).collect();
        assert!(
            outcomes == ["completed"] || outcomes == ["released", "completed"],
            "T-{task}: {outcomes:?}"
        );
    }
}

#[test]
fn twenty_runs_under_one_budget_stop_within_a_report_of_its_end() {
    const RUNS: usize = 20;
    const COST: u64 = 1_000;
    // Four times a second, until somebody stops it.
    let steps: String = (0..400).map(|_| "use 1 1 1000\nsleep 250ms\n").collect();
    let mut house = house(&steps, "slots = 20", "");
    house.types(&["pool", "set", "budget day", "--money", "0.30"]);
    for _ in 0..RUNS {
        add(&house, &["-P", "shop"]);
    }
    house.work_on(&[]);
    let delayed = || count(&house, "delayed") + count(&house, "queued");
    until(&house, "the end of the money", || (delayed() == RUNS as u64).then_some(()));
    let pools = house.types(&["pool", "list"]);
    let money = &pools["items"][0]["money"];
    assert_eq!((&money["limit"], &money["left"]), (&"0.30".into(), &"0.00".into()), "{pools}");
    let spent: u64 = (1..=RUNS)
        .flat_map(|task| attempts(&house, task))
        .map(|attempt| attempt["spent_micros"].as_u64().expect("it is counted"))
        .sum();
    // What was used is told every second: one until the books know, one until the last is heard, and two to end.
    let report = RUNS as u64 * COST * 4 * (1 + 1 + 2);
    println!("20 runs under a budget of 300000 micros spent {spent}: {} too much", spent - 300_000);
    assert!(spent <= 300_000 + report, "{spent}");
    let told = house.types(&["explain", "T-1"]).to_string();
    assert!(told.contains("budget day"), "{told}");
}

#[test]
fn no_limit_is_passed_by_those_that_are_about_to_begin() {
    let mut house = House::empty("");
    let log = house.path("log").display().to_string();
    house.steps(&format!(
        "run echo \"$BATON_PROJECT +\" >> {log}\nsleep 700ms\nrun echo \"$BATON_PROJECT -\" >> {log}\ncomplete Done\n"
    ));
    settings(&house, "slots = 3", "");
    house.serve();
    for project in ["shop", "mill", "farm"] {
        house.types(&["project", "add", project]);
    }
    house.types(&["pool", "set", "key shop db", "--limit", "1"]);
    house.types(&["pool", "set", "stage mill coding", "--limit", "2"]);
    for _ in 0..3 {
        add(&house, &["-P", "shop", "--key", "db"]);
        add(&house, &["-P", "mill"]);
        add(&house, &["-P", "farm"]);
    }
    house.work_on(&[]);
    until(&house, "the end", || (ended(&house) == 9).then_some(()));
    let log = lines(&house, "log");
    let most = |of: &str| {
        let mut now = 0_i32;
        let own = log.iter().filter(|line| line.starts_with(of));
        own.map(|line| {
            now += if line.ends_with('+') { 1 } else { -1 };
            now
        })
        .max()
    };
    assert_eq!(most("shop"), Some(1), "a key: {log:?}");
    assert!(most("mill") <= Some(2), "a column: {log:?}");
    assert!(most("") <= Some(3) && most("") >= Some(2), "the worker's places: {log:?}");
}

#[test]
fn a_worker_without_room_takes_nothing_and_says_so() {
    for (floor, knob) in
        [("memory_floor = '9000000 GiB'", "memory"), ("disk_floor = '9000000 GiB'", "disk")]
    {
        let mut house = House::served("complete Done\n");
        let zero = format!("{knob}_floor = '0'");
        settings(&house, "", "");
        let text = text_of(&house.data().join("worker.toml"));
        fs::write(house.data().join("worker.toml"), text.replace(&zero, floor)).expect("room");
        house.work_on(&[]);
        let said = "baton: takes no more work: ";
        let told = until(&house, "its word", || {
            house.types(&["task", "show", "T-1"]);
            text_of(&house.path("work"))
                .lines()
                .find(|line| line.starts_with(said))
                .map(str::to_owned)
        });
        assert!(told.contains(&format!("`{knob}_floor` is ")), "{told}");
        assert_eq!(house.types(&["task", "show", "T-1"])["badge"], "queued");
        assert_eq!(house.outcomes(), Vec::<String>::new(), "nothing was tried");
        house.kill_worker();
        settings(&house, "", "");
        house.work_on(&["--once"]);
        assert_eq!(house.waits(), 0, "{}", house.logs());
    }
}

#[test]
fn an_agent_reaches_neither_the_key_of_its_worker_nor_what_others_keep_in_tmp() {
    let found = baton::shim::examine(BATON.as_ref()).expect("the program looks");
    if found.namespace.is_none() {
        return eprintln!("NOT TRIED: what an agent sees: this machine denies namespaces");
    }
    let theirs = tempfile::NamedTempFile::new_in("/tmp").expect("there is room");
    let mut house = House::served("");
    let key = house.path("far.key").display().to_string();
    let mark = theirs.path().display().to_string();
    house.steps(&format!(
        "run cat {key} > key.txt 2>&1; true\nrun test ! -e {mark}\nrun echo mine > /tmp/mine\n\
         run ls /tmp > tmp.txt\ncomplete Looked\n"
    ));
    let other = house.work_elsewhere(&house.url.clone(), &["--once"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    house.worker_ends();
    let work = work_in(&other);
    assert_eq!(text_of(&work.join("key.txt")), "");
    assert_eq!(text_of(&work.join("tmp.txt")), "mine\n");
    assert!(!std::path::Path::new("/tmp/mine").exists());
    assert!(!work.with_file_name("tmp").exists(), "what it kept for a while is gone");
}

fn work_in(data: &std::path::Path) -> std::path::PathBuf {
    let deployments = fs::read_dir(data.join("worker")).expect("it has worked");
    let homes = deployments.filter_map(Result::ok).map(|entry| entry.path().join("homes"));
    homes.into_iter().find(|homes| homes.is_dir()).expect("it has worked").join("local.T-1/work")
}
