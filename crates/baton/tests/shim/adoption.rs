//! Workers, shims and agents that are killed, and who goes on.

use std::fs::{self, File};

use baton::shim::spool::{Reader, Stream};
use baton::shim::{
    Change, Exit, Found, Handle, Place, Proof, Spec, Status, adopt, launch, overpower, prove,
};
use baton_domain::run::Death;
use baton_testkit::child::{Child, role, say};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use crate::stage::{APART, Live, PATIENCE, PLAIN, PROGRAM, Stage, WAYS, allowed, skipped};

fn pid(raw: i32) -> Pid {
    Pid::from_raw(raw).expect("a pid")
}

/// Kills the shim as nobody expects it.
async fn kill_shim(live: &mut Live) {
    let shim = pid(live.handle.launch().shim.pid);
    kill_process(shim, Signal::KILL).expect("it is ours");
    let gone = async { while live.handle.changes().recv().await.is_some() {} };
    timeout(PATIENCE, gone).await.expect("the line ends");
}

/// What is left where nothing but the test itself can clear it away.
fn sweep(stage: &Stage) {
    for entry in fs::read_dir("/proc").expect("it is there").flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let own =
            fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == stage.path("work"));
        if let Some(number) = number.filter(|_| own) {
            let _ = kill_process(pid(number), Signal::KILL);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_its_shim_the_whole_tree_dies_and_a_namespace_proves_it_afterwards() {
    if !allowed(APART) {
        return skipped("the end of a shim with a namespace");
    }
    for member in ["ignores-term", "daemon", "chain", "stops-itself"] {
        let mut live = Stage::member(member, APART).await;
        kill_shim(&mut live).await;
        let Found::Vanished(left) = adopt(&live.stage.place).await.expect("it is known") else {
            panic!("{member}: its shim was killed")
        };
        let proof = prove(&left).await.expect("it is known");
        assert_eq!(proof, Proof { death: Death::PidNamespace, survivor: false }, "{member}");
        assert!(!live.stage.has_survivors(), "{member}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_namespace_the_end_of_a_killed_shims_tree_is_never_told_as_proved() {
    for (way, isolation) in &WAYS[1..] {
        if !allowed(*isolation) {
            skipped(&format!("the end of a shim, by {way}"));
            continue;
        }
        let mut live = Stage::member("daemon", *isolation).await;
        let agent = live.handle.launch().agent.expect("it is known");
        kill_shim(&mut live).await;
        let Found::Vanished(left) = adopt(&live.stage.place).await.expect("it is known") else {
            panic!("{way}: its shim was killed")
        };
        let proof = prove(&left).await.expect("it is known");
        assert_eq!(proof.death, Death::None, "{way}");
        let stat = fs::read_to_string(format!("/proc/{}/stat", agent.pid)).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{way}: the agent dies with its shim");
        if *way == "cgroup" {
            assert!(!live.stage.has_survivors(), "what is in the group is killed all the same");
        }
        sweep(&live.stage);
    }
}

const WORKER: &str = "WORKER";

/// A worker that launches an agent and waits to be killed.
fn work(arguments: &[String]) {
    let place = Place::at(&arguments[0]).with_program(PROGRAM);
    let spec: Spec = serde_json::from_str(&arguments[1]).expect("a spec");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut handle = launch(&place, &spec, None).await.expect("the agent starts");
        say("launched");
        while handle.changes().recv().await.is_some() {}
    });
}

/// The numbers that an agent has counted.
fn counted(place: &Place) -> Vec<u64> {
    let mut text = vec![];
    for record in Reader::open(&place.spool(), 0).expect("there is a spool") {
        let record = record.expect("it is whole");
        if record.stream == Stream::Out {
            text.extend(record.bytes);
        }
    }
    let text = String::from_utf8(text).expect("plain numbers");
    text.lines().filter_map(|line| line.strip_prefix("count ")?.parse().ok()).collect()
}

#[test]
fn a_killed_worker_costs_nothing_the_next_one_adopts_and_the_spool_misses_no_word() {
    if let Some(arguments) = role(WORKER) {
        return work(&arguments);
    }
    let test =
        "adoption::a_killed_worker_costs_nothing_the_next_one_adopts_and_the_spool_misses_no_word";
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for isolation in [APART, PLAIN] {
        if !allowed(isolation) {
            skipped("a killed worker with a namespace");
            continue;
        }
        let stage = Stage::new();
        let spec = serde_json::to_string(&stage.spec("counts", isolation)).expect("plain");
        let folder = stage.path("attempt");
        let folder = folder.to_str().expect("a plain name");
        let end = Child::spawn(test, WORKER, &[folder, &spec]).kill_at(|line| line == "launched");
        assert!(end.killed, "{end:?}");
        runtime.block_on(async {
            let Found::Alive(mut handle) = adopt(&stage.place).await.expect("it is known") else {
                panic!("the shim goes on")
            };
            let seen = counted(&stage.place).last().copied().unwrap_or(0);
            let more = async {
                while counted(&stage.place).last() < Some(&(seen + 20)) {
                    assert!(handle.changes().recv().await.is_some(), "it goes on counting");
                }
            };
            timeout(PATIENCE, more).await.expect("it goes on counting");
            handle
                .renew(baton::clock::boot_ms() + 60_000)
                .await
                .expect("it listens to the next one");
            let proof = stopped(&mut handle).await;
            assert_ne!(proof.death, Death::None);
        });
        let counted = counted(&stage.place);
        let expected: Vec<u64> = (1..=counted.len() as u64).collect();
        assert_eq!(counted, expected, "no word is missing and none is doubled");
        assert!(!stage.has_survivors());
        let over = runtime.block_on(adopt(&stage.place)).expect("it is known");
        assert!(matches!(over, Found::Over(Status::Stopped { .. })), "{over:?}");
    }
}

async fn stopped(handle: &mut Handle) -> Proof {
    handle.stop(Some(100)).await.expect("it listens");
    loop {
        match handle.changes().recv().await {
            Some(Change::Stopped(proof)) => return proof,
            Some(Change::Spool(_) | Change::Exited(_)) => {}
            None => panic!("no proof"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_is_told_as_such_and_what_it_left_behind_goes() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("a killed agent, by {way}"));
            continue;
        }
        let mut live = Stage::member("daemon", isolation).await;
        let agent = live.handle.launch().agent.expect("it is known");
        kill_process(pid(agent.pid), Signal::KILL).expect("it is ours");
        assert_eq!(live.exit().await, Exit::Signal(9), "{way}");
        let proof = live.proof().await;
        assert!(proof.death != Death::None && !live.stage.has_survivors(), "{way}: {proof:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_stands_still_is_ended_with_its_agent() {
    if !allowed(APART) {
        return skipped("a shim that stands still");
    }
    let live = Stage::member("ignores-term", APART).await;
    kill_process(pid(live.handle.launch().shim.pid), Signal::STOP).expect("it is ours");
    let proof = overpower(&live.stage.place).await.expect("it is known");
    assert_eq!(proof, Proof { death: Death::PidNamespace, survivor: false });
    assert!(!live.stage.has_survivors());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_keeps_the_right_that_it_was_given_and_its_agent_does_not_get_it() {
    let stage = Stage::new();
    let path = stage.path("right");
    let right = File::create(&path).expect("there is room");
    flock(&right, FlockOperation::NonBlockingLockExclusive).expect("it is new");
    let spec = stage.spec("counts", PLAIN);
    let mut handle = launch(&stage.place, &spec, Some(right)).await.expect("the agent starts");
    let other = File::open(&path).expect("it is there");
    flock(&other, FlockOperation::NonBlockingLockExclusive).expect_err("the shim has it");
    let agent = handle.launch().agent.expect("it is known").pid;
    let open = fs::read_dir(format!("/proc/{agent}/fd")).expect("it is ours").flatten();
    let open: Vec<_> = open.filter_map(|one| fs::read_link(one.path()).ok()).collect();
    assert!(!open.contains(&path), "{open:?}");
    let proof = stopped(&mut handle).await;
    assert_ne!(proof.death, Death::None);
    drop(handle);
    let free = tokio::task::spawn_blocking(move || flock(&other, FlockOperation::LockExclusive));
    timeout(PATIENCE, free).await.expect("the shim ends").expect("no panic").expect("it is free");
}
