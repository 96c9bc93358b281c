//! What people say to an agent, and about it.

use crate::house::{House, is_deserted};

/// What `wait` exits with for a task that waits for a person.
const NEEDS_PERSON: i32 = 11;

#[test]
fn a_question_waits_for_a_person_and_the_answer_reaches_the_agent() {
    let mut house =
        House::served("ask Shall it be signed?\nedit signed.txt yes\ncomplete Signed\n");
    house.work_on(&[]);
    assert_eq!(house.waits(), NEEDS_PERSON, "{}", house.logs());
    house.types(&["answer", "R-1.1", "Yes"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    assert!(house.work().join("signed.txt").exists());
    assert_eq!(house.outcomes(), ["completed"]);
}

#[test]
fn a_cancelled_task_leaves_no_process() {
    let mut house = House::served("");
    let pipe = house.pipe("pipe");
    house.steps(&format!("run cat {}\ncomplete Read\n", pipe.display()));
    house.work_on(&["--once"]);
    let mut pipe = house.opened("pipe");
    house.types(&["cancel", "T-1", "Not needed any more"]);
    house.worker_ends();
    assert!(is_deserted(&mut pipe), "somebody still reads");
    let attempt = house.types(&["attempt", "show", "A-1.1"]);
    assert_eq!(attempt["outcome"], "cancelled", "{attempt}");
    assert_ne!(attempt["death"], "none", "{attempt}");
}
