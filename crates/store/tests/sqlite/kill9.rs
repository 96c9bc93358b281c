//! A process that writes is killed again and again in one folder: what it was answered is there,
//! once, and the next process goes on with the same request keys.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use baton_domain::decide;
use baton_store::Store;
use baton_store::order::Order;
use baton_store::sqlite::{Options, SqliteStore};
use baton_testkit::chance::Chance;
use baton_testkit::child::{self, Child, End};
use baton_testkit::rounds;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::caller::{CYCLE, Caller, doubled};
use crate::cast::{keyed, local, put, short_project};
use crate::oracle;
use crate::site::{ask, done, signing, wait};

const TEST: &str = "kill9::what_was_answered_survives_kill_9_and_nothing_happens_twice";
const WRITER: &str = "KILL9_WRITER";

/// Who asks side by side, so that orders are committed together.
const CALLERS: [&str; 6] = ["ada", "bob", "cid", "dan", "eve", "fay"];

fn open(folder: &Path, seed: u64) -> SqliteStore {
    let mut chance = Chance::new(seed);
    let fill = move |bytes: &mut [u8]| {
        bytes.chunks_mut(8).for_each(|piece| {
            piece.copy_from_slice(&chance.next_u64().to_be_bytes()[..piece.len()]);
        });
    };
    let mut options = Options::new(decide, Box::new(fill), folder);
    options.signing = Some(signing());
    options.checkpoint_rows = 60;
    SqliteStore::open(folder, options).expect("what a killed process left can be opened")
}

/// The child: every caller says what it will ask, and what it was answered, until it is killed.
fn write(folder: &Path, seed: u64, callers: Vec<Caller>) {
    child::say("opening");
    let store = open(folder, seed);
    done(&store, keyed(put(&local(), short_project()), "project"));
    std::thread::scope(|scope| {
        for caller in callers {
            scope.spawn(|| go_on(&store, caller));
        }
    });
}

fn go_on(store: &SqliteStore, mut caller: Caller) {
    loop {
        child::say(&format!("? {}", caller.line()));
        let committed =
            ask(store, caller.order()).unwrap_or_else(|error| panic!("{error:?} for {caller:?}"));
        caller.heard(&committed);
        child::say(&format!("= {}", caller.line()));
        if caller.step.is_multiple_of(CYCLE) {
            ask(store, Order::sweep(64)).expect("time passes");
            if caller.name == CALLERS[0] {
                wait(store.seal()).expect("a seal is written");
            }
        }
    }
}

/// What the parent knows: how far every caller is for certain, and who waits for an answer.
struct Witness {
    callers: BTreeMap<String, Caller>,
    asking: BTreeMap<String, Caller>,
    answers: u64,
    in_flight: u64,
    committed_unheard: u64,
}

impl Witness {
    fn new() -> Self {
        let callers = CALLERS.map(|name| (name.to_owned(), Caller::new(name))).into();
        let (asking, answers) = (BTreeMap::new(), 0);
        Self { callers, asking, answers, in_flight: 0, committed_unheard: 0 }
    }

    /// Learns from what a child said; gives the keys that were answered.
    fn hear(&mut self, lines: &[String]) -> Vec<String> {
        let mut keys = vec![];
        self.asking.clear();
        for line in lines {
            let Some((sign, rest)) = line.split_once(' ') else { continue };
            let caller = Caller::parse(rest).expect("a caller says how far it is");
            if sign == "?" {
                self.asking.insert(caller.name.clone(), caller);
                continue;
            }
            self.answers += 1;
            let asked = self.asking.remove(&caller.name).expect("it asked before");
            keys.extend(asked.is_keyed().then(|| asked.key()));
            self.callers.insert(caller.name.clone(), caller);
        }
        keys
    }

    /// Whoever still waited may or may not have been served.
    fn count_unheard(&mut self, kept: &HashSet<String>) {
        for caller in self.asking.values() {
            self.in_flight += 1;
            let committed = caller.is_keyed() && kept.contains(&caller.key());
            self.committed_unheard += u64::from(committed);
        }
    }

    /// Every answered request of every caller, from the first life on.
    fn all_keys(&self) -> impl Iterator<Item = String> {
        self.callers.values().flat_map(|caller| {
            let then = (0..caller.step).map(|step| caller.at(step));
            then.filter(Caller::is_keyed).map(|then| then.key())
        })
    }
}

fn look(folder: &Path) -> Connection {
    let db = Connection::open(folder.join("baton.db")).expect("it opens");
    // The next process is to find the log as the killed one left it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("a known setting");
    db
}

/// Every request key that the store knows, read at once: no index leads to a key alone.
fn kept(db: &Connection) -> HashSet<String> {
    let mut keys = db.prepare("SELECT key FROM requests").expect("it reads");
    let keys = keys.query_map([], |row| row.get(0)).expect("it reads");
    keys.collect::<Result<_, _>>().expect("keys are text")
}

/// Runs a child until it has said so many lines, or only until it begins to open the store.
fn live_and_die(folder: &Path, round: u64, witness: &Witness, chance: &mut Chance) -> End {
    let callers: Vec<_> = witness.callers.values().map(Caller::line).collect();
    let folder = folder.to_str().expect("a temporary folder has a plain name");
    let arguments = [folder, &round.to_string(), &callers.join(";")];
    let lines = if chance.chance(0.1) { 1 } else { 2 + chance.below(120) };
    let mut said = 0;
    let end = Child::spawn(TEST, WRITER, &arguments).kill_at(|_| {
        said += 1;
        said >= lines
    });
    assert!(end.killed, "the child ended by itself: {:?}", end.lines.last());
    end
}

#[test]
fn what_was_answered_survives_kill_9_and_nothing_happens_twice() {
    if let Some(arguments) = child::role(WRITER) {
        let callers = arguments[2].split(';').map(|line| Caller::parse(line).expect("a caller"));
        let seed = arguments[1].parse().expect("a number");
        return write(Path::new(&arguments[0]), seed, callers.collect());
    }
    outlive_kills(9);
}

/// A second history, beside the first one where there is a processor for it.
#[test]
fn what_was_answered_survives_kill_9_in_another_history() {
    outlive_kills(10);
}

fn outlive_kills(seed: u64) {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("store");
    let kills = if rounds(1) > 1 { 5_000 } else { 100 };
    let (mut witness, mut chance) = (Witness::new(), Chance::new(seed));
    for round in 1..=kills {
        let end = live_and_die(&folder, round, &witness, &mut chance);
        let answered = witness.hear(&end.lines);
        if witness.answers == 0 {
            continue;
        }
        let db = look(&folder);
        let kept = kept(&db);
        let lost: Vec<_> = answered.iter().filter(|key| !kept.contains(*key)).collect();
        assert!(lost.is_empty(), "kill {round} took {lost:?}");
        witness.count_unheard(&kept);
        if round % (kills / 4) == 0 {
            oracle::check(&db).unwrap_or_else(|fault| panic!("after kill {round}: {fault}"));
            assert_eq!(doubled(&db).expect("it reads"), Vec::<String>::new());
        }
    }
    println!(
        "{kills} kills, {} answers, {} orders in flight, {} of them committed",
        witness.answers, witness.in_flight, witness.committed_unheard
    );
    assert!(witness.in_flight > 0, "no kill met an order in flight");
    assert!(witness.committed_unheard > 0, "no kill came between a commit and its answer");
    let store = open(&folder, 0);
    let audit = wait(store.audit()).expect("it can be audited");
    assert_eq!(audit.fault, None);
    assert!(audit.seals > 0, "nothing was sealed");
    drop(store);
    let db = look(&folder);
    let kept = kept(&db);
    let lost: Vec<_> = witness.all_keys().filter(|key| !kept.contains(key)).collect();
    assert!(lost.is_empty(), "answered and gone: {lost:?}");
    oracle::check(&db).expect("the rows are what the entries add up to");
}
