//! The merge train of the projects whose home this worker is: cars that have come, and trains that run.
//!
//! A car is an attempt without an agent. What it does is done by the train, beside the runtime; what is known of it is in
//! git, so that a worker that dies loses nothing: its cars are claimed again, and whoever has landed is seen to have.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::ids::{AttemptId, ProjectId};
use baton_domain::run::Death;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};

use crate::protocol::{Dispatch, Released, Stopped, Up};
use crate::shape::When;
use crate::train::BATCH_MAX;

use super::attempt::{self, WORDS_MAX, Word};
use super::{Live, NO_ROOM_REST, Sign, Worker};

use journey::Journey;

mod journey;

/// Cars that may be here at once: a batch that rides, and one that waits for it.
const CARS_MAX: u16 = 16;
const _: () = assert!(CARS_MAX as usize == 2 * BATCH_MAX);

/// Cars and trains.
pub(super) struct Yard {
    places: u16,
    /// Credits that the server has and has not used.
    promised: u16,
    waiting: BTreeMap<ProjectId, Vec<Car>>,
    running: BTreeSet<ProjectId>,
    trains: JoinSet<(ProjectId, Vec<AttemptId>)>,
    riding: u16,
}

/// A car that has come, and what is said of it since.
pub(super) struct Car {
    pub(super) dispatch: Dispatch,
    pub(super) words: mpsc::Receiver<Word>,
}

impl Yard {
    /// Nobody is there; whoever ends after one run of an agent takes no cars.
    pub(super) fn new(once: bool) -> Self {
        Self {
            places: if once { 0 } else { CARS_MAX },
            promised: 0,
            waiting: BTreeMap::new(),
            running: BTreeSet::new(),
            trains: JoinSet::new(),
            riding: 0,
        }
    }

    /// A server that comes, or comes again, was promised nothing.
    pub(super) fn forget_promises(&mut self) {
        self.promised = 0;
    }

    /// How much more room can be promised, which is promised with this.
    pub(super) fn promise(&mut self) -> u16 {
        let waiting: usize = self.waiting.values().map(Vec::len).sum();
        let taken = self.riding.saturating_add(u16::try_from(waiting).unwrap_or(u16::MAX));
        let more = self.places.saturating_sub(taken).saturating_sub(self.promised);
        self.promised += more;
        more
    }

    /// Whether nothing rides or waits.
    pub(super) fn is_empty(&self) -> bool {
        self.trains.is_empty() && self.waiting.is_empty()
    }

    /// The next train that has come to its end.
    pub(super) async fn arrived(&mut self) -> Option<(ProjectId, Vec<AttemptId>)> {
        loop {
            match self.trains.join_next().await {
                Some(Ok(over)) => return Some(over),
                Some(Err(error)) => {
                    tracing::error!(%error, "a train broke: its cars are left to their leases")
                }
                None => return std::future::pending().await,
            }
        }
    }
}

impl<T: FnMut(Sign) + Send> Worker<T> {
    /// A car has come.
    pub(super) fn couple(&mut self, dispatch: Dispatch) {
        let attempt = dispatch.attempt;
        self.yard.promised = self.yard.promised.saturating_sub(1);
        if self.whose.is_none() || self.draining {
            return self.uncouple(attempt, "the worker is about to end", None);
        }
        let (words, heard) = mpsc::channel(WORDS_MAX);
        let lease_ms = dispatch.lease_ms;
        self.live.insert(attempt, Live { words, lease_ms, fenced: false });
        let project = dispatch.project.clone();
        self.yard.waiting.entry(project).or_default().push(Car { dispatch, words: heard });
        self.beat();
        self.depart();
    }

    /// Lets trains go that wait for nobody.
    pub(super) fn depart(&mut self) {
        let Some(whose) = self.whose.clone() else { return };
        let idle = |project: &&ProjectId| !self.yard.running.contains(*project);
        let ready: Vec<_> = self.yard.waiting.keys().filter(idle).cloned().collect();
        for project in ready {
            let Some(cars) = self.yard.waiting.remove(&project) else { continue };
            let riding = u16::try_from(cars.len()).unwrap_or(u16::MAX);
            self.yard.riding = self.yard.riding.saturating_add(riding);
            self.yard.running.insert(project.clone());
            let attempts: Vec<_> = cars.iter().map(|car| car.dispatch.attempt).collect();
            let journey = Journey {
                premises: self.premises.clone(),
                whose: whose.clone(),
                link: self.link.clone(),
            };
            self.yard.trains.spawn(async move {
                let run = spawn_blocking(move || journey.run(cars));
                if let Err(error) = run.await {
                    tracing::error!(%error, "a train broke: its cars are left to their leases");
                }
                (project, attempts)
            });
        }
    }

    /// A train has come to its end: everything was told.
    pub(super) async fn arrived(&mut self, (project, attempts): (ProjectId, Vec<AttemptId>)) {
        self.yard.running.remove(&project);
        let count = u16::try_from(attempts.len()).unwrap_or(u16::MAX);
        self.yard.riding = self.yard.riding.saturating_sub(count);
        for attempt in attempts {
            self.live.remove(&attempt);
            self.settling.insert(attempt);
        }
        self.settle().await;
        self.depart();
        self.give_room();
    }

    fn uncouple(&mut self, attempt: AttemptId, why: &str, until: Option<When>) {
        for frame in given_back(attempt, why, until) {
            if let Err(error) = self.link.tell(frame) {
                tracing::error!(%attempt, %error, "a car could not be given back");
            }
        }
        self.settling.insert(attempt);
    }
}

/// What is told of an attempt of which nothing was begun, or nothing is certain.
pub(super) fn given_back(attempt: AttemptId, why: &str, until: Option<When>) -> [Up; 2] {
    let (death, survivor) = (Death::NotStarted, false);
    let until = until.or_else(|| Some(When(attempt::wall() + NO_ROOM_REST)));
    [
        Released { attempt, seq: 0, reason: attempt::reason(why), until }.into(),
        Stopped { attempt, seq: 0, death, survivor }.into(),
    ]
}
