//! Every I/O in turn fails: nothing that was answered is lost, nothing is half done, nothing
//! happens twice, and the store says truly what it knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_domain::time::Millis;
use baton_store::clock::ManualClock;
use baton_store::order::Order;
use baton_store::sqlite::SqliteStore;
use baton_store::{Certainty, Error, Store};
use baton_testkit::disk::{Disk, Fault, Image};
use baton_testkit::rounds;

use crate::caller::{CYCLE, Caller, doubled};
use crate::cast::{local, put, short_project};
use crate::oracle;
use crate::promise::{Acks, Timeline};
use crate::site::{ask, clock, done, open_on, options, wait};

/// Failures after which the fault is lifted, so that the day must come to its end.
const TRIES_MAX: u32 = 4;

/// How one day under a fault went.
#[derive(Debug, Default)]
struct Course {
    fired: u64,
    failures: u32,
    stops: u32,
    full: u32,
    unknown_happened: u32,
    unknown_did_not: u32,
    certain: u32,
    cuts: u64,
}

/// What is known of the present step of a caller.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Doubt {
    #[default]
    None,
    DidNotHappen,
    Unknown,
}

/// A disk with a store that has a project; every day begins from it.
fn base() -> Image {
    let disk = Disk::new(1);
    let store = open_on(&disk, options(&clock(), 1)).expect("a sound disk");
    done(&store, put(&local(), short_project()));
    drop(store);
    disk.image()
}

/// A day under one fault.
struct Day {
    disk: Disk,
    clock: Arc<ManualClock>,
    callers: Vec<(Caller, Doubt)>,
    acks: Acks,
    course: Course,
    is_full: Arc<AtomicBool>,
    lift: fn(&Disk),
    checkpoint_rows: usize,
}

impl Day {
    fn new(base: &Image, seed: u64, lift: fn(&Disk)) -> Self {
        let disk = base.mount(seed);
        let acks = Acks::on(&disk);
        let callers = ["ada", "bob"].map(|name| (Caller::new(name), Doubt::None)).into();
        let (course, is_full) = (Course::default(), Arc::default());
        Self { disk, clock: clock(), callers, acks, course, is_full, lift, checkpoint_rows: 25 }
    }

    fn fail(&mut self) {
        self.course.failures += 1;
        assert!(self.course.failures < 12 * TRIES_MAX, "no way out: {:?}", self.course);
        if self.course.failures == TRIES_MAX {
            (self.lift)(&self.disk);
            self.is_full.store(false, Ordering::Relaxed);
        }
    }

    /// Works until every caller has had its answers, starting the store again when it stopped.
    fn spend(&mut self) {
        while self.callers.iter().any(|(caller, _)| caller.step < CYCLE) {
            let mut options = options(&self.clock, 3);
            let is_full = Arc::clone(&self.is_full);
            let free = move || Some(if is_full.load(Ordering::Relaxed) { 0 } else { u64::MAX });
            options.free_bytes = Arc::new(free);
            options.checkpoint_rows = self.checkpoint_rows;
            match open_on(&self.disk, options) {
                Err(_) => self.fail(),
                Ok(store) => {
                    self.serve(&store);
                    // The program ends at the first fault, and the next one writes the log again.
                    self.disk.kill();
                    drop(store);
                    self.disk.rewrite("baton.db-wal");
                }
            }
        }
    }

    /// Lets the callers ask side by side until all are done or the store has stopped.
    fn serve(&mut self, store: &SqliteStore) {
        while self.callers.iter().any(|(caller, _)| caller.step < CYCLE) {
            self.clock.advance(Millis(300));
            let busy = self.callers.iter().enumerate().filter(|(_, (who, _))| who.step < CYCLE);
            let asked: Vec<(usize, Order)> = busy.map(|(at, (who, _))| (at, who.order())).collect();
            let submit = |(_, order): &(usize, Order)| store.submit(order.clone());
            let answers: Vec<_> = asked.iter().map(submit).collect();
            let swept = store.submit(Order::sweep(16));
            for ((at, order), answer) in asked.into_iter().zip(answers) {
                match wait(answer) {
                    Ok(committed) => self.happened(at, &order, &committed),
                    Err(error) => self.failed(at, &error),
                }
            }
            if let Err(error) = wait(swept) {
                self.note(&error);
            }
            if let Some(why) = store.fault() {
                self.stopped(store, &why);
                return;
            }
        }
    }

    fn happened(&mut self, at: usize, order: &Order, committed: &baton_store::Committed) {
        let (caller, doubt) = &mut self.callers[at];
        match std::mem::take(doubt) {
            Doubt::None => assert!(!committed.replayed, "{caller:?} asked for the first time"),
            Doubt::DidNotHappen => {
                assert!(!committed.replayed, "{caller:?} was told that it did not happen");
                self.course.certain += 1;
            }
            Doubt::Unknown if committed.replayed => self.course.unknown_happened += 1,
            Doubt::Unknown => self.course.unknown_did_not += u32::from(caller.is_keyed()),
        }
        self.acks.hear(order, committed);
        caller.heard(committed);
    }

    fn failed(&mut self, at: usize, error: &Error) {
        let (_, doubt) = &mut self.callers[at];
        match error.certainty() {
            Certainty::Unknown => *doubt = Doubt::Unknown,
            Certainty::DidNotHappen if *doubt == Doubt::None => *doubt = Doubt::DidNotHappen,
            Certainty::DidNotHappen => {}
        }
        self.note(error);
    }

    fn note(&mut self, error: &Error) {
        match error {
            Error::DiskFull => {
                self.course.full += 1;
                if self.course.failures < TRIES_MAX {
                    self.is_full.store(true, Ordering::Relaxed);
                }
                self.fail();
            }
            Error::Unknown(_) | Error::Stopped(_) => {}
            Error::Refused(_)
            | Error::KeyReused
            | Error::Overloaded
            | Error::CursorExpired { .. }
            | Error::Read(_)
            | Error::Internal(_) => panic!("{error:?} in {:?}", self.course),
        }
    }

    /// A stopped store says so, says why, and takes nothing more.
    fn stopped(&mut self, store: &SqliteStore, why: &str) {
        self.course.stops += 1;
        let refused = ask(store, self.callers[0].0.order());
        assert!(matches!(&refused, Err(Error::Stopped(told)) if told == why), "{refused:?}");
        let health = wait(store.health()).expect("a stopped store still tells how it is");
        assert_eq!(health.stopped.as_deref(), Some(why));
        self.fail();
    }

    /// Everything that was answered is there, now and after a power cut; nothing is there twice.
    fn judge(&mut self, told: &str) {
        self.disk.heal();
        let db = self.disk.image().open().expect("it opens");
        let story = || format!("{told}: {:?}\n{}", self.course, self.disk.story(usize::MAX));
        oracle::check(&db).unwrap_or_else(|fault| panic!("{fault}\n{}", story()));
        assert_eq!(doubled(&db).expect("it reads"), Vec::<String>::new(), "{}", story());
        let timeline = Timeline::of(&db);
        let mut promise = self.acks.promise();
        promise.up_to(self.acks.len());
        let found = timeline.inspect(&db, &promise);
        assert!(found.is_sound(), "{found:?} {}", story());
        let mut cuts = 0;
        for cut in self.disk.cut(7) {
            let db = cut.image.open().expect("it opens");
            let found = timeline.inspect(&db, &promise);
            assert!(found.is_sound(), "{found:?} {cut:?} {}", story());
            cuts += 1;
        }
        self.course.cuts += cuts;
    }

    /// The power may also go anywhere on the way.
    fn survey(&self, stride: usize) -> u64 {
        let timeline = Timeline::of(&self.disk.image().open().expect("it opens"));
        let (mut promise, mut cuts) = (self.acks.promise(), 0);
        for cut in self.disk.cuts(7).stride(stride) {
            promise.up_to(cut.acked);
            let db = cut.image.open().expect("it opens");
            let found = timeline.inspect(&db, &promise);
            assert!(found.is_sound(), "{found:?} {cut:?}\n{}", self.disk.story(cut.at));
            cuts += 1;
        }
        cuts
    }
}

/// Spends a day with the fault at every I/O, until one lies behind the end of the day.
fn everywhere(name: &str, fault: fn(u64) -> Fault, lift: fn(&Disk)) -> Course {
    let base = base();
    let (mut all, mut days) = (Course::default(), 0);
    for seed in 0..rounds(1) {
        for at in 1.. {
            let day = under(&base, seed, &format!("{name} at {at}"), fault(at), lift);
            if day.fired == 0 {
                break;
            }
            all.add(&day);
            days += 1;
        }
    }
    println!("{name}: {days} days, {all:?}");
    assert!(days > 100, "only {days} days met their fault");
    all
}

fn under(base: &Image, seed: u64, told: &str, fault: Fault, lift: fn(&Disk)) -> Course {
    let mut day = Day::new(base, seed, lift);
    let armed = day.disk.fault(fault);
    day.spend();
    day.course.fired = armed.fired();
    day.judge(told);
    day.course
}

impl Course {
    fn add(&mut self, day: &Self) {
        self.fired += day.fired;
        self.failures += day.failures;
        self.stops += day.stops;
        self.full += day.full;
        self.unknown_happened += day.unknown_happened;
        self.unknown_did_not += day.unknown_did_not;
        self.certain += day.certain;
        self.cuts += day.cuts;
    }
}
#[test]
fn one_failed_io_anywhere_loses_and_doubles_nothing() {
    let all = everywhere("EIO once", |at| Fault::EioOnce { at }, Disk::heal);
    assert!(all.stops > 0, "no fault reached the writer");
    assert!(all.unknown_happened > 0, "no unknown outcome had happened");
    assert!(all.unknown_did_not > 0, "no unknown outcome had not happened");
}

#[test]
fn a_disk_that_fails_from_anywhere_on_loses_and_doubles_nothing() {
    let all = everywhere("EIO sticky", |at| Fault::EioSticky { at }, Disk::heal);
    assert!(all.stops > 0, "no fault reached the writer");
}

#[test]
fn a_disk_that_is_full_from_anywhere_on_loses_nothing_and_stops_nothing() {
    for rewrites in [false, true] {
        let all = match rewrites {
            false => everywhere(
                "full, growing",
                |at| Fault::NoSpace { at, rewrites: false },
                Disk::free_space,
            ),
            true => everywhere(
                "full, any write",
                |at| Fault::NoSpace { at, rewrites: true },
                Disk::free_space,
            ),
        };
        assert!(all.full > 0 && all.certain > 0, "nobody was told that nothing happened: {all:?}");
        assert_eq!(all.stops, 0, "a full disk is survived without a restart");
    }
}

#[test]
fn a_failed_sync_loses_and_doubles_nothing() {
    let base = base();
    let (mut days, mut cuts) = (0, 0);
    for seed in 0..rounds(1) {
        for at in 1.. {
            let mut day = Day::new(&base, seed, Disk::heal);
            // A made-up disk tells one opener of a failed sync, a real one tells them all.
            day.checkpoint_rows = usize::MAX;
            let armed = day.disk.fault(Fault::SyncFails { at });
            day.spend();
            day.judge(&format!("failed sync {at}"));
            if armed.fired() == 0 {
                break;
            }
            days += 1;
            cuts += day.survey(7);
        }
    }
    println!("failed sync: {days} days, {cuts} cuts");
    assert!(days > 7 && cuts > 400, "only {days} days met their fault, {cuts} cuts");
}
