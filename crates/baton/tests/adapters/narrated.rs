//! What people read of recorded streams.

use std::fmt::Write as _;

use baton::adapters::{Narrator, Said, Voice};
use expect_test::expect_file;

use crate::fixture::{Fixture, Record};

fn told(fixture: &Fixture, pieces: usize) -> Vec<Said> {
    let mut narrator = Narrator::new(fixture.program);
    let mut said = vec![];
    for record in &fixture.records {
        match record {
            Record::Out(bytes) => {
                for piece in bytes.chunks(pieces) {
                    said.extend(narrator.hear(baton::adapters::Heard::Out(piece)));
                }
            }
            Record::Err(_) | Record::In(_) | Record::Exited(_) => {
                said.extend(narrator.hear(record.heard()));
            }
        }
    }
    said
}

#[test]
fn what_people_read_of_recorded_streams_is_as_it_was() {
    let mut text =
        "What people read of each recorded stream; ./check bless rewrites it.\n".to_owned();
    for fixture in Fixture::all() {
        writeln!(text, "\n{}: {}", fixture.name, fixture.about).expect("a text takes all");
        for Said { voice, text: line } in told(&fixture, usize::MAX) {
            let mark = match voice {
                Voice::Said => ' ',
                Voice::Tool => '$',
                Voice::Output => '|',
                Voice::Error => '!',
            };
            writeln!(text, "  {mark} {line}").expect("a text takes all");
        }
    }
    expect_file!["narrated.txt"].assert_eq(&text);
}

#[test]
fn it_does_not_matter_how_a_stream_is_cut() {
    for fixture in Fixture::all() {
        assert_eq!(told(&fixture, 7), told(&fixture, usize::MAX), "{}", fixture.name);
    }
}
