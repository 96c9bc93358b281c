//! Workers that stand still and networks that are cut: nobody is doubled, nobody healthy is killed, and
//! nothing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::house::{House, text_of, until};
use crate::proxy::Proxy;

/// A lease short enough to run out in a test: an agent is fenced two seconds after the last renewal.
const SHORT: &str = r#"{"lease":"3s"}"#;
/// One that outlives the cut of a test as the usual one outlives a minute.
const LONGER: &str = r#"{"lease":"30s"}"#;

/// An agent that writes down who it is and when, again and again, until it is let go.
fn writes(house: &House, until: &str) -> String {
    format!(
        "run me=$(cat /proc/sys/kernel/random/uuid); until test -e {}; do \
         echo \"$me $(date +%s%N)\" >> {}; sleep 0.02; done\n",
        house.path(until).display(),
        house.path("writers").display()
    )
}

/// When each writer wrote first and last, in the order in which they began.
fn writers(house: &House) -> Vec<(u128, u128)> {
    let mut spans: BTreeMap<String, (u128, u128)> = BTreeMap::new();
    let text = fs::read_to_string(house.path("writers")).unwrap_or_default();
    for (who, at) in text.lines().filter_map(|line| line.split_once(' ')) {
        let Ok(at) = at.parse() else { continue };
        let span = spans.entry(who.to_owned()).or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
    }
    let mut spans: Vec<_> = spans.into_values().collect();
    spans.sort_unstable();
    spans
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn check_nobody_was_doubled(house: &House, count: usize) {
    let writers = writers(house);
    assert_eq!(writers.len(), count, "{}", house.logs());
    for pair in writers.windows(2) {
        assert!(pair[0].1 < pair[1].0, "two wrote at once: {pair:?}\n{}", house.logs());
    }
}

/// Every attempt but the last was lost. A run may be handed to somebody who does not hear of it.
fn check_only_the_last_completed(house: &House) {
    let outcomes = house.outcomes();
    let (last, lost) = outcomes.split_last().expect("there was one");
    assert_eq!(last, "completed", "{outcomes:?} {}", house.logs());
    assert!(!lost.is_empty() && lost.iter().all(|one| one == "lost"), "{outcomes:?}");
}

#[test]
fn a_worker_that_stands_still_past_the_lease_never_has_two_writers() {
    let mut house = House::served_with("", SHORT);
    house.steps(&(writes(&house, "enough") + "complete Done\n"));
    house.work_on(&[]);
    until("somebody writes", || !writers(&house).is_empty());
    house.signal_worker(Signal::STOP);
    // Nobody but its shim can stop the agent now.
    let status = house.data().join("worker/attempts/A-1.1/status.json");
    until("its shim has stopped it", || {
        fs::read_to_string(&status).is_ok_and(|text| text.contains("\"fence\""))
    });
    house.work_elsewhere(&house.url.clone(), &[]);
    until("the next one writes", || writers(&house).len() > 1);
    house.signal_worker(Signal::CONT);
    // Until it has told, a person is asked to look.
    until("the death of the first is proved", || {
        house.types(&["task", "show", "T-1"])["needs"] == serde_json::json!([])
    });
    fs::write(house.path("enough"), "").expect("there is room");
    assert_eq!(house.waits(), 0, "{}", house.logs());
    check_nobody_was_doubled(&house, 2);
    check_only_the_last_completed(&house);
}

#[test]
fn a_worker_that_comes_to_after_its_lease_goes_on_with_the_work_and_alone() {
    let mut house = House::served_with("", SHORT);
    house.steps(&format!("run echo one >> a.txt\n{}complete Done\n", writes(&house, "enough")));
    house.work_on(&[]);
    until("somebody writes", || !writers(&house).is_empty());
    house.signal_worker(Signal::STOP);
    until("its lease has run out", || house.outcomes().first().is_some_and(|one| one == "lost"));
    house.signal_worker(Signal::CONT);
    until("the next one writes", || writers(&house).len() > 1);
    fs::write(house.path("enough"), "").expect("there is room");
    assert_eq!(house.waits(), 0, "{}", house.logs());
    check_nobody_was_doubled(&house, 2);
    check_only_the_last_completed(&house);
    let of_task = house.work().with_file_name("");
    let folders = fs::read_dir(of_task).expect("it has worked").flatten();
    let texts = folders.filter_map(|one| fs::read_to_string(one.path().join("a.txt")).ok());
    assert!(texts.into_iter().any(|text| text == "one\none\n"), "the work went on");
}

#[test]
fn a_cut_within_the_lease_kills_no_healthy_agent_and_loses_no_report() {
    let proxy = Proxy::new();
    let mut house = House::served_as("", LONGER, &proxy.name());
    proxy.lead_to(&house.url);
    let steps = format!(
        "use 1 1 100\n{}use 1 1 200\n{}edit a.txt all of it\ncomplete Done\n",
        writes(&house, "cut"),
        writes(&house, "healed")
    );
    house.steps(&steps);
    let other = house.work_elsewhere(&format!("http://{}", proxy.name()), &["--once"]);
    until("somebody writes", || !writers(&house).is_empty());
    proxy.cut();
    fs::write(house.path("cut"), "").expect("there is room");
    // What it uses now cannot be told; it goes on for longer than it takes to notice that.
    until("it goes on", || writers(&house).len() > 1);
    let written = lines(&house.path("writers"));
    until("it goes on for long", || lines(&house.path("writers")) > written + 200);
    proxy.lead_to(&house.url);
    fs::write(house.path("healed"), "").expect("there is room");
    assert_eq!(house.waits(), 0, "{}", house.logs());
    house.worker_ends();
    assert_eq!(house.outcomes(), ["completed"], "{}", house.logs());
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_eq!(attempt["spent_micros"], 300, "{attempt}");
    assert_ne!(attempt["death"], "none", "{attempt}");
    assert!(!other.join("worker/attempts/A-1.1/outbox").exists(), "everything was told");
}

#[test]
fn the_folder_of_an_agent_whose_worker_was_killed_is_not_pruned() {
    let mut house = House::with_repository("");
    house.steps(&(writes(&house, "enough") + "edit a.txt one\ncomplete Done\n"));
    house.work_on(&[]);
    until("somebody writes", || !writers(&house).is_empty());
    house.kill_worker();
    let trees = house.types(&["worktree", "list"]);
    assert_eq!(trees["worktrees"][0]["in_use"], true, "{trees}");
    let pruned = house.types(&["worktree", "prune", "T-1", "--yes"]);
    assert!(pruned.to_string().contains("in use"), "{pruned}");
    assert_eq!(house.work_on(&[])["running"], 1, "{}", house.logs());
    fs::write(house.path("enough"), "").expect("there is room");
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(house.outcomes(), ["completed"], "{}", house.logs());
}

#[test]
fn a_second_worker_of_the_same_name_is_turned_away_and_told_what_to_do() {
    let mut house = House::served_with("", LONGER);
    house.steps(&(writes(&house, "enough") + "complete Done\n"));
    house.work_elsewhere(&house.url.clone(), &[]);
    until("somebody writes", || !writers(&house).is_empty());
    // Somebody gave it the same name: a copy of the folder alone would get one of its own.
    let twin = house.path("twin");
    fs::create_dir_all(twin.join("worker")).expect("there is room");
    fs::copy(house.path("other/worker.toml"), twin.join("worker.toml")).expect("there is room");
    let name = text_of(&house.path("other/worker/machine"));
    let name = name.split_whitespace().next().expect("it has a name");
    fs::write(twin.join("worker/machine"), name).expect("there is room");
    let (url, key) = (house.url.clone(), house.path("far.key").display().to_string());
    let words = ["work", "--json", "--url", &url, "--key-file", &key];
    let mut twins = house.command(&words);
    let log = fs::File::create(house.path("twin.log")).expect("there is room");
    let mut twins = twins.env("BATON_HOME", &twin).stderr(log).spawn().expect("it starts");
    until("it is told", || text_of(&house.path("twin.log")).contains("worker/machine"));
    twins.kill().expect("it is ours");
    twins.wait().expect("it is ours");
    fs::write(house.path("enough"), "").expect("there is room");
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(house.outcomes(), ["completed"], "the first one was left alone: {}", house.logs());
}
