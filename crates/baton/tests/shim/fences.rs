//! The dead man's fence, on real clocks.

use std::future::pending;
use std::time::Duration;

use baton::clock::boot_ms;
use baton::shim::{Cause, Status};
use baton_domain::run::Death;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use crate::stage::{Live, Stage, WAYS, allowed, skipped};

/// Waits until a moment since boot has passed.
async fn past(moment: u64) {
    while let Some(left) = moment.checked_sub(boot_ms()) {
        drop(timeout(Duration::from_millis(left + 1), pending::<()>()).await);
    }
}

fn by(live: &Live) -> Cause {
    match live.stage.place.status().expect("it is written") {
        Some(Status::Stopped { by, .. }) => by,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_nobody_renews_is_killed_and_proved_dead_without_a_word() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("the fence, by {way}"));
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("ignores-term", isolation);
        spec.fence_boot_ms = boot_ms() + 1_500;
        let fence = spec.fence_boot_ms;
        let mut live = stage.launch(spec).await;
        let proof = live.proof().await;
        assert!(boot_ms() >= fence, "{way}: not before its time");
        assert!(proof.death != Death::None && !live.stage.has_survivors(), "{way}: {proof:?}");
        assert_eq!(by(&live), Cause::Fence, "{way}");
        println!("{way}: proved {} ms after the fence", boot_ms() - fence);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_agent_outlives_its_first_fence() {
    let stage = Stage::new();
    let mut spec = stage.spec("idle", WAYS[2].1);
    spec.fence_boot_ms = boot_ms() + 8_000;
    let fence = spec.fence_boot_ms;
    let mut live = stage.launch(spec).await;
    live.handle.renew(fence + 600_000).await.expect("it listens");
    let refused = live.handle.renew(1).await.expect_err("that has passed");
    assert!(refused.to_string().contains("until_boot_ms"), "{refused}");
    past(fence + 200).await;
    let (status, _) = live.handle.status().await.expect("it answers");
    assert_eq!(status, Status::Running);
    assert!(live.stop().await.2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_stood_still_past_the_fence_kills_as_soon_as_it_goes_on() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("a shim that stood still, by {way}"));
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("heartbeat", isolation);
        spec.fence_boot_ms = boot_ms() + 5_000;
        let fence = spec.fence_boot_ms;
        let mut live = stage.launch(spec).await;
        let shim = Pid::from_raw(live.handle.launch().shim.pid).expect("a pid");
        kill_process(shim, Signal::STOP).expect("it is ours");
        past(fence + 100).await;
        assert!(live.stage.has_survivors(), "{way}: nobody could stop it");
        kill_process(shim, Signal::CONT).expect("it is ours");
        let proof = live.proof().await;
        assert!(proof.death != Death::None && !live.stage.has_survivors(), "{way}: {proof:?}");
        assert_eq!(by(&live), Cause::Fence, "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_is_told_to_end_ends_its_tree_first_and_leaves_the_proof() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("a shim that is told to end, by {way}"));
            continue;
        }
        let mut live = Stage::member("daemon", isolation).await;
        let shim = Pid::from_raw(live.handle.launch().shim.pid).expect("a pid");
        kill_process(shim, Signal::TERM).expect("it is ours");
        let proof = live.proof().await;
        assert!(proof.death != Death::None && !live.stage.has_survivors(), "{way}: {proof:?}");
        assert_eq!(by(&live), Cause::Signal, "{way}");
    }
}

/// How many beats of a heart have been heard.
fn beats(live: &mut Live) -> usize {
    live.out().matches("alive").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_frozen_stands_still_and_goes_on_where_it_was() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("freezing, by {way}"));
            continue;
        }
        let mut live = Stage::member("heartbeat", isolation).await;
        live.hears("alive").await;
        live.handle.freeze(true).await.expect("it listens");
        // What was on its way may still come.
        past(boot_ms() + 300).await;
        let still = beats(&mut live);
        past(boot_ms() + 500).await;
        assert_eq!(beats(&mut live), still, "{way}: it stands still");
        live.handle.freeze(false).await.expect("it listens");
        let more = async {
            while beats(&mut live) <= still {
                assert!(live.handle.changes().recv().await.is_some(), "{way}: it lives");
            }
        };
        timeout(crate::stage::PATIENCE, more).await.expect("it goes on");
        live.handle.freeze(true).await.expect("it listens");
        let (proof, _, truth) = live.stop().await;
        assert!(proof.death != Death::None && truth, "{way}: what stands still dies, too");
    }
}
