//! Gate rooms, with real commits, shims and commands.

use std::collections::BTreeMap;
use std::fs;
use std::future::pending;
use std::path::Path;
use std::time::Duration;

use baton::gates::{Check, Ended, Error, Findings, Job, LOG_BYTES_MAX, Rooms};
use baton::shim::Wanted;
use baton::worktree::Worktree;
use baton_domain::ids::{AttemptId, LineId, RunId, TaskId};
use baton_domain::text::Line;
use baton_domain::time::Millis;
use tokio::time::timeout;

use crate::world::{World, sh, tenant};

/// A machine that builds beside the tests is slow; a test that hangs still ends.
const PATIENCE: Duration = Duration::from_secs(120);
const SECRET: &str = "sesame-4711";

fn rooms(world: &World) -> Rooms {
    let data = world.folder.join("data");
    let own = [("PATH", "/usr/bin:/bin"), ("LANG", "C"), ("SECRET", SECRET)];
    Rooms {
        folder: data.join("worker/rooms"),
        deployment: "d-one".to_owned(),
        variables: own.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        hidden: vec![data],
        fixed: vec![],
        isolation: Wanted::default(),
        shim: Some(env!("CARGO_BIN_EXE_baton").into()),
    }
}

fn line(name: &str) -> LineId {
    LineId::new(name).expect("a name")
}

fn check(name: &str, command: &str, timeout: Millis) -> Check {
    Check { line: line(name), command: Line::new("command", command).expect("a line"), timeout }
}

fn job(worktree: &Worktree, checks: Vec<Check>) -> Job {
    let taken = worktree.snapshot(1).expect("it can be kept");
    Job {
        tenant: tenant(),
        run: RunId { task: TaskId(1), number: 1 },
        attempt: AttemptId { task: TaskId(1), number: 1 },
        commit: taken.snapshot().commit.clone(),
        checks,
    }
}

async fn found(world: &World, worktree: &Worktree, checks: Vec<Check>) -> Findings {
    let depot = worktree.depot().expect("it has one");
    let rooms = rooms(world);
    let found = rooms.check(&depot, job(worktree, checks), pending());
    let found = timeout(PATIENCE, found).await.expect("in time").expect("it can be checked");
    let left = fs::read_dir(&rooms.folder).expect("it is there").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 1, "the logs alone are left: {left:?}");
    found
}

fn said(found: &Findings, nth: usize) -> String {
    String::from_utf8_lossy(&fs::read(&found.checked[nth].log.path).expect("a log")).into_owned()
}

#[tokio::test]
async fn every_command_has_a_typed_result_and_what_it_said() {
    let world = World::new();
    let worktree = world.prepare(&world.project()).worktree;
    let minute = Millis::minutes(1);
    let checks = vec![
        check("good", "cat src/a.txt && git rev-parse --verify -q HEAD", minute),
        check("bad", "echo it is broken >&2; exit 3", minute),
        check("killed", "kill -9 $$", minute),
        check("slow", "echo begun; sleep 600 & sleep 600", Millis::seconds(1)),
        check("loud", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end", minute),
    ];
    let found = found(&world, &worktree, checks).await;
    let ended: Vec<_> = found.checked.iter().map(|one| one.ended.clone()).collect();
    let expected = [
        Ended::Exited(0),
        Ended::Exited(3),
        Ended::Signalled(9),
        Ended::TimedOut,
        Ended::Exited(0),
    ];
    assert_eq!(ended, expected);
    assert_eq!(said(&found, 0), format!("one\n{}\n", found.commit));
    assert_eq!(said(&found, 1), "it is broken\n");
    assert_eq!(said(&found, 3), "begun\n");
    let loud = &found.checked[4].log;
    assert_eq!(loud.bytes, LOG_BYTES_MAX as u64, "the end is kept");
    assert!(loud.dropped > 1_900_000, "{loud:?}");
    assert!(said(&found, 4).ends_with("\nthe end\n"));
}

#[tokio::test]
async fn a_room_shares_nothing_with_a_worktree_and_holds_no_secret() {
    let world = World::new();
    let worktree = world.prepare(&world.project()).worktree;
    fs::create_dir_all(worktree.path().join("built")).expect("a folder");
    fs::write(worktree.path().join("built/stale"), "ignored, and not committed").expect("a file");
    fs::write(worktree.path().join("new.txt"), "of this attempt").expect("a file");
    let secret = world.folder.join("data/secret");
    fs::write(&secret, SECRET).expect("a file");
    let minute = Millis::minutes(1);
    let looks = format!(
        "test ! -e built && cat new.txt && ls -A $HOME /tmp && env && (cat {} || echo unseen) 2>&1; \
         echo mine > /tmp/left; echo mine > $HOME/left; chmod -R 0 .git",
        secret.display()
    );
    let checks = vec![
        check("looks", &looks, minute),
        check("after", "ls -A $HOME /tmp; test -z \"$(ls -A $HOME /tmp | grep left)\"", minute),
    ];
    let found = found(&world, &worktree, checks).await;
    let said = said(&found, 0);
    assert!(said.starts_with("of this attempt"), "{said}");
    assert!(said.contains("unseen") && !said.contains(SECRET), "{said}");
    for word in ["BATON", "TOKEN", "KEY", "SOCKET"] {
        assert!(!said.contains(word), "{word} in {said}");
    }
    assert_eq!(found.checked[1].ended, Ended::Exited(0), "{}", self::said(&found, 1));
}

#[tokio::test]
async fn whoever_calls_it_off_leaves_nothing_running() {
    let world = World::new();
    let worktree = world.prepare(&world.project()).worktree;
    let (depot, rooms) = (worktree.depot().expect("it has one"), rooms(&world));
    let job = job(&worktree, vec![check("slow", "touch begun; sleep 600", Millis::minutes(9))]);
    let seen = async {
        let rooms = || fs::read_dir(world.folder.join("data/worker/rooms")).into_iter().flatten();
        let begun = || rooms().flatten().any(|room| room.path().join("tree/begun").exists());
        while !begun() {
            tokio::task::yield_now().await;
        }
    };
    let answer = timeout(PATIENCE, rooms.check(&depot, job, seen)).await.expect("in time");
    assert!(matches!(answer, Err(Error::CalledOff)), "{answer:?}");
    assert!(is_empty(&rooms.folder), "the room is gone");
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("it is there").next().is_none()
}

#[tokio::test]
async fn equal_surroundings_have_equal_digests() {
    let world = World::new();
    let project = world.project();
    let worktree = world.prepare(&project).worktree;
    let first = found(&world, &worktree, vec![]).await.environment;
    sh(project.root(), "echo more > more && git add -A && git commit -q -m more");
    assert_eq!(found(&world, &worktree, vec![]).await.environment, first);
    let variables = BTreeMap::from([("PATH".to_owned(), "/elsewhere".to_owned())]);
    let other = Rooms { variables, ..rooms(&world) };
    let depot = worktree.depot().expect("it has one");
    let other = other.check(&depot, job(&worktree, vec![]), pending()).await.expect("it can be");
    assert_ne!(other.environment, first);
}
