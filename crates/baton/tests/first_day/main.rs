//! A first day with the command line, as transcripts. Each is a text in which the lines after `$`
//! are typed into the real program, in an empty home; everything else is what it answered. A new
//! line after `$` and `./check bless` make the transcript longer.

mod plain;
mod shell;

use std::path::Path;
use std::process::{Command, Stdio};

use baton_testkit::postgres::{Cluster, Disk};
use expect_test::expect_file;

use shell::Shell;

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_day").join(name);
    let script = std::fs::read_to_string(&path).expect("the transcript is there");
    let told = Shell::new().play(&script);
    expect_file![path].assert_eq(&told);
}

/// The same day on Postgres, where nothing may read otherwise.
fn check_on_postgres(cluster: &Cluster, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_day").join(name);
    let script = std::fs::read_to_string(&path).expect("the transcript is there");
    let database = cluster.database();
    let told = Shell::on(&[(&database.url(), "postgres:///work")]).play(&script);
    pretty_equal(name, &shared(&script), &shared(&told));
}

/// Without what an examination finds in one of the two alone: a file of the folder, the database, and who
/// else must see the blobs.
fn shared(text: &str) -> Vec<&str> {
    let is_shared = |line: &&str| {
        !line.contains("/seal.key is yours alone")
            && !line.starts_with("ok  postgres  ")
            && !line.starts_with("ok  blobs  ")
    };
    text.lines().filter(is_shared).collect()
}

fn pretty_equal(name: &str, expected: &[&str], told: &[&str]) {
    let differs = expected.iter().zip(told).position(|(expected, told)| expected != told);
    if let Some(at) = differs {
        let from = at.saturating_sub(5);
        let part = |lines: &[&str]| lines[from..lines.len().min(at + 5)].join("\n");
        panic!("{name}: expected\n{}\n\non Postgres\n{}", part(expected), part(told));
    }
    assert_eq!(expected.len(), told.len(), "{name} ends at another place");
}

#[test]
fn the_first_hour_is_as_it_was_reviewed() {
    check("starting.txt");
}

#[test]
fn work_goes_from_hand_to_hand_as_it_was_reviewed() {
    check("working.txt");
}

#[test]
fn every_reason_to_wait_is_explained_as_it_was_reviewed() {
    check("waiting.txt");
}

#[test]
fn keys_come_and_go_as_it_was_reviewed() {
    check("keys.txt");
}

#[test]
fn mistakes_are_answered_as_it_was_reviewed() {
    check("mistakes.txt");
}

#[test]
fn the_house_is_kept_as_it_was_reviewed() {
    check("upkeep.txt");
}

#[test]
fn a_repository_is_set_up_and_left_as_it_was_reviewed() {
    check("repository.txt");
}

#[test]
fn a_first_task_of_the_agent_that_is_built_in_goes_as_it_was_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_day/built_in.txt");
    let script = std::fs::read_to_string(&path).expect("the transcript is there");
    let told = Shell::with_agents().play(&script);
    expect_file![path].assert_eq(&told);
}

#[test]
fn a_first_day_reads_the_same_on_postgres() {
    let cluster = Cluster::start(Disk::Careful);
    for name in
        ["starting.txt", "working.txt", "waiting.txt", "keys.txt", "mistakes.txt", "repository.txt"]
    {
        check_on_postgres(&cluster, name);
    }
}

#[test]
fn the_house_is_kept_on_postgres_as_it_was_reviewed() {
    let cluster = Cluster::start(Disk::Careful);
    let (work, restored) = (cluster.database(), cluster.database());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_day/upkeep_postgres.txt");
    let script = std::fs::read_to_string(&path).expect("the transcript is there");
    let databases =
        [(&*work.url(), "postgres:///work"), (&*restored.url(), "postgres:///restored")];
    let told = Shell::on(&databases).play(&script);
    expect_file![path].assert_eq(&told);
}

#[test]
fn help_reads_as_it_was_reviewed() {
    check("help.txt");
}

#[test]
fn the_demo_tells_its_story_and_leaves_nothing_behind() {
    check_demo(None);
}

#[test]
fn the_demo_tells_its_story_on_postgres_and_leaves_nothing_behind() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    check_demo(Some(&database.url()));
    let left = database.say(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
         UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         UNION ALL SELECT rolname FROM pg_roles WHERE rolname = current_database() || '_reader'",
    );
    assert_eq!(left, Vec::<String>::new(), "something was left behind");
}

fn check_demo(database_url: Option<&str>) {
    let folder = tempfile::tempdir().expect("there is room");
    let output = Command::new(env!("CARGO_BIN_EXE_baton"))
        .arg("demo")
        .env_clear()
        .env("TMPDIR", folder.path())
        .envs(database_url.map(|url| ("BATON_DATABASE_URL", url)))
        .stdin(Stdio::null())
        .output()
        .expect("the program is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    let told: Vec<_> = text(&output.stdout).split("\n\n").map(plain::block).collect();
    expect_file!["../../demo.txt"].assert_eq(&told.join("\n\n"));
    let left = std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(left, 0, "something was left behind");
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().expect("there is room");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_baton"))
        .arg("demo")
        .env_clear()
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program is there");
    let mut lines = BufReader::new(demo.stdout.take().expect("it is piped")).lines();
    let claimed = lines.any(|line| line.is_ok_and(|line| line.ends_with("baton claim")));
    assert!(claimed, "the story got to its first claim");
    let number = i32::try_from(demo.id()).ok().and_then(rustix::process::Pid::from_raw);
    let number = number.expect("a child has a number");
    rustix::process::kill_process(number, rustix::process::Signal::INT).expect("it is ours");
    lines.for_each(drop);
    assert_eq!(demo.wait().expect("it is ours").code(), Some(130));
    let left = std::fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(left, 0, "something was left behind");
}
