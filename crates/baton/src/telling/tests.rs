use std::collections::BTreeSet;

use baton_domain::channel::{Channel, Quiet, Way};
use baton_domain::ids::{ChannelName, Nonce, PrincipalId, TaskId};
use baton_domain::text::Text;
use baton_domain::time::{Millis, Timestamp};
use baton_domain::view::Need;

use super::{AT_ONCE_MAX, About, NOTICES_MAX, Progress, TRIES_MAX, is_quiet, zone};

/// 2026-03-01 12:00 in UTC.
const NOON: Timestamp = Timestamp(1_772_366_400_000);
const US: &str = "us";

fn channel() -> Channel {
    Channel {
        name: ChannelName::new("phone").expect("it is a name"),
        way: Way::Desktop,
        needs: BTreeSet::new(),
        done: false,
        delay: Millis(0),
        quiet: None,
        added_by: PrincipalId::new("ann").expect("it is a name"),
        nonce: Nonce(1),
    }
}

fn question(task: u64) -> About {
    About { task: TaskId(task), need: Some(Need::Question), since: Some(NOON) }
}

fn after(minutes: u64) -> Timestamp {
    NOON + Millis::minutes(minutes)
}

#[test]
fn something_is_told_once_for_as_long_as_it_stands() {
    let mut progress = Progress::default();
    progress.see(&[question(1)], vec![], 0, NOON);
    assert_eq!(progress.due(&channel(), US, NOON), [question(1)]);
    progress.tell(&question(1), NOON);
    progress.see(&[question(1)], vec![], 0, after(1));
    assert_eq!(progress.due(&channel(), US, after(1)), []);
    let again = About { since: Some(after(2)), ..question(1) };
    progress.see(std::slice::from_ref(&again), vec![], 0, after(2));
    assert_eq!(progress.due(&channel(), US, after(2)), [again], "another question is told");
}

#[test]
fn what_is_settled_within_the_delay_is_not_told() {
    let channel = Channel { delay: Millis::minutes(5), ..channel() };
    let mut progress = Progress::default();
    progress.see(&[question(1), question(2)], vec![], 0, NOON);
    assert_eq!(progress.due(&channel, US, after(4)), []);
    progress.see(&[question(2)], vec![], 0, after(4));
    assert_eq!(progress.due(&channel, US, after(5)), [question(2)]);
}

#[test]
fn at_night_nobody_is_told_by_the_clocks_of_the_place() {
    let berlin = Text::new("zone", "Europe/Berlin").expect("it is short");
    let quiet = Quiet { from: 22 * 60, to: 7 * 60, zone: berlin };
    let channel = Channel { quiet: Some(quiet.clone()), ..channel() };
    let mut progress = Progress::default();
    // 22:30 in Berlin, in winter.
    let night = after(9 * 60 + 30);
    progress.see(&[question(1)], vec![], 0, night);
    assert_eq!(progress.due(&channel, US, night), []);
    assert_eq!(progress.due(&channel, US, after(18 * 60 - 1)), [], "06:59 in Berlin");
    assert_eq!(progress.due(&channel, US, after(18 * 60)), [question(1)], "07:00 in Berlin");
    // The same hour of UTC is an hour later there in summer.
    let summer = Timestamp(1_782_936_000_000) + Millis::hours(8) + Millis::minutes(30);
    assert!(is_quiet(&quiet, summer), "22:30 in Berlin, 20:30 in UTC");
    assert!(zone("Middle/Earth").is_none());
}

#[test]
fn a_broken_channel_is_tried_ever_more_rarely_and_each_thing_only_so_often() {
    let mut progress = Progress::default();
    progress.see(&[question(1)], vec![], 0, NOON);
    let mut now = NOON;
    let mut pauses = vec![];
    for _ in 0..TRIES_MAX {
        assert_eq!(progress.due(&channel(), US, now), [question(1)]);
        progress.fail(&question(1), "nobody answers", now);
        let trouble = progress.trouble.clone().expect("it is broken");
        assert_eq!(progress.due(&channel(), US, now), [], "it waits");
        assert_eq!(trouble.since, NOON);
        pauses.push(trouble.next_at.since(now).0 / 1_000);
        now = trouble.next_at;
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
    assert_eq!(progress.due(&channel(), US, now), [], "it is given up");
    assert_eq!((progress.lost, progress.waiting()), (1, 0));
    assert!(progress.trouble.is_some(), "the channel is broken until something gets through");
    progress.see(&[question(1), question(2)], vec![], 0, now);
    progress.tell(&question(2), now);
    assert_eq!(progress.trouble, None);
}

#[test]
fn while_somebody_carries_it_on_nobody_else_does() {
    let mut progress = Progress::default();
    progress.see(&[question(1)], vec![], 0, NOON);
    progress.take("them", NOON);
    let read = Progress::read(&progress.text());
    assert_eq!(read, progress);
    assert_eq!(read.due(&channel(), US, NOON), []);
    assert_eq!(read.due(&channel(), "them", NOON), [question(1)]);
    assert_eq!(read.due(&channel(), US, after(5)), [question(1)], "they were killed meanwhile");
}

#[test]
fn what_is_done_is_told_once_and_forgotten() {
    let mut progress = Progress::from(7);
    let done = About { need: None, ..question(1) };
    progress.see(&[], vec![done.clone()], 9, NOON);
    progress.see(&[], vec![], 9, after(1));
    assert_eq!(progress.due(&channel(), US, after(1)), std::slice::from_ref(&done));
    progress.tell(&done, after(1));
    progress.see(&[], vec![], 9, after(2));
    assert_eq!((progress.notices.len(), progress.cursor, progress.told), (0, 9, 1));
}

#[test]
fn a_channel_remembers_only_so_much_and_tells_only_so_much_at_once() {
    let many: Vec<_> = (1..=NOTICES_MAX as u64 + 3).map(question).collect();
    let mut progress = Progress::default();
    progress.see(&many, vec![], 0, NOON);
    assert_eq!((progress.notices.len(), progress.lost), (NOTICES_MAX, 3));
    assert_eq!(progress.due(&channel(), US, NOON).len(), AT_ONCE_MAX);
    let bytes = progress.text().len();
    assert!(bytes <= baton_domain::limits::CHANNEL_PROGRESS_BYTES_MAX, "{bytes} bytes");
}
