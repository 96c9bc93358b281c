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
    assert!(!house.data().join("run").exists());
}
