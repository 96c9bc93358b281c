//! The merge train: verified work is brought onto the target branch, many pieces at once, by git alone.
//!
//! The cars of a batch are merged one after the other, and the gates run on what comes of all of them. If they
//! pass, the branch moves in one step, to a commit whose first parent is where the branch was: every commit on the
//! branch's own line has passed. If they fail, the batch is parted, until those are found that are to blame. What was
//! found of a tree is not asked again.
//!
//! Nothing is remembered but what git knows: a car that the branch holds has landed, whoever moved it.

use std::collections::BTreeMap;

use baton_domain::command::Unfit;
use baton_domain::contract::Receipt;
use baton_domain::ids::{AttemptId, DeploymentId};
use baton_domain::time::Timestamp;

use crate::points::{self, Point};
use crate::worktree::{self, Clash, Depot, Joined, Oid, Repository, Work};

use queue::Queue;
pub use subject::{landing, subject};

mod queue;
mod subject;

/// Cars that ride together: enough that gates are shared, few enough that one bad one is found in three steps.
pub const BATCH_MAX: usize = 8;
/// How often a batch is begun again because somebody else moved the branch meanwhile.
const MOVED_MAX: u32 = 8;
/// Bytes of what is told to whoever puts a car right.
const REASON_BYTES_MAX: usize = 2_000;

/// Work that waits to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Car {
    pub attempt: AttemptId,
    /// The run, as people write it.
    pub run: String,
    /// What the commit says that brings it.
    pub subject: String,
    pub work: Work,
}

/// What the gates found of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gated {
    /// Everything holds.
    Green(Vec<Receipt>),
    /// Something does not, and this is what a person or an agent should read of it.
    Red { receipts: Vec<Receipt>, said: String },
}

/// What became of a car.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The branch holds it, since this commit.
    Landed { commit: Oid, receipts: Vec<Receipt> },
    /// It cannot land as it is.
    Unfit { kind: Unfit, reason: String, receipts: Vec<Receipt> },
    /// The branch may not be moved now.
    Waits { reason: String },
    /// Somebody holds its task, or it is not ours any more.
    SteppedOut,
}

/// What the train asks of others.
pub trait Stations {
    /// Runs the gates on a commit.
    ///
    /// # Errors
    /// If nobody can tell what they find.
    fn gate(&mut self, commit: &Oid) -> Result<Gated, String>;

    /// Whether a car may still ride: nobody holds its task, and its lease lives.
    fn rides(&mut self, car: &Car) -> bool;

    /// What became of a car, as soon as that is certain.
    fn arrives(&mut self, car: &Car, arrival: Arrival);

    fn now(&self) -> Timestamp;
}

/// Where a train runs.
pub struct Track<'a> {
    pub depot: &'a Depot,
    pub repository: &'a Repository,
    pub deployment: &'a DeploymentId,
    /// The whole name of the target branch.
    pub branch: String,
}

/// A group of cars that were brought together.
struct Joint {
    commit: Oid,
    tree: Oid,
    riding: Vec<Car>,
    /// Those that only clash with others of the group: they come after these.
    later: Vec<Car>,
}

/// How far a group got.
enum Progress {
    Settled,
    Moved,
}

impl Track<'_> {
    /// Brings cars to their end.
    ///
    /// # Errors
    /// If git or the gates break: then cars that nothing was told of are as they were.
    pub fn run(&self, cars: Vec<Car>, stations: &mut dyn Stations) -> Result<Ran, Error> {
        self.repository.recover(self.depot, self.deployment, &self.branch)?;
        let mut queue = Queue::new(cars);
        let mut ran = Ran::default();
        let mut moved = 0;
        let mut seen = BTreeMap::new();
        while let Some(group) = queue.next() {
            match self.group(group.clone(), &mut queue, stations, &mut seen, &mut ran)? {
                Progress::Settled => moved = 0,
                Progress::Moved if moved < MOVED_MAX => {
                    moved += 1;
                    queue.again(group);
                }
                Progress::Moved => {
                    let reason = format!("{} is moved by somebody else over and over", self.branch);
                    for car in group {
                        stations.arrives(&car, Arrival::Waits { reason: reason.clone() });
                    }
                }
            }
        }
        Ok(ran)
    }

    fn group(
        &self,
        cars: Vec<Car>,
        queue: &mut Queue,
        stations: &mut dyn Stations,
        seen: &mut BTreeMap<Oid, Gated>,
        ran: &mut Ran,
    ) -> Result<Progress, Error> {
        let tip = self.depot.tip(self.repository, &self.branch)?;
        let cars = self.board(&tip, cars, stations)?;
        let Some(joint) = self.join(&tip, cars, stations)? else { return Ok(Progress::Settled) };
        points::pass(Point::BatchJoined);
        let gated = match seen.get(&joint.tree) {
            Some(known) => known.clone(),
            None => {
                ran.gates += 1;
                let found = stations.gate(&joint.commit).map_err(Error::Gates)?;
                seen.insert(joint.tree.clone(), found.clone());
                found
            }
        };
        points::pass(Point::BatchGated);
        let Joint { commit, riding, later, .. } = joint;
        match gated {
            Gated::Green(receipts) => {
                // A hold counts until the last moment; without its cars it is another tree.
                if !riding.iter().all(|car| stations.rides(car)) {
                    queue.after(later);
                    queue.first(riding);
                    return Ok(Progress::Settled);
                }
                let way = (self.branch.as_str(), &tip, &commit);
                match self.repository.land(self.depot, self.deployment, way) {
                    Ok(_) => {
                        points::pass(Point::CarsLanded);
                        ran.landed += riding.len();
                        for car in &riding {
                            let (commit, receipts) = (commit.clone(), receipts.clone());
                            stations.arrives(car, Arrival::Landed { commit, receipts });
                        }
                        queue.after(later);
                    }
                    Err(worktree::Error::BranchMoved { .. }) => return Ok(Progress::Moved),
                    Err(
                        error @ (worktree::Error::DirtyCheckout { .. }
                        | worktree::Error::CheckedOut { .. }),
                    ) => {
                        let reason = format!("{error}; next: {}", error.next());
                        for car in riding.iter().chain(&later) {
                            stations.arrives(car, Arrival::Waits { reason: reason.clone() });
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Gated::Red { receipts, said } => {
                queue.after(later);
                match &riding[..] {
                    [alone] => {
                        let reason = cut(&red(&self.branch, &tip, &said));
                        let arrival = Arrival::Unfit { kind: Unfit::Gates, reason, receipts };
                        stations.arrives(alone, arrival);
                    }
                    _ => queue.part(riding),
                }
            }
        }
        Ok(Progress::Settled)
    }

    /// Who of these has anything to bring, and has not brought it.
    fn board(
        &self,
        tip: &Oid,
        cars: Vec<Car>,
        stations: &mut dyn Stations,
    ) -> Result<Vec<Car>, Error> {
        let mut riding = vec![];
        for car in cars {
            if !stations.rides(&car) {
                stations.arrives(&car, Arrival::SteppedOut);
                continue;
            }
            let Work { head, base } = &car.work;
            if self.depot.holds(base, head)? {
                let reason = "there is no commit beyond the one that the task began from";
                let reason = reason.to_owned();
                let (kind, receipts) = (Unfit::NoCommits, vec![]);
                stations.arrives(&car, Arrival::Unfit { kind, reason, receipts });
            } else if self.depot.holds(tip, head)? {
                let commit = self.depot.landed_with(tip, head)?;
                stations.arrives(&car, Arrival::Landed { commit, receipts: vec![] });
            } else {
                riding.push(car);
            }
        }
        Ok(riding)
    }

    /// Brings cars together, one after the other; none if nobody rides.
    fn join(
        &self,
        tip: &Oid,
        cars: Vec<Car>,
        stations: &mut dyn Stations,
    ) -> Result<Option<Joint>, Error> {
        let (mut at, mut tree) = (tip.clone(), self.depot.files_of(tip)?);
        let (mut riding, mut later) = (vec![], vec![]);
        let now = stations.now();
        for car in cars {
            match self.depot.join(&at, &car.work.head)? {
                // Who has brought the same may not land.
                Joined::Tree(joined) if joined == tree && !riding.is_empty() => later.push(car),
                Joined::Tree(joined) if joined == tree => {
                    let reason = format!("merged into {}, it changes nothing", self.branch);
                    let (kind, receipts) = (Unfit::Empty, vec![]);
                    stations.arrives(&car, Arrival::Unfit { kind, reason, receipts });
                }
                Joined::Tree(joined) => {
                    let says = landing(&car);
                    at = self.depot.seal(&joined, &[&at, &car.work.head], &says, now)?;
                    tree = joined;
                    riding.push(car);
                }
                Joined::Clash(clash) if riding.is_empty() => {
                    let reason = cut(&clashes(&self.branch, tip, &clash));
                    let (kind, receipts) = (Unfit::Conflict, vec![]);
                    stations.arrives(&car, Arrival::Unfit { kind, reason, receipts });
                }
                // Whom it clashes with may not land: it is seen again once that is known.
                Joined::Clash(_) => later.push(car),
            }
        }
        let commit = match &riding[..] {
            [] => return Ok(None),
            [_] => at,
            // One step of the branch for all of them, whose own line has only what passed.
            _ => self.depot.seal(&tree, &[tip, &at], &subject::of_batch(&riding), now)?,
        };
        Ok(Some(Joint { commit, tree, riding, later }))
    }
}

/// What a train has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Cars that landed.
    pub landed: usize,
    /// How often gates were run.
    pub gates: usize,
}

/// Why a train stopped on its way.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Git broke.
    #[error("{error}; next: {}", error.next())]
    Git {
        #[from]
        error: worktree::Error,
    },
    /// The gates broke: nobody knows what they would have found.
    #[error("the gates could not be run: {0}")]
    Gates(String),
}

fn clashes(branch: &str, tip: &Oid, clash: &Clash) -> String {
    let more = if clash.more > 0 { format!(" and {} more", clash.more) } else { String::new() };
    format!(
        "It conflicts with {branch} at {tip} in {}{more}. Merge that commit into the work (`git merge {tip}`), resolve \
         it, commit, and complete again.\n{}",
        clash.files.join(", "),
        clash.hunks
    )
}

fn red(branch: &str, tip: &Oid, said: &str) -> String {
    format!(
        "Merged onto {branch} at {tip}, its gates fail. `git merge {tip}` shows it in the worktree; put it right, commit, \
         and complete again.\n{said}"
    )
}

/// Within the bound of a reason, and without what a text must not have.
fn cut(text: &str) -> String {
    let plain: String =
        text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    plain[..plain.floor_char_boundary(REASON_BYTES_MAX)].to_owned()
}
