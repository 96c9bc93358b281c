//! A database that is crashed, started again and cut off in the middle of commits, under callers who
//! never give up: what they were answered is there, once, and what they were not told is settled by
//! asking again under the same key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_domain::Refusal;
use baton_domain::command::Command;
use baton_domain::event::Event;
use baton_domain::ids::TaskId;
use baton_store::read::{About, Happened};
use baton_store::{Aim, Certainty, Committed, Entry, Error, Request};
use baton_testkit::chance::Chance;
use baton_testkit::postgres::{Cluster, Database, Disk};
use baton_testkit::rounds;
use tokio::sync::watch;

use crate::backend::Postgres;
use crate::words::{abandon, caller, checkpoint, complete, ready, solo, text};
use crate::world::World;

/// Who asks side by side.
const CALLERS: u64 = 24;
/// Crashes and cuts; T8 of the soak asks for thirty and more.
const FAULTS: u64 = 6;
/// Answers between two of them, at most.
const ANSWERS_BETWEEN: u64 = 120;

/// What all callers share.
struct Scene {
    world: World,
    /// How often the database came back.
    ups: watch::Receiver<u64>,
    stop: AtomicBool,
    answers: AtomicU64,
    unknown: AtomicU64,
    had_happened: AtomicU64,
}

/// What a caller was answered.
struct Answered {
    mark: String,
    task: TaskId,
    position: Option<u64>,
}

#[test]
fn slow_what_was_answered_survives_crashes_in_the_middle_of_commits() {
    let mut cluster = Cluster::start(Disk::Careful);
    let backend = Postgres::in_cluster(&cluster);
    let database = backend.database();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("threads are to be had").block_on(async {
        let world = World::begin(backend).await;
        let (up, ups) = watch::channel(0);
        let scene = Arc::new(Scene {
            world,
            ups,
            stop: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            had_happened: AtomicU64::new(0),
        });
        let callers: Vec<_> =
            (0..CALLERS).map(|number| tokio::spawn(work(Arc::clone(&scene), number))).collect();
        let witness = Arc::clone(&scene);
        let faults = tokio::task::spawn_blocking(move || {
            break_often(&mut cluster, &database, &witness, &up);
            witness.stop.store(true, Ordering::SeqCst);
            cluster
        });
        let cluster = faults.await.expect("the cluster starts again every time");
        let mut answered = vec![];
        for caller in callers {
            answered.extend(caller.await.expect("a caller meets nothing but refusals"));
        }
        check(&scene, &answered).await;
        drop(scene);
        drop(cluster);
    });
}

/// Crashes the database, kills one of its processes, or cuts all connections.
fn break_often(cluster: &mut Cluster, database: &Database, scene: &Scene, up: &watch::Sender<u64>) {
    let mut chance = Chance::new(8);
    for _ in 0..rounds(FAULTS) {
        let enough = scene.answers.load(Ordering::SeqCst) + 1 + chance.below(ANSWERS_BETWEEN);
        while scene.answers.load(Ordering::SeqCst) < enough {
            std::thread::yield_now();
        }
        match chance.below(4) {
            0 => database.end_connections(),
            1 => drop(database.kill_one_at_work()),
            _ => {
                cluster.crash();
                cluster.resume();
            }
        }
        database.wait_until_up();
        up.send_modify(|ups| *ups += 1);
    }
}

/// A caller, round after round, until it is told to stop between two.
async fn work(scene: Arc<Scene>, number: u64) -> Vec<Answered> {
    let name = format!("caller-{number}");
    let mut answered = vec![];
    let mut round = 0;
    while !scene.stop.load(Ordering::SeqCst) {
        round += 1;
        cycle(&scene, &name, round, &mut answered).await;
    }
    answered
}

/// A task, work on it, and its end.
async fn cycle(scene: &Scene, name: &str, round: u64, answered: &mut Vec<Answered>) {
    let mark = |what: &str| format!("mark-{name}-{round}-{what}");
    let birth = ready(&mark("birth"));
    let aim = Aim::Birth(birth.project.clone(), vec![Command::Create(Box::new(birth))]);
    let made = scene.must(name, &mark("birth"), aim).await.expect("nothing is wrong with it");
    let task = made.task.as_ref().expect("a birth is about a task").id;
    answered.push(Answered { mark: mark("birth"), task, position: made.position });
    let claim = Command::Claim(scene.world.wish(&solo(name)));
    let claimed = scene.must(name, &mark("claim"), Aim::Task(task, vec![claim])).await;
    let claimed = claimed.expect("nobody else claims by number");
    let attempt = claimed.lease.as_ref().expect("a claim gives a lease").attempt;
    let proof = || crate::world::as_caller(attempt, name);
    for what in ["first", "second"] {
        let says = Command::Agent(proof(), checkpoint(&mark(what)));
        let told = scene.must(name, &mark(what), Aim::Task(task, vec![says])).await;
        let told = told.expect("it holds the run");
        answered.push(Answered { mark: mark(what), task, position: told.position });
    }
    let end = match round % 3 {
        0 => Command::Person(abandon()),
        _ => Command::Agent(proof(), complete()),
    };
    scene.must(name, &mark("end"), Aim::Task(task, vec![end])).await.expect("it is still live");
}

impl Scene {
    /// Asks until there is an answer, always under the same key.
    async fn must(&self, name: &str, key: &str, aim: Aim) -> Result<Committed, Refusal> {
        let mut ups = self.ups.clone();
        let mut doubtful = false;
        loop {
            ups.mark_unchanged();
            let request = Request { key: text(key), fingerprint: [1; 32], asked_in: None };
            match self.world.order(caller(name), aim.clone(), Some(request)).await {
                Ok(committed) => {
                    assert!(
                        doubtful || !committed.replayed,
                        "{key} had happened, and was said not to have"
                    );
                    self.answers.fetch_add(1, Ordering::SeqCst);
                    self.unknown.fetch_add(u64::from(doubtful), Ordering::SeqCst);
                    self.had_happened.fetch_add(u64::from(committed.replayed), Ordering::SeqCst);
                    return Ok(committed);
                }
                Err(Error::Refused(refusal)) => return Err(refusal),
                Err(error) => {
                    doubtful |= error.certainty() == Certainty::Unknown;
                    // Down, or about to be: the next word comes when it is up again.
                    let up =
                        tokio::time::timeout(std::time::Duration::from_millis(200), ups.changed());
                    drop(up.await);
                }
            }
        }
    }
}

/// Everything that was answered is there, once; everything else at most once; the laws hold.
async fn check(scene: &Scene, answered: &[Answered]) {
    let entries = scene.world.entries().await;
    let mut places: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in &entries {
        for mark in marks(entry) {
            places.entry(mark).or_default().push(entry);
        }
    }
    let twice: Vec<_> =
        places.iter().filter(|(_, at)| at.len() > 1).map(|(mark, _)| mark).collect();
    assert!(twice.is_empty(), "happened twice: {twice:?}");
    for one in answered {
        let entry = places.get(&one.mark).and_then(|at| at.first());
        let entry = entry.unwrap_or_else(|| panic!("{} was answered and is gone", one.mark));
        let position = one.position.unwrap_or(entry.position);
        assert_eq!(entry.position, position, "{} is where it was said to be", one.mark);
        assert!(matches!(entry.about, About::Task(task, _) if task == one.task));
    }
    scene.world.check_laws().await;
    let audit = scene.world.store().audit().await.expect("it can be audited");
    assert_eq!(audit.fault, None);
    let (unknown, had) = (&scene.unknown, &scene.had_happened);
    let (unknown, had) = (unknown.load(Ordering::SeqCst), had.load(Ordering::SeqCst));
    println!("{} answers, {unknown} in doubt, {had} of which had happened", answered.len());
    assert!(unknown > 0, "too tame: no outcome was unknown");
    assert!(rounds(1) == 1 || (had > 0 && had < unknown), "too tame: doubts all went one way");
}

/// The words of callers in an entry.
fn marks(entry: &Entry) -> Vec<String> {
    let Happened::ToTask(events) = &entry.happened else { return vec![] };
    let of = |event: &Event| {
        let shown = format!("{event:?}");
        let words = shown.split('"').filter(|word| word.starts_with("mark-"));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut marks: Vec<_> = events.iter().flat_map(of).collect();
    marks.dedup();
    marks
}
