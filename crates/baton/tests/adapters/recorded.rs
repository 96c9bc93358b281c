//! What is seen in recorded streams, and that everything which was said to a program in them is
//! what would be said to it.

use std::fmt::Write as _;

use baton::adapters::{End, Program, Reply, Seen};
use expect_test::expect_file;
use serde_json::Value;

use crate::fixture::{Fixture, Record};

#[test]
fn what_is_seen_in_recorded_streams_is_as_it_was() {
    let mut text = "What is seen in each recorded stream; ./check bless rewrites it.\n".to_owned();
    for fixture in Fixture::all() {
        let (seen, follower) = fixture.seen();
        let tally = follower.tally();
        writeln!(text, "\n{}: {}", fixture.name, fixture.about).expect("a text takes all");
        for one in &seen {
            writeln!(text, "  {one}").expect("a text takes all");
        }
        let odd = (tally.strange, tally.too_long);
        if odd != (0, 0) {
            writeln!(text, "  ({} strange lines, {} too long)", odd.0, odd.1).expect("same");
        }
    }
    expect_file!["seen.txt"].assert_eq(&text);
}

#[test]
fn every_recorded_turn_ends_once_and_nothing_is_seen_after_it() {
    for fixture in Fixture::all() {
        let (seen, mut follower) = fixture.seen();
        let ends = seen.iter().filter(|seen| matches!(seen, Seen::Ended { .. })).count();
        assert_eq!(ends, 1, "{}", fixture.name);
        assert!(matches!(seen.last(), Some(Seen::Ended { .. })), "{}", fixture.name);
        for record in &fixture.records {
            assert_eq!(follower.fold(record.heard()), [], "{}", fixture.name);
        }
        assert_eq!(follower.owed(), None, "{}", fixture.name);
    }
}

#[test]
fn every_tool_that_began_ends_unless_the_program_was_stopped() {
    for fixture in Fixture::all() {
        let (seen, _) = fixture.seen();
        let mut open: Vec<&str> = vec![];
        for one in &seen {
            match one {
                Seen::ToolStarted { id, .. } => open.push(id),
                Seen::ToolEnded { id } => open.retain(|other| other != id),
                Seen::Ended { reason: End::Finished, .. } => {
                    assert_eq!(open, [] as [&str; 0], "{}", fixture.name);
                }
                Seen::Session(_)
                | Seen::Started
                | Seen::Spoke { .. }
                | Seen::Read(_)
                | Seen::Permission { .. }
                | Seen::Asked { .. }
                | Seen::Settled { .. }
                | Seen::Used(_)
                | Seen::Limited(_)
                | Seen::Retrying { .. }
                | Seen::Ended { .. } => {}
            }
        }
    }
}

/// Programs that are spoken to while they run.
const SPOKEN_TO: [Program; 3] = [Program::Claude, Program::Codex, Program::Acp];

#[test]
fn what_a_program_was_told_is_what_would_be_told() {
    for fixture in Fixture::all().iter().filter(|one| SPOKEN_TO.contains(&one.program)) {
        let (cause, mut follower) = (fixture.cause(), fixture.follow());
        let plan = fixture.program.plan(&cause.turn()).expect("it can be started");
        let mut first = Some(plan.stdin);
        let mut waiting = None;
        for record in &fixture.records {
            if let Record::In(written) = record {
                let mut could: Vec<Vec<u8>> = first.take().into_iter().collect();
                could.extend(follower.owed());
                could.extend(follower.interrupt());
                if let Some(id) = &waiting {
                    let (id, why): (&String, _) = (id, "not here".to_owned());
                    could.extend(follower.answer(&Reply::Allow { id: id.clone() }));
                    could.extend(follower.answer(&Reply::Deny { id: id.clone(), why }));
                }
                let written = json(written);
                let could: Vec<_> = could.iter().map(|bytes| json(bytes)).collect();
                assert!(could.contains(&written), "{}: {written}\n{could:#?}", fixture.name);
            }
            for seen in follower.fold(record.heard()) {
                if let Seen::Permission { id, .. } | Seen::Asked { id, .. } = seen {
                    waiting = Some(id);
                }
            }
        }
    }
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("what is said is JSON")
}

#[test]
fn nothing_is_owed_twice_after_a_worker_came_back() {
    for fixture in Fixture::all().iter().filter(|one| SPOKEN_TO.contains(&one.program)) {
        // A worker may come back after any record, and knows only the spool.
        for known in 0..fixture.records.len() {
            let mut follower = fixture.follow();
            for record in &fixture.records[..known] {
                follower.fold(record.heard());
            }
            let Some(owed) = follower.owed() else { continue };
            let written = fixture.records[..known].iter().any(|record| match record {
                Record::In(bytes) => json(bytes) == json(&owed),
                Record::Out(_) | Record::Err(_) | Record::Exited(_) => false,
            });
            assert!(!written, "{} after {known} records", fixture.name);
        }
    }
}
