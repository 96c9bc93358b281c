//! The random histories are worth something only if they go everywhere.

use std::cell::RefCell;
use std::collections::BTreeSet;

use baton_domain::refusal::Refusal;

use crate::history::{Turn, in_every_history};
use crate::world::World;

/// What all histories together have seen, as words.
fn seen(see: impl Fn(&World, &Turn<'_>) -> Vec<String>) -> BTreeSet<String> {
    let seen = RefCell::new(BTreeSet::new());
    in_every_history(|| |world, turn| seen.borrow_mut().extend(see(world, turn)));
    seen.into_inner()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn random_histories_reach_every_state_of_a_run() {
    let reached = seen(|world, turn| {
        let run = world.tasks.get(&turn.id).and_then(|task| task.flow.run.as_ref());
        vec![run.map_or("none", |run| run.word()).to_owned()]
    });
    let all =
        "none queued delayed blocked submitted leased working waiting_input verifying stopping";
    assert_eq!(reached, words(all));
}

#[test]
fn random_histories_make_every_event() {
    let reached = seen(|_, turn| {
        let events = turn.answer.as_ref().map(|decision| decision.events.clone());
        let name = |event| {
            let text = serde_json::to_value(event).expect("an event is text");
            text["event"].as_str().expect("an event has a name").to_owned()
        };
        events.unwrap_or_default().into_iter().map(name).collect()
    });
    let all = "created edited published approved moved ended archived hold_set owing \
               dependency_added dependency_removed dependency_settled woken run_opened \
               run_finished requeued starved claimed began seen progressed checkpointed asked \
               answered answer_marked spent submitted verified exited stopping survived \
               attempt_ended death_proved bound reviewed";
    assert_eq!(reached, words(all));
}

#[test]
fn random_histories_are_refused_for_most_reasons() {
    let reached = seen(|_, turn| {
        turn.answer.as_ref().err().map(Refusal::code).map(str::to_owned).into_iter().collect()
    });
    let all = "lease_lost held ended no_run wrong_state draft approval_pending on_hold \
               dependency_open not_due not_for_you person_needed cycle";
    assert!(reached.is_superset(&words(all)), "{reached:?}");
}
