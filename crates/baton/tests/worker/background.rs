//! `up` and `down`.

use crate::house::House;

#[test]
fn from_an_empty_folder_up_runs_a_task_and_down_leaves_nothing_behind() {
    let house = House::empty("edit a.txt one\ncomplete Done\n");
    let ready = house.types(&["up", "--detach", "--listen", "127.0.0.1:0"]);
    assert_eq!(ready["ready"], true, "{ready}");
    assert!(
        ready["url"].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")),
        "{ready}"
    );
    house.types(&["project", "add", "shop"]);
    house.types(&["add", "Greet", "--project", "shop", "--stage", "coding"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    // The second one starts nothing: the first is there.
    assert_eq!(house.types(&["up", "--detach"]), ready);
    assert_eq!(house.types(&["down"])["ended"], serde_json::json!(["worker", "server"]));
    assert_eq!(house.types(&["down"])["ended"], serde_json::json!([]));
    assert!(!house.data().join("run/baton.sock").exists());
}

#[test]
fn without_an_agent_up_starts_nothing_and_says_what_is_missing() {
    let house = House::empty("");
    std::fs::write(house.data().join("worker.toml"), "slots = 1\n").expect("there is room");
    let up =
        house.command(&["up", "--detach"]).env("PATH", "/nowhere").output().expect("it starts");
    let told = String::from_utf8_lossy(&up.stderr);
    assert!(!up.status.success() && told.contains("[agents.NAME]"), "{told}");
    assert!(told.contains("no_agent") && told.contains("No agent is set up"), "{told}");
    assert!(!house.data().join("run").exists());
}

#[test]
fn settings_that_are_a_pipe_are_refused_and_not_waited_for() {
    let house = House::empty("");
    std::fs::remove_file(house.data().join("worker.toml")).expect("it is there");
    house.pipe("data/worker.toml");
    let up = house.tries(&["up", "--detach"]);
    let told = String::from_utf8_lossy(&up.stderr);
    assert!(!up.status.success() && told.contains("plain file"), "{told}");
}

#[test]
fn of_two_that_come_up_at_once_one_starts_and_both_are_told_the_same() {
    let house = House::empty("complete Done\n");
    let words = ["up", "--detach", "--listen", "127.0.0.1:0"];
    let start = || house.command(&words).stdout(std::process::Stdio::piped()).spawn();
    let both = [start(), start()].map(|one| one.expect("it starts"));
    let told = both.map(|one| one.wait_with_output().expect("it is ours"));
    let told = told.map(|one| String::from_utf8_lossy(&one.stdout).trim().to_owned());
    assert!(told[0] == told[1] && told[0].contains("127.0.0.1:"), "{told:?} {}", house.logs());
}
