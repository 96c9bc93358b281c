//! A store that was brought back from a copy belongs to nobody who held something in it.

use baton_domain::command::Agent;
use baton_domain::time::Millis;
use baton_domain::{Command, Refusal};
use baton_store::order::{Aim, Order};
use baton_store::sqlite::{SqliteStore, backup};
use baton_store::{Error, Store};

use crate::cast::{
    agent, ann, birth, claim, local, new_task, order, put, renew, says, short_project,
};
use crate::site::{ask, clock, done, options, wait};

fn lost(answer: Result<baton_store::Committed, Error>) {
    let refused = answer.expect_err("it is from another life");
    assert!(matches!(refused, Error::Refused(Refusal::LeaseLost)), "{refused:?}");
}

fn sweep() -> Order {
    order(&local(), ann(), Aim::Sweep(100))
}

#[test]
fn whoever_held_a_run_before_a_restore_has_lost_it_and_the_run_is_queued_again() {
    let (parent, clock) = (tempfile::tempdir().expect("a folder"), clock());
    let (folder, copy) = (parent.path().join("home"), parent.path().join("copy.db"));
    let store = SqliteStore::open(&folder, options(&clock, 1)).expect("a new store");
    done(&store, put(&local(), short_project()));
    let flow = done(&store, birth(&local(), new_task("held"))).task.expect("a task");
    done(&store, claim(&local(), flow.id, "bot", 7));
    backup::back_up(&folder, &copy, None).expect("a copy");
    done(&store, renew(&local(), flow.id, "bot", 1));
    drop(store);
    let mut chance: baton_store::sqlite::Chance = Box::new(|bytes| bytes.fill(9));
    backup::restore(&copy, &folder, &mut chance, None).expect("it comes back");

    // However long the silence was: an amnesty is for holders of this life.
    clock.advance(Millis::seconds(60));
    let store = SqliteStore::open(&folder, options(&clock, 2)).expect("it opens");
    // Before the first sweep and after it, by key and attempt number.
    lost(ask(&store, renew(&local(), flow.id, "bot", 1)));
    lost(ask(&store, says(&local(), flow.id, "bot", 1, Agent::Begin)));
    done(&store, sweep());
    lost(ask(&store, renew(&local(), flow.id, "bot", 1)));
    let row = wait(store.task(&local(), flow.id)).expect("it reads").what.expect("it is there");
    let run = row.flow.run.as_ref().expect("it has a run");
    assert!(run.held().is_none() && row.lease.is_none(), "{run:?}");

    // Somebody else goes on, as after any holder that was lost.
    clock.advance(Millis::minutes(10));
    done(&store, sweep());
    let next = done(&store, claim(&local(), flow.id, "other", 8));
    assert_eq!(next.lease.expect("it holds it").attempt, 2);
    let late = Command::Agent(crate::cast::by("bot", 1), Agent::Begin);
    lost(ask(&store, order(&local(), agent("bot"), Aim::Task(flow.id, vec![late]))));
    assert_eq!(wait(store.audit()).expect("it walks").fault, None);
}
