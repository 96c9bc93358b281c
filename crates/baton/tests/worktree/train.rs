//! The merge train, with real branches, real conflicts, real gates, and a process that is killed on its way.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use baton::points::{self, POINTS};
use baton::train::{Arrival, Car, Gated, Ran, Stations, Track, subject};
use baton::worktree::{Depot, Oid, Repository, Work};
use baton_domain::command::Unfit;
use baton_domain::ids::{AttemptId, TaskId};
use baton_domain::task::Kind;
use baton_domain::time::Timestamp;
use baton_testkit::child::{self, Child};

use super::world::{DEPLOYMENT, World, deployment, name, sh, tenant};

const TARGET: &str = "refs/heads/main";
/// What the gates of the project say: nothing that is called bad, and never left and right at once.
const GATE: &str = "! ls | grep -q '^bad' && ! { test -e left && test -e right; }";

/// A project whose branches wait, and a train for them.
struct Yard {
    _world: World,
    project: Repository,
    depot: Depot,
    cars: Vec<Car>,
}

/// The stations of the test: gates are run where nothing else is.
struct Signals {
    folder: PathBuf,
    held: Vec<u64>,
    told: BTreeMap<u64, Arrival>,
}

impl Stations for Signals {
    fn gate(&mut self, commit: &Oid) -> Result<Gated, String> {
        let room = tempfile::tempdir().expect("a folder");
        let room = room.path();
        sh(&self.folder, &format!("git archive {commit} | tar -x -C {}", room.display()));
        Ok(match is_green(room) {
            true => Gated::Green(vec![]),
            false => Gated::Red { receipts: vec![], said: "tests: exit 1".to_owned() },
        })
    }

    fn rides(&mut self, car: &Car) -> bool {
        !self.held.contains(&car.attempt.task.0)
    }

    fn arrives(&mut self, car: &Car, arrival: Arrival) {
        self.told.insert(car.attempt.task.0, arrival);
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000)
    }
}

fn is_green(room: &Path) -> bool {
    let gate = Command::new("sh").args(["-c", GATE]).current_dir(room).status();
    gate.expect("a shell").success()
}

impl Yard {
    /// So many branches. Of thirty, five cannot land: two fail their gates, one conflicts with the branch, one with
    /// another that comes before it, and one fails only together with another.
    fn new(world: World, count: u64) -> Self {
        let project = world.project();
        let root = project.root().to_path_buf();
        let prepared = world.prepare(&project);
        let depot = prepared.worktree.depot().expect("it is there");
        drop(prepared);
        let base = sh(&root, "git rev-parse main");
        if !sh(&root, "git branch --list task-1").is_empty() {
            return Self {
                cars: cars(&world, &project, &base, count),
                _world: world,
                project,
                depot,
            };
        }
        for number in 1..=count {
            let work = match number {
                4 | 11 => format!("echo x > bad-{number}"),
                17 => "echo theirs > b.txt".to_owned(),
                20 | 21 => format!("echo {number} > src/a.txt"),
                25 => "touch left".to_owned(),
                26 => "touch right".to_owned(),
                _ => format!("echo {number} > file-{number}"),
            };
            let commit = format!("git add -A && git commit -q -m 'work on {number}'");
            sh(&root, &format!("git checkout -q -b task-{number} {base} && {work} && {commit}"));
        }
        sh(&root, "git checkout -q main && echo ours > b.txt && git commit -q -am ours");
        Self { cars: cars(&world, &project, &base, count), _world: world, project, depot }
    }

    fn track<'a>(&'a self, own: &'a baton_domain::ids::DeploymentId) -> Track<'a> {
        Track {
            depot: &self.depot,
            repository: &self.project,
            deployment: own,
            branch: TARGET.to_owned(),
        }
    }

    fn signals(&self) -> Signals {
        // What is gated is in the depot, and nowhere else yet.
        let folder = self.depot.objects().parent().expect("it is in one").to_path_buf();
        Signals { folder, held: vec![], told: BTreeMap::new() }
    }

    fn run(&self, signals: &mut Signals) -> Ran {
        let own = deployment(DEPLOYMENT);
        self.track(&own).run(self.cars.clone(), signals).expect("it runs")
    }

    fn root(&self) -> &Path {
        self.project.root()
    }

    /// Every commit on the branch's own line is green, and its checkout is as the branch is.
    fn is_sound(&self) {
        for commit in sh(self.root(), "git rev-list --first-parent main").lines() {
            let room = tempfile::tempdir().expect("a folder");
            let into = room.path().display();
            sh(self.root(), &format!("git archive {commit} | tar -x -C {into}"));
            assert!(is_green(room.path()), "{commit} is not green");
        }
        assert_eq!(sh(self.root(), "git status --porcelain"), "", "the checkout went along");
        sh(self.root(), "git fsck --strict --no-dangling");
        let ours = sh(self.root(), "git for-each-ref --format='%(refname)' refs/baton/");
        assert!(!ours.contains("landing"), "{ours}");
    }
}

fn cars(world: &World, project: &Repository, base: &str, count: u64) -> Vec<Car> {
    let first = sh(project.root(), "git rev-list --max-parents=0 main");
    let base = if count > 0 { first } else { base.to_owned() };
    let whose = (&tenant(), &name());
    let car = |number| {
        let head = project.resolve(&format!("task-{number}")).expect("a commit");
        world.house.has_base(whose, Some(project), &head).expect("it is had");
        let task = TaskId(number);
        Car {
            attempt: AttemptId { task, number: 1 },
            run: format!("R-{number}.3"),
            subject: subject(Kind::Story, &format!("Number {number}"), task),
            work: Work { head, base: base.parse().expect("a commit") },
        }
    };
    (1..=count).map(car).collect()
}

fn landed(signals: &Signals) -> Vec<u64> {
    let landed = |(number, arrival): (&u64, &Arrival)| {
        matches!(arrival, Arrival::Landed { .. }).then_some(*number)
    };
    signals.told.iter().filter_map(landed).collect()
}

fn unfit(signals: &Signals) -> Vec<(u64, Unfit)> {
    let unfit = |(number, arrival): (&u64, &Arrival)| match arrival {
        Arrival::Unfit { kind, .. } => Some((*number, *kind)),
        Arrival::Landed { .. } | Arrival::Waits { .. } | Arrival::SteppedOut => None,
    };
    signals.told.iter().filter_map(unfit).collect()
}

const BAD: [(u64, Unfit); 5] = [
    (4, Unfit::Gates),
    (11, Unfit::Gates),
    (17, Unfit::Conflict),
    (21, Unfit::Conflict),
    (26, Unfit::Gates),
];

#[test]
fn of_thirty_branches_the_good_ones_land_and_the_bad_ones_come_back() {
    let yard = Yard::new(World::new(), 30);
    let mut signals = yard.signals();
    let ran = yard.run(&mut signals);
    assert_eq!(unfit(&signals), BAD);
    assert_eq!(landed(&signals).len(), 25);
    yard.is_sound();
    #[expect(clippy::cast_precision_loss, reason = "small numbers, for people")]
    let each = ran.gates as f64 / ran.landed as f64;
    println!("{} gate runs for {} branches that landed: {each:.2} each", ran.gates, ran.landed);
    assert!(ran.gates < 2 * ran.landed, "{ran:?}");
    let Some(Arrival::Unfit { reason, .. }) = signals.told.get(&21) else { panic!("it conflicts") };
    assert!(reason.contains("src/a.txt") && reason.contains("<<<<<<<"), "{reason}");
    let log = sh(yard.root(), "git log --format=%s main");
    assert!(log.contains("feat: Number 1 (T-1)"), "a changelog can be made of it: {log}");
    // Whoever comes again with what has landed is told the same, and nothing moves.
    let tip = sh(yard.root(), "git rev-parse main");
    let mut again = yard.signals();
    let ran = yard.run(&mut again);
    assert_eq!((landed(&again).len(), ran.landed), (25, 0));
    assert_eq!(sh(yard.root(), "git rev-parse main"), tip);
}

#[test]
fn nothing_moves_under_changes_of_the_owner() {
    let yard = Yard::new(World::new(), 2);
    let before = sh(yard.root(), "git rev-parse main");
    for change in ["echo mine > b.txt", "echo mine > new && git add new", "echo mine > file-1"] {
        sh(yard.root(), change);
        let mut signals = yard.signals();
        yard.run(&mut signals);
        assert_eq!(signals.told.len(), 2);
        for arrival in signals.told.values() {
            assert!(matches!(arrival, Arrival::Waits { .. }), "{change}: {arrival:?}");
        }
        assert_eq!(sh(yard.root(), "git rev-parse main"), before);
        assert!(sh(yard.root(), "git status --porcelain").contains(['M', 'A', '?']));
        sh(yard.root(), "git reset -q --hard && git clean -q -f -d");
    }
    // A checkout somewhere else is somebody else's.
    sh(yard.root(), "git checkout -q --detach && git worktree add -q ../elsewhere main");
    let mut signals = yard.signals();
    yard.run(&mut signals);
    assert!(signals.told.values().all(|one| matches!(one, Arrival::Waits { .. })));
    sh(yard.root(), "git worktree remove ../elsewhere");
    let mut signals = yard.signals();
    assert_eq!(yard.run(&mut signals).landed, 2, "nobody has it checked out");
    sh(yard.root(), "git checkout -q main");
    yard.is_sound();
}

#[test]
fn a_held_car_steps_out_and_the_others_go_on() {
    let yard = Yard::new(World::new(), 3);
    let mut signals = yard.signals();
    signals.held = vec![2];
    yard.run(&mut signals);
    assert_eq!(landed(&signals), [1, 3]);
    assert_eq!(signals.told.get(&2), Some(&Arrival::SteppedOut));
    yard.is_sound();
}

#[test]
fn a_branch_that_has_moved_is_pushed_where_its_owner_says() {
    let yard = Yard::new(World::new(), 2);
    sh(yard.root(), "git init -q --bare ../far.git && git remote add far ../far.git");
    sh(yard.root(), "printf '#!/bin/sh\\ntouch ../hooked\\n' > .git/hooks/pre-push");
    sh(yard.root(), "chmod +x .git/hooks/pre-push");
    yard.run(&mut yard.signals());
    let far = yard.root().parent().expect("it is in a folder").join("far.git");
    let path = far.display().to_string();
    sh(yard.root(), &format!("git remote set-url far {path}"));
    yard.project.push("far", TARGET, &BTreeMap::new()).expect("it is there");
    assert_eq!(sh(&far, "git rev-parse main"), sh(yard.root(), "git rev-parse main"));
    assert!(!far.with_file_name("hooked").exists(), "nothing of the repository was run");
    let refused = yard.project.push("--upload-pack=touch", TARGET, &BTreeMap::new());
    assert!(refused.is_err(), "a remote is a name");
}

#[test]
fn what_changes_nothing_is_no_car() {
    let mut yard = Yard::new(World::new(), 2);
    // The first one brings nothing beyond what it began from, the second one what is there already.
    yard.cars[0].work.head = yard.cars[0].work.base.clone();
    sh(yard.root(), "echo 2 > file-2 && git add -A && git commit -q -m same");
    let mut signals = yard.signals();
    yard.run(&mut signals);
    assert_eq!(unfit(&signals), [(1, Unfit::NoCommits), (2, Unfit::Empty)]);
}

/// Runs the train in a process that stands still at a place, kills it there, and lets another one go on.
fn killed_at(place: &str, name_of_this: &str, count: u64) {
    let kept = tempfile::tempdir().expect("a folder");
    let folder = kept.path().canonicalize().expect("it is there");
    let yard = Yard::new(World::at(folder.clone()), count);
    let signs = folder.join("points");
    fs::create_dir(&signs).expect("a folder");
    fs::write(signs.join("passed"), "").expect("a file");
    fs::write(signs.join("armed"), place).expect("a file");
    sh(&signs, "mkfifo bell");
    let (text, number) = (folder.display().to_string(), count.to_string());
    let child = Child::spawn(name_of_this, "TRAIN", &[&text, &number]);
    let bell = fs::File::open(signs.join("bell")).expect("somebody rings it");
    let mut line = String::new();
    BufReader::new(bell).read_line(&mut line).expect("a line");
    assert!(line.starts_with(place), "{line}");
    drop(child);
    let mut signals = yard.signals();
    yard.run(&mut signals);
    let bad: Vec<_> = BAD.into_iter().filter(|(number, _)| *number <= count).collect();
    assert_eq!(unfit(&signals), bad, "{place}");
    assert_eq!(landed(&signals).len() + bad.len(), yard.cars.len(), "{place}");
    yard.is_sound();
}

/// Whether this process is the one that is killed.
fn is_killed() -> bool {
    let Some(arguments) = child::role("TRAIN") else { return false };
    let folder = PathBuf::from(&arguments[0]);
    points::watch(Some(folder.join("points").into_os_string()));
    let yard = Yard::new(World::at(folder), arguments[1].parse().expect("a number"));
    let mut signals = yard.signals();
    yard.run(&mut signals);
    true
}

fn places() -> Vec<&'static str> {
    POINTS.iter().map(|point| point.word()).filter(|word| word.starts_with("train.")).collect()
}

#[test]
fn a_train_that_is_killed_at_any_step_goes_on() {
    if is_killed() {
        return;
    }
    for place in places() {
        killed_at(place, "train::a_train_that_is_killed_at_any_step_goes_on", 5);
    }
}

#[test]
fn slow_a_train_of_thirty_that_is_killed_at_any_step_goes_on() {
    if is_killed() {
        return;
    }
    for place in places() {
        killed_at(place, "train::slow_a_train_of_thirty_that_is_killed_at_any_step_goes_on", 30);
    }
}
