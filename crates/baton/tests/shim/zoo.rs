//! The zoo: every member is stopped with proof, and the proof is true.

use std::path::Path;

use baton::shim::spool::Stream;
use baton::shim::{Note, Proof, Spec, Status, Wanted};
use baton_domain::run::Death;

use crate::stage::{Live, Stage, WAYS, allowed, skipped};

/// Members that stay until they are stopped.
const STAYING: [&str; 23] = [
    "ignores-term",
    "daemon",
    "sessions",
    "chain",
    "stops-itself",
    "closes-stdout",
    "trickle",
    "one-line",
    "no-newline",
    "bad-utf8",
    "nul",
    "ansi",
    "forged",
    "migrates",
    "systemd-run",
    "eats-ram",
    "heartbeat",
    "at",
    "bomb",
    "idle",
    "reads-env",
    "reads-proc",
    "docker",
];
/// Members that end by themselves and leave somebody behind, or nobody.
const LEAVING: [&str; 3] = ["holds-stdout", "exits-zero", "chain-alone"];
/// What a member that only talks may say: enough to fill pipe and segments.
const BYTES: u64 = 5_000_000;
/// Processes of a bomb.
const BOMB: u64 = 96;
/// Address space of who eats all of it.
const RAM: u64 = 256 << 20;

fn expected(way: &str) -> Death {
    match way {
        "namespace" => Death::PidNamespace,
        "cgroup" => Death::Cgroup,
        _ => Death::SubreaperEchild,
    }
}

fn prepared(stage: &Stage, member: &str, isolation: Wanted) -> Spec {
    let mut spec = stage.spec(member, isolation);
    spec.env.insert("BYTES".into(), (BYTES * baton_testkit::rounds(1)).to_string());
    // The group that all our groups are made in.
    let group = baton::shim::examine(crate::stage::PROGRAM.as_ref()).expect("it looks").cgroup;
    let group = group.as_deref().and_then(|group| group.parent()).map(|group| group.to_owned());
    let group = group.and_then(|group| group.to_str().map(str::to_owned)).unwrap_or_default();
    spec.env.insert("GROUP".into(), group);
    spec.env.insert("SECRET".into(), format!("zoo-{}", std::process::id()));
    match member {
        "bomb" => spec.limits.processes = Some(BOMB),
        "eats-ram" => spec.limits.memory = Some(RAM),
        _ => {}
    }
    spec
}

/// What a member needs to escape, and this machine does not have: then it tries in vain.
fn missing(member: &str) -> Option<&'static str> {
    let on_path = |name: &str| {
        ["/usr/local/bin", "/usr/bin", "/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(name).exists())
    };
    match member {
        "systemd-run" if !on_path("systemd-run") => Some("systemd-run"),
        "at" if !on_path("at") => Some("at"),
        "docker" if !Path::new("/run/docker.sock").exists() => Some("the socket of docker"),
        _ => None,
    }
}

fn percentile(times: &mut [u64], part: usize) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) * part / 100]
}

async fn tour(way: &str, isolation: Wanted) {
    if !allowed(isolation) {
        return skipped(&format!("the zoo with proof by {way}, {} members", STAYING.len()));
    }
    let (mut times, mut stopped) = (vec![], 0);
    for round in 0..baton_testkit::rounds(1) {
        for member in STAYING {
            if let Some(tool) = missing(member) {
                skipped(&format!(
                    "{member} by {way}, which needs {tool}: it is stopped all the same"
                ));
            }
            let stage = Stage::new();
            let spec = prepared(&stage, member, isolation);
            let mut live = stage.launch(spec).await;
            live.hears("here").await;
            let (proof, micros, truth) = live.stop().await;
            let expected = Proof { death: expected(way), survivor: false };
            assert_eq!((proof, truth), (expected, true), "{member} in round {round}");
            assert_over(&live, proof);
            checked(member, way, &mut live);
            times.push(micros);
            stopped += 1;
        }
        for member in LEAVING {
            let stage = Stage::new();
            let spec = prepared(&stage, member, isolation);
            let mut live = stage.launch(spec).await;
            let proof = live.proof().await;
            assert!(!live.stage.has_survivors(), "{member} left somebody behind");
            assert_eq!(proof, Proof { death: expected(way), survivor: false }, "{member}");
            assert_over(&live, proof);
            stopped += 1;
        }
    }
    println!(
        "proof by {way}: {stopped} stopped, 0 survivors, 0 false; time to proof p50 {} ms, p99 {} ms \
         (200 ms of it are grace for those who do not listen)",
        percentile(&mut times, 50) / 1_000,
        percentile(&mut times, 99) / 1_000,
    );
}

fn assert_over(live: &Live, proof: Proof) {
    match live.stage.place.status().expect("it is written") {
        Some(Status::Stopped { proof: written, .. }) => assert_eq!(written, proof),
        other => panic!("told over, but the status is {other:?}"),
    }
}

/// What a member is known for, beside not dying.
fn checked(member: &str, way: &str, live: &mut Live) {
    match member {
        "forged" => {
            let out = live.text(Stream::Out);
            assert!(out.starts_with(b"{\"stopped\""), "its words are its own");
            let notes = live.said.iter().filter(|record| record.stream == Stream::Note);
            let told: Vec<_> = notes.filter_map(|record| Note::read(&record.bytes)).collect();
            let stops = told.iter().filter(|note| matches!(note, Note::Stopped(_)));
            assert_eq!(stops.count(), 1, "only the shim says that it stopped");
        }
        "bad-utf8" => assert!(live.text(Stream::Out).starts_with(b"\xff\xfe\xc0\xaf")),
        "nul" => assert!(live.text(Stream::Out).starts_with(b"a\0b\0")),
        "one-line" => {
            let length = live.text(Stream::Out).len() as u64;
            assert!(length > BYTES || live.reader.missed() > 0, "{length} bytes");
        }
        "reads-env" => {
            let out = live.out();
            let names = out.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
            let ours = |name: &str| live.spec.env.contains_key(name);
            // A shell has two of its own.
            let strange: Vec<_> =
                names.filter(|one| !ours(one) && !["PWD", "_"].contains(one)).collect();
            assert_eq!(strange, Vec::<&str>::new());
        }
        "reads-proc" => assert!(!live.out().contains("leak"), "nobody else has its secret"),
        "docker" if way == "namespace" => assert!(live.out().contains("denied")),
        "migrates" if way == "namespace" => {
            assert!(live.out().contains("denied"), "groups are read-only in a namespace");
        }
        "systemd-run" | "at" => {
            let out = live.out();
            assert!(out.contains("denied") && !out.contains("escaped"), "{member}: {out}");
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_of_the_zoo_is_stopped_with_the_proof_of_a_namespace() {
    tour(WAYS[0].0, WAYS[0].1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_of_the_zoo_is_stopped_with_the_proof_of_a_cgroup() {
    tour(WAYS[1].0, WAYS[1].1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_of_the_zoo_is_stopped_with_the_proof_of_a_subreaper() {
    tour(WAYS[2].0, WAYS[2].1).await;
}
