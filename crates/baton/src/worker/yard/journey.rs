//! One train of one project, from the cars that have come to what became of each. All of this blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_domain::contract::Contract;
use baton_domain::ids::{AttemptId, Commit, StageName};
use baton_domain::text::{Line, Reason};
use baton_domain::time::Timestamp;
use tokio::runtime::Handle;

use crate::clock::boot_ms;
use crate::contract::{Asked, FILE, FILE_BYTES_MAX, SCHEMA_BYTES_MAX};
use crate::gates::{self, Job};
use crate::protocol::{Arrived, Dispatch, Merged, Standing};
use crate::train::{self, Arrival, Gated, Stations, Track};
use crate::worktree::{self, Depot, Git, House, Oid, Repository, Work, task_branch};

use super::super::attempt::{self, Word};
use super::super::course::{At, Said};
use super::super::link::Link;
use super::super::prepare::{Premises, Whose};
use super::{Car, given_back};

/// Bytes of what a gate said at its end that are told.
const TAIL_BYTES_MAX: usize = 1_200;

/// A train, before it has gone.
pub(super) struct Journey {
    pub(super) premises: Arc<Premises>,
    pub(super) whose: Whose,
    pub(super) link: Link,
}

/// Where a train stops: gates, the server's word, and the end.
struct Stops<'a> {
    journey: &'a Journey,
    depot: &'a Depot,
    repository: &'a Repository,
    house: &'a House,
    branch: &'a str,
    stage: StageName,
    /// What was said of cars that are not told of yet.
    cars: BTreeMap<AttemptId, Riding>,
}

struct Riding {
    car: Car,
    held: bool,
    gone: bool,
    until: At,
}

impl Journey {
    /// Brings cars to their end. Whatever nobody could tell of is given back.
    pub(super) fn run(&self, cars: Vec<Car>) {
        let mut left: BTreeMap<AttemptId, Riding> = BTreeMap::new();
        for car in cars {
            let until = At(boot_ms()).plus(car.dispatch.lease_ms / 3 * 2);
            left.insert(car.dispatch.attempt, Riding { car, held: false, gone: false, until });
        }
        let why = match self.ride(&mut left) {
            Ok(()) => "the train has stopped on its way".to_owned(),
            Err(why) => why,
        };
        for attempt in left.into_keys() {
            tracing::warn!(%attempt, why, "a car is given back");
            self.give_back(attempt, &why);
        }
    }

    fn give_back(&self, attempt: AttemptId, why: &str) {
        for frame in given_back(attempt, why, None) {
            self.tell(attempt, frame);
        }
    }

    fn tell(&self, attempt: AttemptId, frame: impl Into<crate::protocol::Up>) {
        if let Err(error) = self.link.tell(frame) {
            tracing::error!(%attempt, %error, "what became of a car could not be told");
        }
    }

    fn ride(&self, cars: &mut BTreeMap<AttemptId, Riding>) -> Result<(), String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let Some(first) = cars.values().next().map(|one| one.car.dispatch.clone()) else {
            return Ok(());
        };
        let root = self.premises.root(&first);
        let root = root.ok_or_else(|| "the project has no folder on this machine".to_owned())?;
        let git = Git::find(&self.premises.found.programs).map_err(|error| told(&error))?;
        let repository = Repository::at(&git, &root).map_err(|error| told(&error))?;
        let house = House::new(&self.premises.data, &self.whose.deployment, &git);
        let branch = target(&repository, &first).map_err(|error| told(&error))?;
        let tip = repository.resolve(&branch).map_err(|error| told(&error))?;
        let whose = (&self.whose.tenant, &first.project);
        house.has_base(whose, Some(&repository), &tip).map_err(|error| told(&error))?;
        let depot = house.depot(whose.0, whose.1).ok_or_else(|| "there is no depot".to_owned())?;
        let mut riding = vec![];
        for one in cars.values() {
            let dispatch = &one.car.dispatch;
            let work = self.premises.work_to_land(&self.whose, dispatch, &house, &repository);
            match work.map_err(|error| told(&error))? {
                Some(work) => riding.push(car(dispatch, work)),
                // Nobody kept anything of it: there is nothing to merge.
                None => riding.push(car(dispatch, Work { head: tip.clone(), base: tip.clone() })),
            }
        }
        for one in &riding {
            self.show(&repository, &depot, one);
        }
        let track = Track {
            depot: &depot,
            repository: &repository,
            deployment: &self.whose.deployment,
            branch: branch.clone(),
        };
        let mut stops = Stops {
            journey: self,
            depot: &depot,
            repository: &repository,
            house: &house,
            branch: &branch,
            stage: first.stage.clone(),
            cars: std::mem::take(cars),
        };
        let ran = track.run(riding, &mut stops);
        *cars = stops.cars;
        let train::Ran { landed, gates } = ran.map_err(|error| told(&error))?;
        tracing::info!(project = %first.project, landed, gates, "a train has arrived");
        let push = first.landing.as_ref().and_then(|ticket| ticket.push.as_ref());
        if let Some(remote) = push.filter(|_| landed > 0) {
            let variables = &self.premises.found.variables;
            // What was not pushed now is pushed with what lands next.
            if let Err(error) = repository.push(remote.as_str(), &branch, variables) {
                tracing::warn!(%error, remote = remote.as_str(), "what has landed was not pushed");
            }
        }
        Ok(())
    }

    /// Lets people see the work where they look for it: the branch of the task, which only its home moves.
    fn show(&self, repository: &Repository, depot: &Depot, car: &train::Car) {
        let branch = task_branch(&self.whose.deployment, &self.whose.tenant, car.attempt.task);
        let Work { head, base } = &car.work;
        let moved = repository.branch_at(&branch).and_then(|found| {
            repository.advance(depot, &branch, found.as_ref(), head, std::slice::from_ref(base))
        });
        if let Err(error) = moved {
            tracing::warn!(%error, "the branch of a task could not be moved");
        }
    }
}

/// The whole name of the branch that work lands on.
fn target(repository: &Repository, dispatch: &Dispatch) -> Result<String, worktree::Error> {
    let named = dispatch.landing.as_ref().and_then(|ticket| ticket.target.as_ref());
    let name = match named {
        Some(name) => Some(name.to_string()),
        None => repository.branch()?,
    };
    let none = || worktree::Error::NoCommit("HEAD (no branch is checked out)".to_owned());
    Ok(format!("refs/heads/{}", name.ok_or_else(none)?.trim_start_matches("refs/heads/")))
}

fn car(dispatch: &Dispatch, work: Work) -> train::Car {
    let subject = dispatch.landing.as_ref().map(|ticket| ticket.subject.to_string());
    train::Car {
        attempt: dispatch.attempt,
        run: dispatch.run.to_string(),
        subject: subject.unwrap_or_else(|| format!("merge: {}", dispatch.attempt.task)),
        work,
    }
}

impl Stops<'_> {
    /// What the target branch asks for now, as the commands that check it.
    fn checks(&self) -> Result<Vec<gates::Check>, String> {
        let tip = self.repository.resolve(self.branch).map_err(|error| error.to_string())?;
        let files = self.repository.files(&tip).map_err(|error| error.to_string())?;
        let file = files.read(FILE, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
        let Some(bytes) = file else { return Ok(vec![]) };
        let schema = |path: &str| files.read(path, SCHEMA_BYTES_MAX).ok().flatten();
        let asked = Asked::read(&bytes, &schema).map_err(|error| error.to_string())?;
        let whole = asked.merged(Some(&self.stage), &Contract::default());
        Ok(gates::checks(&whole.map_err(|error| error.to_string())?.contract))
    }

    fn landed(&self, car: &train::Car) {
        let whose = &self.journey.whose;
        let branch = task_branch(&whose.deployment, &whose.tenant, car.attempt.task);
        let gone = self.repository.drop_branch(&branch, &car.work.head);
        let pruned = self.house.prune(Some((&whose.tenant, car.attempt.task)), true);
        for error in [gone.err(), pruned.err()].into_iter().flatten() {
            tracing::warn!(%error, "what a task leaves behind could not be cleared away");
        }
    }
}

impl Stations for Stops<'_> {
    fn gate(&mut self, commit: &Oid) -> Result<Gated, String> {
        let checks = self.checks()?;
        if checks.is_empty() {
            return Ok(Gated::Green(vec![]));
        }
        let first = self.cars.values().next();
        let first = first.ok_or_else(|| "nobody rides any more".to_owned())?;
        let dispatch = &first.car.dispatch;
        let job = Job {
            tenant: self.journey.whose.tenant.clone(),
            run: dispatch.run,
            attempt: dispatch.attempt,
            commit: commit.clone(),
            checks,
        };
        let rooms = self.journey.premises.rooms(&self.journey.whose, dispatch);
        let found = rooms.check(self.depot, job, std::future::pending());
        let found = Handle::current().block_on(found).map_err(|error| error.to_string())?;
        let mut said = String::new();
        for one in found.checked.iter().filter(|one| !one.ended.holds()) {
            let log = std::fs::read(&one.log.path).unwrap_or_default();
            let text = String::from_utf8_lossy(&log).into_owned();
            let from = text.len().saturating_sub(TAIL_BYTES_MAX);
            let tail = &text[text.ceil_char_boundary(from)..];
            said.push_str(&format!("gate {}: {}\n{tail}\n", one.line, one.ended));
        }
        Ok(match said.is_empty() {
            true => Gated::Green(vec![]),
            false => Gated::Red { receipts: vec![], said },
        })
    }

    fn rides(&mut self, car: &train::Car) -> bool {
        self.cars.get_mut(&car.attempt).is_some_and(Riding::rides)
    }

    fn arrives(&mut self, car: &train::Car, arrival: Arrival) {
        let attempt = car.attempt;
        if self.cars.remove(&attempt).is_none() {
            return;
        }
        let onto = Line::new("onto", self.branch).ok();
        let frame =
            |how| Merged { attempt, seq: 0, how, commit: None, onto, unfit: None, reason: None };
        let worded = |reason: &str| Some(attempt::reason(reason));
        let frame = match arrival {
            Arrival::Landed { commit, .. } => {
                self.landed(car);
                let commit = Commit::new(commit.as_str()).ok();
                Merged { commit, ..frame(Arrived::Landed) }
            }
            Arrival::Unfit { kind, reason, .. } => {
                let reason: Option<Reason> = worded(&reason);
                Merged { unfit: Some(kind), reason, ..frame(Arrived::Unfit) }
            }
            Arrival::Waits { reason } => {
                Merged { reason: worded(&reason), ..frame(Arrived::Waits) }
            }
            Arrival::SteppedOut => {
                return self.journey.give_back(attempt, "somebody holds its task");
            }
        };
        self.journey.tell(attempt, frame);
    }

    fn now(&self) -> Timestamp {
        attempt::wall()
    }
}

impl Riding {
    /// Hears what was said of it meanwhile, and whether it may still ride.
    fn rides(&mut self) -> bool {
        while let Ok(word) = self.car.words.try_recv() {
            match word {
                Word::Said(Said::Stands(how)) => self.held = how == Standing::Held,
                Word::Said(Said::Fenced(_) | Said::Cancel(_)) | Word::Drain => self.gone = true,
                Word::Said(Said::Answer { .. } | Said::Checkpointed)
                | Word::Listen { .. }
                | Word::Bound
                | Word::Check(_)
                | Word::Cut => {}
                Word::Renewed { until } => self.until = self.until.max(until),
            }
        }
        !self.held && !self.gone && At(boot_ms()) < self.until
    }
}
