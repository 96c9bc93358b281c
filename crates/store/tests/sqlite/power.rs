//! The power goes at every point of a day: what was answered is there, and nothing is half there.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_store::Store;
use baton_store::clock::ManualClock;
use baton_store::order::Order;
use baton_store::sqlite::Options;
use baton_testkit::disk::{Cut, Disk};
use baton_testkit::rounds;

use crate::cast::{project, put, tenant};
use crate::oracle;
use crate::promise::{Acks, Promise, Timeline, Verdict, work};
use crate::script::{Script, Tally};
use crate::site::{clock, done, open_on, options, wait};

/// Rounds of orders in one day.
const ROUNDS: usize = 16;

/// A disk on which a day was spent, and what was answered during it.
struct Day {
    disk: Disk,
    acks: Acks,
    tally: Tally,
    clock: Arc<ManualClock>,
}

/// How often each verdict was found.
#[derive(Debug, Default)]
struct Found {
    cuts: u64,
    lost: u64,
    half: u64,
    corrupt: u64,
    opened: u64,
    /// How many entries there were, each number once.
    lengths: BTreeSet<usize>,
}

fn day_options(clock: &Arc<ManualClock>, seed: u64, synchronous: &'static str) -> Options {
    let mut options = options(clock, seed).weakened(synchronous);
    options.checkpoint_rows = 60;
    options
}

/// Spends a day, with a clean restart in the middle of it.
fn spend(seed: u64, synchronous: &'static str) -> Day {
    let (disk, clock) = (Disk::new(seed), clock());
    let (mut acks, mut tally) = (Acks::on(&disk), Tally::default());
    let names = [tenant("local"), tenant("other")];
    let mut script = Script::new(seed, &names);
    for _ in 0..2 {
        let store = open_on(&disk, day_options(&clock, seed, synchronous)).expect("a sound disk");
        for name in &names {
            let order = put(name, project());
            acks.hear(&order, &done(&store, order.clone()));
        }
        script.look(&store);
        work(&store, &clock, &mut script, ROUNDS, (&mut acks, &mut tally));
    }
    Day { disk, acks, tally, clock }
}

impl Found {
    fn add(&mut self, verdict: &Verdict) {
        self.cuts += 1;
        match verdict {
            Verdict::Sound(entries) => drop(self.lengths.insert(*entries)),
            Verdict::Lost(_) => self.lost += 1,
            Verdict::Half(_) => self.half += 1,
            Verdict::Corrupt(_) => self.corrupt += 1,
        }
    }

    /// Lengths of the history that no cut left: what was committed in one go is there in one go.
    fn skipped(&self) -> usize {
        self.lengths.last().map_or(0, |last| last + 1 - self.lengths.len())
    }
}

/// A store that starts after the cut finds a sound chain and goes on where it was.
fn start_after(cut: &Cut, day: &Day, timeline: &Timeline, promise: &Promise<'_>) {
    let disk = cut.image.mount(cut.outcome);
    let store = open_on(&disk, day_options(&day.clock, 99, "FULL")).expect("it opens after a cut");
    let audit = wait(store.audit()).expect("it can be audited");
    assert_eq!(audit.fault, None, "{cut:?}");
    let db = disk.image().open().expect("it opens beside");
    let found = timeline.inspect(&db, promise);
    assert!(found.is_sound(), "{found:?} {cut:?}");
    // Whatever time and other tasks owe is made up for, and then there is nothing left to do.
    for _ in 0..50 {
        if !done(&store, Order::sweep(64)).swept.more {
            break;
        }
    }
    done(&store, put(&tenant("local"), project()));
    drop(store);
    let db = disk.image().open().expect("it opens");
    oracle::check(&db).unwrap_or_else(|fault| panic!("{fault}\n{cut:?}"));
    let owed = db.query_row("SELECT count(*) FROM reactions", [], |row| row.get::<_, i64>(0));
    assert_eq!(owed, Ok(0), "every reaction was carried out");
}

/// Looks at the cuts of a day; every `sample`-th is opened by a store, too.
fn survey(day: &Day, seed: u64, stride: usize, outcomes: u64, sample: Option<u64>) -> Found {
    let timeline = Timeline::of(&day.disk.image().open().expect("the day is over"));
    let mut promise = day.acks.promise();
    let mut found = Found::default();
    for cut in day.disk.cuts(seed).stride(stride).outcomes(outcomes) {
        promise.up_to(cut.acked);
        let verdict = match cut.image.open() {
            Ok(db) => timeline.inspect(&db, &promise),
            Err(error) => Verdict::Corrupt(error.to_string()),
        };
        found.add(&verdict);
        let Some(sample) = sample else { continue };
        let told = || format!("seed {seed}: {verdict:?} at {cut:?}\n{}", day.disk.story(cut.at));
        assert!(verdict.is_sound(), "{}", told());
        if found.cuts.is_multiple_of(sample) {
            start_after(&cut, day, &timeline, &promise);
            found.opened += 1;
        }
    }
    found
}

#[test]
fn a_power_cut_takes_nothing_that_was_answered_and_leaves_nothing_half_done() {
    let (mut cuts, mut opened, mut skipped) = (0, 0, 0);
    let mut tally = Tally::default();
    for seed in 0..rounds(8) {
        let day = spend(seed, "FULL");
        let found = survey(&day, seed, 1, rounds(4).min(10), Some(151));
        cuts += found.cuts;
        opened += found.opened;
        skipped += found.skipped();
        tally.add(&day.tally);
    }
    println!("FULL: {cuts} cuts, {opened} opened, {skipped} inside of batches, {tally:?}");
    let promised = if rounds(1) > 1 { 1_000_000 } else { 20_000 };
    assert!(cuts >= promised, "only {cuts} cuts were tried");
    assert!(skipped > 50, "hardly ever were two orders committed together");
    assert!(tally.is_full_day(), "not enough happened: {tally:?}");
}

#[test]
fn with_less_syncing_a_power_cut_takes_what_was_answered() {
    let found = survey(&spend(1, "NORMAL"), 1, 2, 4, None);
    println!("NORMAL: {} of {} cuts lost answers", found.lost, found.cuts);
    assert!(found.lost > 0, "the check overlooks lost answers");
    assert_eq!(found.half + found.corrupt, 0, "what is left is whole");
}
