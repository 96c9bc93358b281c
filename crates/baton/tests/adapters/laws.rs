//! Whatever a program prints, and however it is cut into pieces.

use baton::adapters::{Exit, Heard, LINE_BYTES_MAX, PROGRAMS, Program, Seen};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::{Index, select};
use proptest::test_runner::Config;

use crate::fixture::{Fixture, Record};

fn turn_of(program: Program) -> baton::adapters::Follower {
    let like = Fixture { name: String::new(), program, about: String::new(), records: vec![] };
    like.follow()
}

/// Life that is shown several times in a row is life.
fn merged(seen: Vec<Seen>) -> Vec<Seen> {
    let mut merged: Vec<Seen> = vec![];
    for one in seen {
        if !(matches!(one, Seen::Spoke { .. }) && merged.last() == Some(&one)) {
            merged.push(one);
        }
    }
    merged
}

fn fold(program: Program, records: &[Record]) -> Vec<Seen> {
    let mut follower = turn_of(program);
    let mut seen: Vec<_> = records.iter().flat_map(|one| follower.fold(one.heard())).collect();
    seen.extend(follower.fold(Heard::Exited(Exit::Code(1))));
    merged(seen)
}

/// How a piece becomes a record of its stream.
type Make = fn(Vec<u8>) -> Record;

/// The same in pieces, which end where the numbers say.
fn cut(records: &[Record], places: &[Index]) -> Vec<Record> {
    let mut pieces = vec![];
    for record in records {
        let (bytes, make): (_, Make) = match record {
            Record::Out(bytes) => (bytes, Record::Out),
            Record::Err(bytes) => (bytes, Record::Err),
            Record::In(bytes) => (bytes, Record::In),
            Record::Exited(_) => {
                pieces.push(record.clone());
                continue;
            }
        };
        let mut ends: Vec<_> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut from = 0;
        for end in ends {
            pieces.push(make(bytes[from..end].to_vec()));
            from = end;
        }
    }
    pieces
}

/// Lines that some program really printed or was told.
fn real_lines() -> Vec<Vec<u8>> {
    let records = Fixture::all().into_iter().flat_map(|fixture| fixture.records);
    let lines = records.filter_map(|record| match record {
        Record::Out(bytes) | Record::Err(bytes) | Record::In(bytes) => Some(bytes),
        Record::Exited(_) => None,
    });
    lines.filter(|line| line.len() < 4_096).collect()
}

/// Bytes of every kind: real lines, damaged ones, JSON of any shape, and noise.
fn bytes(real: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damaged =
        (select(real.clone()), any::<Index>(), any::<u8>()).prop_map(|(mut line, at, byte)| {
            let at = at.index(line.len());
            line[at] = byte;
            line
        });
    let torn = (select(real.clone()), any::<Index>()).prop_map(|(mut line, at)| {
        line.truncate(at.index(line.len() + 1));
        line
    });
    let odd = vec(select(ODD.to_vec()), 0..4).prop_map(|parts| parts.concat().into_bytes());
    prop_oneof![select(real), damaged, torn, odd, vec(any::<u8>(), 0..200)]
}

/// Well-formed lines whose members are not what they should be.
const ODD: [&str; 10] = [
    "{\"type\":\"result\",\"usage\":7,\"model_usage_since_last_result\":{\"m\":[]}}\n",
    "{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"content\":{\"type\":1},\"usage\":{\"input_tokens\":-1}}}\n",
    "{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":9223372036854775807}}\n",
    "{\"id\":{},\"method\":\"item/tool/requestUserInput\",\"params\":[]}\n",
    "{\"id\":18446744073709551615,\"method\":\"session/prompt\"}\n",
    "{\"method\":\"thread/tokenUsage/updated\",\"params\":{\"tokenUsage\":{\"total\":{\"inputTokens\":1e300}}}}\n",
    "{\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":\"usage_update\",\"cost\":{\"amount\":-1e308,\"currency\":\"USD\"}}}}\n",
    "{\"type\":\"control_request\",\"request_id\":\"r\",\"request\":{\"subtype\":\"can_use_tool\",\"input\":null}}\n",
    "{\"type\":\"step_finish\",\"part\":{\"tokens\":{\"cache\":[1]},\"cost\":\"free\"}}\n",
    "\u{feff}\0\0[[[[[[{\"type\":\"result\"}\n",
];

fn records(real: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<Record>> {
    let record = (bytes(real), 0..4_u8).prop_map(|(bytes, stream)| match stream {
        0 => Record::Err(bytes),
        1 => Record::In(bytes),
        _ => Record::Out(bytes),
    });
    vec(record, 0..12)
}

#[test]
fn nothing_that_is_printed_breaks_a_fold_and_where_it_is_cut_changes_nothing() {
    let cases = u32::try_from(baton_testkit::rounds(64)).expect("that many cases");
    let places = vec(any::<Index>(), 0..4);
    let all = (records(real_lines()), places);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    proptest!(config, |((records, places) in all)| {
        for program in PROGRAMS {
            let whole = fold(program, &records);
            let pieces = fold(program, &cut(&records, &places));
            assert_eq!(whole, pieces, "{}", program.word());
        }
    });
}

#[test]
fn recorded_streams_read_byte_by_byte_show_the_same() {
    for fixture in Fixture::all() {
        let mut follower = fixture.follow();
        let mut seen = vec![];
        for record in &fixture.records {
            match record {
                Record::Out(bytes) => {
                    seen.extend(bytes.chunks(1).flat_map(|byte| follower.fold(Heard::Out(byte))));
                }
                Record::Err(_) | Record::In(_) | Record::Exited(_) => {
                    seen.extend(follower.fold(record.heard()));
                }
            }
        }
        assert_eq!(merged(seen), merged(fixture.seen().0), "{}", fixture.name);
    }
}

#[test]
fn a_line_without_an_end_is_dropped_at_its_bound_and_counted() {
    let event = b"{\"type\":\"said\",\"text\":\"x\"}\n";
    let mut follower = turn_of(Program::Script);
    let piece = vec![b'a'; LINE_BYTES_MAX / 2];
    for _ in 0..5 {
        assert_eq!(follower.fold(Heard::Out(&piece)), []);
    }
    assert_eq!(follower.fold(Heard::Out(b"\n")), []);
    assert_eq!(follower.fold(Heard::Out(event)), [Seen::Spoke { visible: true }]);
    let tally = follower.tally();
    assert_eq!((tally.events, tally.strange, tally.too_long), (1, 0, 1));
}

#[test]
fn bad_text_nul_and_torn_json_are_counted_and_the_next_line_is_read() {
    let mut follower = turn_of(Program::Script);
    for strange in [&b"\xff\xfe\n"[..], b"\0\n", b"{\"type\":\"sa\n", b"[1]\n", b"::set-env x\n"] {
        assert_eq!(follower.fold(Heard::Out(strange)), []);
    }
    assert_eq!(follower.fold(Heard::Out(b" \r\n\n")), []);
    let seen = follower.fold(Heard::Out(b"{\"type\":\"said\"}\r\n"));
    assert_eq!(seen, [Seen::Spoke { visible: true }]);
    let tally = follower.tally();
    assert_eq!((tally.events, tally.strange, tally.too_long), (1, 5, 0));
}

#[test]
fn the_last_line_counts_also_without_its_end() {
    let mut follower = turn_of(Program::Script);
    assert_eq!(follower.fold(Heard::Out(b"{\"type\":\"ended\"}")), []);
    let seen = follower.fold(Heard::Exited(Exit::Code(0)));
    assert_eq!(seen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ended finished"]);
}
