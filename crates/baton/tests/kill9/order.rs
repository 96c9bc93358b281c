//! Whether everything that callers saw could have happened one after the other, in the order that
//! the server has kept.
//!
//! What was granted has one place in the history. The places must agree with time (what was answered
//! before something was asked comes before it), and what happened at each place must have been
//! allowed there: an attempt begins where there is none, and speaks while it lasts. What was refused
//! must have been refused with reason: the attempt had ended by then, and nobody hears it again.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::{Fenced, Kept, Seen, What};

/// Where everything is.
struct Places<'a> {
    words: BTreeMap<&'a str, Vec<u64>>,
    claims: BTreeMap<(&'a str, u64), Vec<u64>>,
    ends: BTreeMap<(&'a str, u64), End>,
}

/// Where an attempt ended.
struct End {
    place: u64,
    /// Whether its time had run out: then it is over from that moment on, though the entry that says
    /// so comes with the next sweep.
    lapsed: bool,
}

/// Everything that is wrong.
pub fn faults(seen: &[Seen], fenced: &[Fenced], kept: &[Kept]) -> Vec<String> {
    let places = Places::of(kept);
    let mut faults = dense(kept);
    faults.extend(one_holder(kept));
    let mut placed = vec![];
    for one in seen {
        match places.of_seen(one) {
            [only] if *only <= one.as_of => placed.push((one, *only)),
            found => faults.push(format!("{one:?} is kept at {found:?}")),
        }
    }
    let after = After::of(&placed);
    for (one, place) in &placed {
        if after.first(one.returned).is_some_and(|first| first <= *place) {
            faults.push(format!("{one:?} at {place} comes after something that was asked later"));
        }
        if let What::Said(attempt, _) = &one.what
            && places.ends.get(&(one.task.as_str(), *attempt)).is_some_and(|end| *place > end.place)
        {
            faults.push(format!("{one:?} came after the end of its attempt"));
        }
    }
    for one in fenced {
        let Some(end) = places.ends.get(&(one.task.as_str(), one.attempt)) else {
            faults.push(format!("{one:?} was refused, and had not ended"));
            continue;
        };
        if !end.lapsed && after.first(one.returned).is_some_and(|first| first <= end.place) {
            faults.push(format!("{one:?} was refused before its end at {}", end.place));
        }
        let is_heard = |(later, _): &&(&Seen, u64)| {
            let speaks = matches!(&later.what, What::Said(attempt, _) if *attempt == one.attempt);
            speaks && later.task == one.task && later.invoked > one.returned
        };
        if let Some((later, _)) = placed.iter().find(is_heard) {
            faults.push(format!("{one:?} was refused, and heard afterwards: {later:?}"));
        }
    }
    faults
}

impl<'a> Places<'a> {
    fn of(kept: &'a [Kept]) -> Self {
        let (mut words, mut claims) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        let mut ends = BTreeMap::new();
        for entry in kept {
            for word in entry.text.split('"').filter(|word| word.starts_with("mark-")) {
                words.entry(word).or_default().push(entry.position);
            }
            for event in &entry.events {
                let key = (entry.task.as_str(), attempt(event));
                if event["event"] == "claimed" {
                    claims.entry(key).or_default().push(entry.position);
                }
                if event["event"] == "attempt_ended" {
                    let lapsed = event["outcome"] == "lost";
                    ends.insert(key, End { place: entry.position, lapsed });
                }
            }
        }
        Self { words, claims, ends }
    }

    fn of_seen<'b>(&'b self, one: &'b Seen) -> &'b [u64] {
        let found = match &one.what {
            What::Made(mark) | What::Said(_, mark) => self.words.get(mark.as_str()),
            What::Claimed(attempt) => self.claims.get(&(one.task.as_str(), *attempt)),
        };
        found.map_or(&[], Vec::as_slice)
    }
}

/// The first place of whatever was asked after a moment.
struct After(Vec<(u64, u64)>);

impl After {
    fn of(placed: &[(&Seen, u64)]) -> Self {
        let mut rows: Vec<_> = placed.iter().map(|(one, place)| (one.invoked, *place)).collect();
        rows.sort_unstable();
        let mut first = u64::MAX;
        for (_, place) in rows.iter_mut().rev() {
            first = first.min(*place);
            *place = first;
        }
        Self(rows)
    }

    fn first(&self, moment: u64) -> Option<u64> {
        let at = self.0.partition_point(|(invoked, _)| *invoked <= moment);
        self.0.get(at).map(|(_, first)| *first)
    }
}

fn attempt(event: &Value) -> u64 {
    event["attempt"].as_u64().unwrap_or(0)
}

fn dense(kept: &[Kept]) -> Vec<String> {
    let gap = |pair: &&[Kept]| pair[1].position != pair[0].position + 1;
    let told = |pair: &[Kept]| format!("after {} comes {}", pair[0].position, pair[1].position);
    kept.windows(2).filter(gap).map(told).collect()
}

/// No attempt begins before the one before it has ended, and none has a number of before.
fn one_holder(kept: &[Kept]) -> Vec<String> {
    let mut holders: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    let mut faults = vec![];
    for entry in kept {
        for event in &entry.events {
            let number = attempt(event);
            let (last, held) = holders.entry(&entry.task).or_default();
            if event["event"] == "claimed" {
                if *held || number != *last + 1 {
                    faults.push(format!("{} had {last} and then {number}", entry.task));
                }
                (*last, *held) = (number, true);
            }
            if event["event"] == "attempt_ended" {
                *held = false;
            }
        }
    }
    faults
}
