//! A holder in a loop is stopped before it buries its own history, and may always let go.

use baton_domain::Refusal;
use baton_domain::command::Supervisor;
use baton_domain::deadline::Sight;
use baton_domain::limits::EVENTS_PER_MINUTE_MAX;
use baton_domain::run::{Mode, Why};
use baton_domain::time::Millis;

use crate::cast::{block, complete, fail, note, progress, release, started, world};

const NO_MORE: Refusal = Refusal::TooOften { retry_after: Millis::seconds(60) };

#[test]
fn an_attempt_makes_so_many_events_in_a_minute_and_no_more() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Solo);
    let begun = world.held(id).pace.1;
    for _ in begun..EVENTS_PER_MINUTE_MAX {
        world.agent(id, progress()).expect("there is room");
    }
    let version = world.flow(id).version;
    assert_eq!(world.agent(id, progress()), Err(NO_MORE));
    assert_eq!(world.agent(id, note()), Err(NO_MORE));
    assert_eq!(world.flow(id).version, version);
    // A renewal leaves no entry, so it is no word too many.
    world.supervisor(id, Supervisor::Renew { lease: None }).expect("it lives");
    world.wait(Millis::seconds(59));
    let soon = Refusal::TooOften { retry_after: Millis::seconds(1) };
    assert_eq!(world.agent(id, progress()), Err(soon));
    world.wait(Millis::seconds(1));
    world.agent(id, progress()).expect("a new minute");
    assert_eq!(world.held(id).pace.1, 1);
}

#[test]
fn whoever_said_too_much_may_always_let_go() {
    let mut world = world();
    let id = world.at_work(started(), Mode::Supervised);
    for _ in world.held(id).pace.1..EVENTS_PER_MINUTE_MAX {
        world.supervisor(id, Supervisor::Report(Sight::Streaming)).expect("there is room");
    }
    let spend = Supervisor::Spend { total_micros: 1 };
    assert_eq!(world.supervisor(id, spend), Err(NO_MORE));
    assert_eq!(world.supervisor(id, Supervisor::Report(Sight::Streaming)), Err(NO_MORE));
    for end in [complete(), fail(), block(Why::NeedsInput)] {
        world.twin().agent(id, end).expect("an end is heard");
    }
    for end in [release(), Supervisor::Exited] {
        world.twin().supervisor(id, end).expect("an end is heard");
    }
}
