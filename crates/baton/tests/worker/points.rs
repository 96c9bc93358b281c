//! Killed at any place: server, worker, shim, agent, and any two of them.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use baton::points::POINTS;

use crate::ward::{ROLES, Role, Ward};

/// Places of the agent, which its own steps pass.
pub const OF_THE_AGENT: [&str; 5] =
    ["agent.began", "agent.edited", "agent.noted", "agent.noted_twice", "agent.through"];
/// Places that matter most when a worker comes back to an agent that runs: there they are armed.
const COMING_BACK: [&str; 5] = [
    "server.worker_seated",
    "server.leases_renewed",
    "server.worker_welcomed",
    "worker.left_surveyed",
    "worker.welcomed",
];
/// Runs at once: most of their time they wait.
const AT_ONCE: usize = 4;
/// Of so many cases one is tried where there is no time for all.
const SAMPLED: usize = 23;

/// The first of those: a run that is claimed and not handed over, which was lost for a while once.
const FIRST: usize = 3;

/// Somebody stands at a place, and is killed there, perhaps with somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    place: &'static str,
    also: Option<Role>,
}

fn places() -> impl Iterator<Item = &'static str> {
    // The train has a test of its own, in which it runs alone.
    let of_others = |word: &&str| !word.starts_with("train.");
    POINTS.iter().map(|point| point.word()).filter(of_others).chain(OF_THE_AGENT)
}

/// Everybody alone, then everybody with each of the others.
fn cases() -> Vec<Case> {
    let alone = places().map(|place| Case { place, also: None });
    let pairs = places().flat_map(|place| {
        let others = ROLES.into_iter().filter(move |role| *role != Role::of(place));
        others.map(move |role| Case { place, also: Some(role) })
    });
    alone.chain(pairs).collect()
}

/// Nobody is killed: which places are passed.
fn passed() -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for comes_back in [false, true] {
        let mut ward = Ward::new();
        ward.begin();
        let pipe = ward.agent_waits();
        if comes_back {
            ward.kill(Role::Worker);
            ward.work();
        }
        drop(pipe);
        ward.ends_well("nobody");
        seen.extend(ward.passed());
    }
    seen
}

fn strike(case: Case) {
    let told = format!("{case:?}");
    let mut ward = Ward::new();
    let mut pipe = None;
    if COMING_BACK.contains(&case.place) {
        ward.begin();
        pipe = Some(ward.agent_waits());
        ward.kill(Role::Worker);
        ward.arm(case.place);
        ward.work();
    } else {
        ward.goes_on();
        ward.serve_with_a_task();
        ward.arm(case.place);
        ward.work();
    }
    ward.stands(case.place);
    ward.kill(Role::of(case.place));
    if let Some(role) = case.also {
        ward.kill(role);
    }
    ward.comes_back();
    drop(pipe);
    ward.goes_on();
    ward.ends_well(&told);
}

#[test]
fn slow_killed_at_any_place_nobody_is_doubled_and_nothing_is_lost() {
    let passed = passed();
    let never: Vec<_> = places().filter(|place| !passed.contains(*place)).collect();
    assert_eq!(never, [] as [&str; 0], "these places are listed and never passed");
    let (all, total) = (cases(), places().count());
    let (first, step) = if baton_testkit::rounds(1) > 1 { (0, 1) } else { (FIRST, SAMPLED) };
    let chosen: Vec<_> = all.iter().copied().skip(first).step_by(step).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(vec![]));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // One that fails says why, and the others are tried all the same.
                    let case = *case;
                    if thread::spawn(move || strike(case)).join().is_err() {
                        failed.lock().expect("nobody panics with it").push(case);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "{} of {} fail: {failed:#?}", failed.len(), chosen.len());
    let hit: BTreeSet<_> = chosen.iter().map(|case| case.place).collect();
    println!(
        "fail points: {total} of {total} passed, {} of {total} hit; {} of {} kills, alone and in pairs",
        hit.len(),
        chosen.len(),
        all.len()
    );
}
