//! Processes that are killed in the middle: nobody is doubled, nothing is lost.

use std::io::Write as _;
use std::path::Path;

use crate::house::{House, is_deserted, text_of};

/// An agent that holds a lock while it reads a pipe: a second one could not.
fn steps(house: &House, pipe: &Path) -> String {
    let lock = house.path("lock");
    format!(
        "checkpoint Begun\nrun flock -n {} cat {} > read.txt\nedit a.txt went on\ncomplete Read\n",
        lock.display(),
        pipe.display()
    )
}

fn house() -> House {
    let house = House::served("");
    let pipe = house.pipe("pipe");
    house.steps(&steps(&house, &pipe));
    house
}

#[test]
fn a_killed_worker_s_agent_is_taken_over_and_goes_on() {
    let mut house = house();
    house.work_on(&[]);
    let mut pipe = house.opened("pipe");
    house.kill_worker();
    assert_eq!(house.work_on(&[])["running"], 1, "{}", house.logs());
    pipe.write_all(b"hello\n").expect("the agent reads on");
    drop(pipe);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(text_of(&house.work().join("a.txt")), "went on\n");
    assert_eq!(text_of(&house.work().join("read.txt")), "hello\n");
    assert_eq!(house.outcomes(), ["completed"]);
}

#[test]
fn what_an_agent_did_while_no_worker_was_there_is_reported_by_the_next() {
    let mut house = house();
    house.work_on(&[]);
    let mut pipe = house.opened("pipe");
    house.kill_worker();
    pipe.write_all(b"hello\n").expect("the agent reads on");
    drop(pipe);
    // It submits by itself; only its death is still to be proved.
    let task = house.types(&["task", "show", "T-1"]);
    house.types(&["run", "wait", "T-1", "--since", &task["version"].to_string(), "--wait", "20s"]);
    house.work_on(&[]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(house.outcomes(), ["completed"]);
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_ne!(attempt["death"], "none", "{attempt}");
}

#[test]
fn a_killed_server_is_found_again_and_nothing_is_lost() {
    let mut house = house();
    house.work_on(&[]);
    let mut pipe = house.opened("pipe");
    house.kill_server();
    house.serve();
    pipe.write_all(b"hello\n").expect("the agent reads on");
    drop(pipe);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(text_of(&house.work().join("a.txt")), "went on\n");
    assert_eq!(house.outcomes(), ["completed"]);
}

#[test]
fn a_worker_that_is_told_to_stop_proves_that_its_agents_are_dead() {
    let mut house = house();
    house.work_on(&[]);
    let mut pipe = house.opened("pipe");
    let ended = house.types(&["down", "--now"]);
    assert_eq!(ended["ended"], serde_json::json!(["worker", "server"]), "{ended}");
    assert!(is_deserted(&mut pipe), "somebody still reads");
    house.worker_ends();
    house.serve();
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_eq!(attempt["outcome"], "released", "{attempt}");
    assert_ne!(attempt["death"], "none", "{attempt}");
}

#[test]
fn a_data_folder_has_one_worker() {
    let mut house = House::served("complete Done\n");
    house.work_on(&[]);
    let second = house.tries(&["work"]);
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && told.contains("runs already"), "{told}");
}
