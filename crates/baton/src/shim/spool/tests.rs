use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use baton_testkit::chance::Chance;

use super::{
    LINE_BYTES_MAX, Lines, RECORD_BYTES_MAX, Reader, Record, SPOOL_BYTES_MIN, SPOOL_BYTES_USUAL,
    Stream, Writer, segment, segments,
};
use crate::shim::Note;

fn all(folder: &Path, offset: u64) -> Vec<Record> {
    let reader = Reader::open(folder, offset).expect("there is a spool");
    reader.map(|record| record.expect("it is whole")).collect()
}

fn spool() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spool");
    (folder, path)
}

#[test]
fn what_is_written_is_read_in_order_from_any_record_on() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is made");
    let said: [(Stream, &[u8]); 5] = [
        (Stream::Out, b"one\n"),
        (Stream::Err, b"\0\xff\x1b]0;title\x07"),
        (Stream::In, b""),
        (Stream::Note, b"{}"),
        (Stream::Out, b"last"),
    ];
    for (at, (stream, bytes)) in (10..).zip(said) {
        writer.append(stream, at, bytes).expect("the disk takes it");
    }
    let read = all(&path, 0);
    let words: Vec<_> = read.iter().map(|one| (one.stream, one.bytes.as_slice())).collect();
    assert_eq!(words, said);
    assert_eq!(read.iter().map(|one| one.at).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    assert_eq!(all(&path, read[1].next_offset), read[2..]);
    assert_eq!(read[4].next_offset, writer.end());
}

#[test]
fn a_reader_at_the_end_goes_on_when_there_is_more() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is made");
    let mut reader = Reader::open(&path, 0).expect("it is there");
    assert!(reader.next().is_none());
    writer.append(Stream::Out, 1, b"a").expect("the disk takes it");
    assert_eq!(reader.next().expect("more").expect("whole").bytes, b"a");
    assert!(reader.next().is_none());
    writer.append(Stream::Out, 2, b"b").expect("the disk takes it");
    assert_eq!(reader.next().expect("more").expect("whole").bytes, b"b");
}

#[test]
fn a_torn_tail_is_not_read_and_is_cut_off_by_the_next_writer() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is made");
    writer.append(Stream::Out, 1, b"whole").expect("the disk takes it");
    let whole = writer.end();
    writer.append(Stream::Out, 2, b"torn to pieces").expect("the disk takes it");
    let end = writer.end();
    drop(writer);
    let file = segment(&path, 0);
    let bytes = fs::read(&file).expect("it is there");
    for length in whole..end {
        let length = usize::try_from(length).expect("small");
        fs::write(&file, &bytes[..length]).expect("it is cut");
        assert_eq!(all(&path, 0).len(), 1, "cut at {length}");
        let mut writer = Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is opened again");
        assert_eq!(writer.end(), whole);
        writer.append(Stream::Err, 3, b"again").expect("the disk takes it");
        assert_eq!(all(&path, 0).len(), 2);
    }
}

#[test]
fn what_a_power_cut_left_of_a_record_is_never_taken_for_one() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is made");
    writer.append(Stream::Out, 1, b"whole").expect("the disk takes it");
    let whole = writer.end();
    let mut file = OpenOptions::new().append(true).open(segment(&path, 0)).expect("it is there");
    file.write_all(&[0; 64]).expect("the disk takes it");
    let mut reader = Reader::open(&path, 0).expect("it is there");
    assert!(reader.next().is_some_and(|record| record.is_ok()));
    let damage = reader.next().expect("something is there").expect_err("it is no record");
    assert_eq!(damage.kind(), io::ErrorKind::InvalidData);
    assert_eq!(Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is cut").end(), whole);
}

#[test]
fn every_flipped_bit_is_seen() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_USUAL).expect("it is made");
    writer.append(Stream::Out, 1, b"some words").expect("the disk takes it");
    writer.append(Stream::Out, 2, b"and more").expect("the disk takes it");
    let file = segment(&path, 0);
    let bytes = fs::read(&file).expect("it is there");
    let good = all(&path, 0);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &flipped).expect("it is written");
        let read = Reader::open(&path, 0).expect("it is there").map_while(Result::ok);
        for (read, good) in read.zip(&good) {
            assert_eq!(&read, good, "bit {bit}");
        }
    }
}

#[test]
fn a_full_spool_drops_its_oldest_segment_and_says_how_much() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_MIN).expect("it is made");
    let piece = vec![b'x'; RECORD_BYTES_MAX];
    for at in 0..100 {
        writer.append(Stream::Out, at, &piece).expect("the disk takes it");
        let size: u64 = segments(&path)
            .expect("it is there")
            .iter()
            .map(|start| fs::metadata(segment(&path, *start)).expect("it is there").len())
            .sum();
        assert!(size <= SPOOL_BYTES_MIN, "{size}");
    }
    let mut reader = Reader::open(&path, 0).expect("it is there");
    let first = reader.next().expect("something is left").expect("it is whole");
    assert!(reader.missed() > 0);
    let mut dropped = 0;
    for record in all(&path, 0) {
        if let (Stream::Note, Some(Note::Dropped { bytes })) =
            (record.stream, Note::read(&record.bytes))
        {
            dropped += bytes;
        }
    }
    assert!(dropped > 0 && dropped <= reader.missed(), "{dropped}, {}", reader.missed());
    assert!(first.next_offset > reader.missed());
}

#[test]
fn a_reader_whose_segment_was_dropped_goes_on_with_the_oldest_and_counts_what_it_missed() {
    let (_folder, path) = spool();
    let mut writer = Writer::open(&path, SPOOL_BYTES_MIN).expect("it is made");
    let piece = vec![b'x'; RECORD_BYTES_MAX];
    let mut reader = Reader::open(&path, 0).expect("it is there");
    let mut numbers = vec![];
    for at in 0..200 {
        writer.append(Stream::Out, at, &piece).expect("the disk takes it");
        if at % 70 == 0 {
            let records = reader.by_ref().map(|record| record.expect("it is whole"));
            numbers.extend(records.filter(|one| one.stream == Stream::Out).map(|one| one.at));
        }
    }
    assert!(reader.missed() > 0);
    assert!(numbers.is_sorted() && numbers.contains(&0) && numbers.contains(&140), "{numbers:?}");
}

#[test]
fn lines_come_out_whole_wherever_the_stream_was_cut() {
    let text = b"one\n\ntwo two\nthree\xff\0\nrest";
    let mut chance = Chance::new(7);
    for _ in 0..200 {
        let mut lines = Lines::default();
        let (mut found, mut rest) = (vec![], &text[..]);
        while !rest.is_empty() {
            let size = 1 + usize::try_from(chance.below(6)).expect("small");
            let (head, tail) = rest.split_at(size.min(rest.len()));
            rest = tail;
            let record =
                Record { stream: Stream::Out, at: 1, bytes: head.to_vec(), next_offset: 0 };
            found.extend(lines.feed(&record));
        }
        found.extend(lines.rest(2));
        let words: Vec<_> = found.iter().map(|line| (line.bytes.as_slice(), line.cut)).collect();
        let expected: [(&[u8], bool); 5] = [
            (b"one", false),
            (b"", false),
            (b"two two", false),
            (b"three\xff\0", false),
            (b"rest", true),
        ];
        assert_eq!(words, expected);
    }
}

#[test]
fn a_line_without_end_comes_in_pieces() {
    let mut lines = Lines::default();
    let bytes = vec![b'x'; RECORD_BYTES_MAX];
    let record = Record { stream: Stream::Err, at: 1, bytes, next_offset: 0 };
    let fed = 3 * LINE_BYTES_MAX / RECORD_BYTES_MAX + 1;
    let mut found: Vec<_> = (0..fed).flat_map(|_| lines.feed(&record)).collect();
    assert!(found.iter().all(|line| line.cut && line.bytes.len() == LINE_BYTES_MAX));
    found.extend(lines.rest(2));
    assert_eq!(found.iter().map(|line| line.bytes.len()).sum::<usize>(), fed * RECORD_BYTES_MAX);
}
