//! The worker's own end of the link, against a real server.

use std::path::Path;
use std::sync::Arc;

use baton::chance::SystemChance;
use baton::client::{Address, KeyFrom, Trust};
use baton::protocol::{Dispatch, Down, Lifecycle, Phase, Stopped, Up, Verdict};
use baton::surroundings::Hidden;
use baton::worker::link::{Link, News, Settings};
use baton_domain::ids::AttemptId;
use baton_domain::run::Death;
use baton_domain::text::Text;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::{busy, state};
use crate::caller::PATIENCE;
use crate::more::until;
use crate::world::World;

fn settings(world: &World, key: &str) -> Settings {
    Settings {
        address: Address::of_url(&format!("http://{}", world.address)).expect("a URL"),
        trust: Trust::Machine,
        key: KeyFrom::Text(Hidden::new(key)),
        machine: "box".parse().expect("a name"),
        process: Text::new("process", "one").expect("a text"),
        capabilities: Default::default(),
        slots: 2,
        accounts: vec![],
        agents: vec![],
        deployment: None,
    }
}

fn open(world: &World, key: &str, root: &Path) -> (Link, Receiver<News>) {
    Link::open(settings(world, key), root, Arc::new(SystemChance)).expect("a folder")
}

async fn news(inbox: &mut Receiver<News>) -> News {
    timeout(PATIENCE, inbox.recv()).await.expect("something is heard").expect("it is open")
}

async fn dispatched(link: &Link, inbox: &mut Receiver<News>) -> Dispatch {
    let welcome = news(inbox).await;
    assert!(matches!(welcome, News::Welcome(..)), "{welcome:?}");
    link.credit(1);
    let told = news(inbox).await;
    if let News::Said(Down::Dispatch(run)) = told {
        return *run;
    }
    panic!("no run: {told:?}")
}

fn seen(attempt: AttemptId, phase: Phase) -> Up {
    Lifecycle { attempt, seq: 0, phase, deadline: None, cap: None, at: None }.into()
}

fn stopped(attempt: AttemptId) -> Up {
    Stopped { attempt, seq: 0, death: Death::Cgroup, survivor: false }.into()
}

#[tokio::test]
async fn a_link_carries_a_run_from_its_dispatch_to_its_end() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let root = tempfile::tempdir().expect("a folder");
    let (link, mut inbox) = open(&world, &key, root.path());
    let run = dispatched(&link, &mut inbox).await;
    for phase in [Phase::Accepted, Phase::ProcessStarted, Phase::PromptWritten] {
        link.tell(seen(run.attempt, phase)).expect("there is room");
    }
    until(|| link.waiting(run.attempt) == 0).await;
    assert_eq!(state(&world, &task).await, "working");
    let reason = json!({ "reason": "not needed" });
    world.person(&format!("/v1/runs/{}/cancel", run.run), &reason).await;
    let told = news(&mut inbox).await;
    assert!(matches!(told, News::Said(Down::Cancel(cancel)) if cancel.why == Verdict::Cancelled));
    link.tell(stopped(run.attempt)).expect("there is room");
    until(|| link.waiting(run.attempt) == 0).await;
    assert_eq!(state(&world, &task).await, "cancelled");
    assert!(link.forget(run.attempt).expect("it is asked"));
}

#[tokio::test]
async fn a_worker_that_crashes_tells_the_rest_when_it_is_back() {
    let (world, key) = busy().await;
    let task = world.task("One").await;
    let root = tempfile::tempdir().expect("a folder");
    let (link, mut inbox) = open(&world, &key, root.path());
    let run = dispatched(&link, &mut inbox).await;
    link.tell(seen(run.attempt, Phase::ProcessStarted)).expect("there is room");
    until(|| link.waiting(run.attempt) == 0).await;
    // Nothing of this one is left but its files.
    drop((link, inbox));
    world.until_listening(0).await;
    let mut boxes = baton::worker::outbox::Outboxes::open(root.path()).expect("it opens");
    boxes.tell(stopped(run.attempt)).expect("there is room");
    drop(boxes);
    let (link, mut inbox) = open(&world, &key, root.path());
    let News::Welcome(welcome, _) = news(&mut inbox).await else { panic!("it is welcome") };
    assert_eq!((welcome.resume[0].attempt, welcome.resume[0].applied_seq), (run.attempt, 1));
    until(|| link.waiting(run.attempt) == 0).await;
    assert_eq!(state(&world, &task).await, "queued");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_waited_for() {
    let (world, key) = busy().await;
    let root = tempfile::tempdir().expect("a folder");
    let mut elsewhere = settings(&world, &key);
    elsewhere.address = Address::Socket(root.path().join("nobody"));
    let (_link, mut inbox) =
        Link::open(elsewhere, root.path(), Arc::new(SystemChance)).expect("a folder");
    for _ in 0..2 {
        assert!(matches!(news(&mut inbox).await, News::Cut(_)));
    }
    let (_link, mut inbox) = open(&world, "batonk_nobody", root.path());
    let News::Cut(why) = news(&mut inbox).await else { panic!("it is not let in") };
    assert!(why.contains("key"), "{why}");
}
