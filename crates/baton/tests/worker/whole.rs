//! From a task to its end, without anybody in between.

use crate::house::{House, text_of};

#[test]
fn a_task_is_worked_on_by_an_agent_and_completed_with_proof() {
    let mut house = House::served(
        "say I begin.\nedit greeting.txt Good morning\ncheckpoint The greeting is there\n\
         use 10 5 300\ncomplete It is written\n",
    );
    let ready = house.work_on(&[]);
    assert_eq!(ready["running"], 0);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert_eq!(text_of(&house.work().join("greeting.txt")), "Good morning\n");
    let run = house.types(&["run", "show", "R-1.1"]);
    assert_eq!(run["state"], "completed", "{run}");
    panic!("{run} {} {}", house.types(&["attempt", "list", "T-1"]), house.logs());
}
