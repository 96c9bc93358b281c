//! What supervisors were seen to get wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use baton::shim::{Found, Isolation, Launch, Process, Proof, Status, adopt, launch, prove};
use baton_domain::run::Death;
use rustix::process::{Pid, getpid};

use crate::mute::Mute;
use crate::stage::{APART, PLAIN, Stage, WAYS, allowed, skipped};

/// Somebody who has nothing to do with any agent.
struct Bystander(Child);

impl Bystander {
    fn at(folder: &Path) -> Self {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000").current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn started(pid: i32) -> u64 {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_, rest) = line.rsplit_once(')').expect("a line of a process");
    rest.split_whitespace().nth(19).and_then(|word| word.parse().ok()).expect("a start")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ignores_term_with_two_grandchildren_is_gone_before_its_status_changes() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("who ignores TERM, by {way}"));
            continue;
        }
        let mut live = Stage::member("ignores-term", isolation).await;
        live.handle.stop(Some(300)).await.expect("it listens");
        let again = launch(&live.stage.place, &live.spec, None).await.expect_err("not twice");
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
        loop {
            let before = live.stage.has_survivors();
            match live.stage.place.status().expect("it is written") {
                Some(Status::Stopped { proof, .. }) => {
                    assert_ne!(proof.death, Death::None);
                    break assert!(!live.stage.has_survivors(), "{way}: told too early");
                }
                Some(Status::Stopping { survivor: false, .. }) => {}
                other => panic!("{way}: {other:?} while survivors: {before}"),
            }
            tokio::task::yield_now().await;
        }
        assert_ne!(live.proof().await.death, Death::None, "{way}");
    }
}

/// A way to make a process that no signal ends: the first version of the freezer.
fn freezer() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let line = mounts.lines().find(|line| {
        let words: Vec<_> = line.split(' ').collect();
        words.len() > 3 && words[2] == "cgroup" && words[3].split(',').any(|one| one == "freezer")
    })?;
    let path = Path::new(line.split(' ').nth(1)?)
        .join(format!("baton-test-{}", getpid().as_raw_nonzero()));
    fs::create_dir(&path).ok().map(|()| path)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_survives_the_kill_is_told_as_a_survivor_until_it_is_gone() {
    let Some(freezer) = freezer() else {
        return skipped("a process that no signal ends (no freezer of cgroup v1)");
    };
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("a process that no signal ends, by {way}"));
            continue;
        }
        let stage = Stage::new();
        let mut spec = stage.spec("idle", isolation);
        spec.proof_ms = 300;
        let mut live = stage.launch(spec).await;
        live.hears("here").await;
        let agent = live.handle.launch().agent.expect("it is known").pid;
        fs::write(freezer.join("cgroup.procs"), agent.to_string()).expect("it is moved");
        fs::write(freezer.join("freezer.state"), "FROZEN").expect("it is frozen");
        live.handle.stop(Some(0)).await.expect("it listens");
        let unproved = live.proof().await;
        assert_eq!(unproved, Proof { death: Death::None, survivor: true }, "{way}");
        assert!(live.stage.has_survivors(), "{way}: it does survive");
        let status = live.stage.place.status().expect("it is written");
        assert!(matches!(status, Some(Status::Stopping { survivor: true, .. })), "{status:?}");
        launch(&live.stage.place, &live.spec, None).await.expect_err("nobody else gets its place");
        fs::write(freezer.join("freezer.state"), "THAWED").expect("it is thawed");
        let proof = live.proof().await;
        assert!(proof.death != Death::None && !proof.survivor, "{way}: {proof:?}");
        assert!(!live.stage.has_survivors(), "{way}");
    }
    fs::remove_dir(freezer).expect("it is empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_file_system_that_never_answers_is_told_as_a_survivor_until_it_is_gone() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("a process in uninterruptible sleep, by {way}"));
            continue;
        }
        let stage = Stage::new();
        let folder = stage.path("mute");
        let Some(mute) = Mute::mounted(&folder) else {
            skipped(&format!("a process in uninterruptible sleep, by {way} (no FUSE)"));
            continue;
        };
        let mut spec = stage.spec("stuck", isolation);
        spec.proof_ms = 300;
        spec.env.insert("MUTE".into(), folder.to_str().expect("a plain name").into());
        let mut live = stage.launch(spec).await;
        live.hears("here").await;
        mute.is_asked();
        live.handle.stop(Some(0)).await.expect("it listens");
        let unproved = live.proof().await;
        assert_eq!(unproved, Proof { death: Death::None, survivor: true }, "{way}");
        assert!(live.stage.has_survivors(), "{way}: it does survive");
        mute.give_up();
        let proof = live.proof().await;
        assert!(proof.death != Death::None && !proof.survivor, "{way}: {proof:?}");
        assert!(!live.stage.has_survivors(), "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_worktree_10_leaves_worktree_100_and_somebodys_editor_alone() {
    for (way, isolation) in WAYS {
        if !allowed(isolation) {
            skipped(&format!("neighbours, by {way}"));
            continue;
        }
        let trees = tempfile::tempdir().expect("a folder");
        let mut lives = vec![];
        for name in ["10", "100"] {
            let folder = trees.path().join(name);
            fs::create_dir(&folder).expect("it is new");
            let stage = Stage::new();
            let mut spec = stage.spec("daemon", isolation);
            spec.cwd = folder;
            let mut live = stage.launch(spec).await;
            live.hears("here").await;
            lives.push(live);
        }
        let mut editor = Bystander::at(&trees.path().join("10"));
        let (proof, _, truth) = lives[0].stop().await;
        assert!(proof.death != Death::None && truth, "{way}");
        assert!(lives[1].stage.has_survivors(), "{way}: the neighbour was hit");
        assert!(editor.is_alive(), "{way}: the editor was hit");
        assert!(lives[1].stop().await.2, "{way}");
    }
}

/// The folder of an attempt whose shim is long gone.
fn forgotten(stage: &Stage, boot_id: &str, process: Process) -> Launch {
    let spec = stage.spec("idle", PLAIN);
    let left = Launch {
        deployment: spec.deployment,
        attempt: spec.attempt,
        nonce: spec.nonce,
        boot_id: boot_id.into(),
        shim: process,
        isolation: Isolation { namespace: Some(1), subreaper: true, ..Isolation::default() },
        root: Some(process),
        agent: Some(process),
    };
    fs::create_dir(stage.path("attempt")).expect("it is new");
    let write = |name: &str, bytes: Vec<u8>| {
        fs::write(stage.path("attempt").join(name), bytes).expect("it is written");
    };
    write("launch.json", serde_json::to_vec(&left).expect("plain"));
    write("status.json", serde_json::to_vec(&Status::Running).expect("plain"));
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_pid_that_another_program_has_now_is_not_killed_and_the_run_is_lost() {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("it is there");
    let mut innocent = Bystander::at(Path::new("/"));
    let pid = i32::try_from(innocent.0.id()).expect("a pid");
    assert!(Pid::from_raw(pid).is_some());
    // Of this boot, with another start; and of another boot, with the very same numbers.
    for (boot, started) in [(boot.trim(), started(pid) + 1), ("another-boot", started(pid))] {
        let stage = Stage::new();
        let left = forgotten(&stage, boot, Process { pid, started });
        let Found::Vanished(launch) = adopt(&stage.place).await.expect("it is known") else {
            panic!("its shim is gone")
        };
        assert_eq!(launch, left);
        let proof = prove(&left).await.expect("it is known");
        assert_eq!(proof, Proof { death: Death::PidNamespace, survivor: false });
    }
    assert!(innocent.is_alive(), "somebody else was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_start_is_told_as_one_that_never_did() {
    let stage = Stage::new();
    let mut spec = stage.spec("idle", APART);
    spec.isolation.namespace = baton::shim::Want::Try;
    spec.argv = vec!["/no/such/agent".into()];
    let error = launch(&stage.place, &spec, None).await.expect_err("there is no such program");
    assert!(error.to_string().contains("/no/such/agent"), "{error}");
    let found = adopt(&stage.place).await.expect("it is known");
    let Found::Over(Status::NotStarted { why }) = found else { panic!("it never ran: {found:?}") };
    assert!(why.contains("/no/such/agent"), "{why}");
    assert!(!stage.has_survivors());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_comes_after_its_attempt_was_given_up_starts_nobody() {
    let stage = Stage::new();
    let spec = stage.spec("idle", PLAIN);
    fs::create_dir(stage.path("attempt")).expect("it is new");
    let written = serde_json::to_vec(&spec).expect("plain");
    fs::write(stage.path("attempt").join("spec.json"), written).expect("it is written");
    // The worker died between its last two steps, and the next one looks first.
    let found = adopt(&stage.place).await.expect("it is known");
    assert!(matches!(found, Found::Over(Status::NotStarted { .. })), "{found:?}");
    let late = Command::new(crate::stage::PROGRAM).arg("shim").arg(stage.path("attempt")).output();
    let late = late.expect("it runs");
    assert!(String::from_utf8_lossy(&late.stdout).contains("adopt it"), "{late:?}");
    assert!(!late.status.success() && !stage.has_survivors());
}
