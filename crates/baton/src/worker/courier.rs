//! Carries work to the server: blobs first, then the frame that names them. It never holds up an agent, it goes on where a
//! worker before left off, and what is newer takes the place of what waits.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_domain::ids::AttemptId;
use baton_domain::text::Summary;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use crate::client::{Client, Failure};
use crate::points::{self, Point};
use crate::protocol::{Checkpoint, Work};

use super::link::Link;
use super::parcel::{Parcel, Shelf};
use super::prepare::Premises;

/// Attempts whose work is sent at once: more would only share one line.
const AT_ONCE_MAX: usize = 2;
/// The first wait after a round of tries that failed; the next ones double.
const AGAIN_FIRST: Duration = Duration::from_secs(2);
/// The longest.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// What a summary says of why something was not handed in.
const WHY_BYTES_MAX: usize = 512;

/// Carries the work of all attempts of a worker.
#[derive(Clone)]
pub struct Courier {
    shared: Arc<Shared>,
}

struct Shared {
    premises: Arc<Premises>,
    link: Link,
    lanes: Mutex<BTreeMap<AttemptId, Option<u64>>>,
    room: Semaphore,
    /// Counts up whenever somebody has nothing more to send.
    idle: watch::Sender<u64>,
}

/// Why work was not taken in.
enum Failed {
    /// It may be later.
    Again(String),
    /// It never will be.
    ForGood(String),
}

impl Courier {
    /// Nothing is to be carried yet.
    #[must_use]
    pub fn new(premises: Arc<Premises>, link: Link) -> Self {
        let (lanes, room) = (Mutex::default(), Semaphore::new(AT_ONCE_MAX));
        let idle = watch::Sender::new(0);
        Self { shared: Arc::new(Shared { premises, link, lanes, room, idle }) }
    }

    /// What the server has of the work of an attempt, as far as this machine brought it there.
    #[must_use]
    pub fn handed(&self, attempt: AttemptId) -> Option<Work> {
        self.shared.shelf(attempt).handed()
    }

    /// Takes over what is to be sent; on the disk when this answers.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn post(&self, attempt: AttemptId, parcel: &Parcel) -> io::Result<()> {
        let being_sent = self.shared.lock().get(&attempt).copied().flatten();
        self.shared.shelf(attempt).put(parcel, being_sent)?;
        points::pass(Point::ParcelKept);
        self.go_on(attempt);
        Ok(())
    }

    /// Clears away what a worker before left half made; before anything is made for the attempt here.
    pub fn sweep(&self, attempt: AttemptId) {
        if let Err(error) = self.shared.shelf(attempt).sweep() {
            tracing::warn!(%attempt, %error, "what no parcel names cannot be cleared away");
        }
    }

    /// Goes on with what is there to be sent, if something is.
    pub fn go_on(&self, attempt: AttemptId) {
        let waits = !self.shared.shelf(attempt).waiting().is_empty();
        let mut lanes = self.shared.lock();
        if waits && !lanes.contains_key(&attempt) {
            lanes.insert(attempt, None);
            tokio::spawn(Arc::clone(&self.shared).carry(attempt));
        }
    }

    /// Whether something of an attempt is still to be sent.
    #[must_use]
    pub fn is_busy(&self, attempt: AttemptId) -> bool {
        self.shared.lock().contains_key(&attempt)
    }

    /// Resolves once nothing of it is.
    pub async fn settled(&self, attempt: AttemptId) {
        let mut idle = self.shared.idle.subscribe();
        // Whoever listens before it looks misses nothing in between.
        drop(idle.wait_for(|_| !self.is_busy(attempt)).await);
    }
}

impl Shared {
    fn shelf(&self, attempt: AttemptId) -> Shelf {
        Shelf::of(&self.premises.attempt(attempt))
    }

    /// Whoever panicked while it held the lock left the map whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptId, Option<u64>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what there is of an attempt, the newest alone, until there is nothing.
    async fn carry(self: Arc<Self>, attempt: AttemptId) {
        let (shelf, mut pause) = (self.shelf(attempt), AGAIN_FIRST);
        while let Some(number) = self.next(attempt, &shelf) {
            let Some(parcel) = shelf.get(number) else {
                tracing::warn!(%attempt, number, "a parcel cannot be read, and is dropped");
                drop(std::fs::remove_file(shelf.file(&format!("{number}.parcel"))));
                continue;
            };
            let told = match self.send(&shelf, &parcel).await {
                Ok(()) => {
                    points::pass(Point::BlobsSent);
                    self.told(attempt, number, &shelf, parcel)
                }
                Err(Failed::ForGood(why)) => {
                    tracing::warn!(%attempt, why, "work was not handed in, and stays on this machine");
                    let frame = unsent(parcel.frame.clone(), &why);
                    self.told(attempt, number, &shelf, Parcel { frame, ..parcel })
                }
                Err(Failed::Again(why)) => Err(why),
            };
            match told {
                Ok(()) => pause = AGAIN_FIRST,
                Err(why) => {
                    tracing::warn!(%attempt, why, ?pause, "work was not handed in: it is tried again");
                    sleep(pause).await;
                    pause = (pause * 2).min(AGAIN_MAX);
                }
            }
        }
    }

    /// The newest that waits. If nothing does, nobody carries for the attempt any more.
    fn next(&self, attempt: AttemptId, shelf: &Shelf) -> Option<u64> {
        let mut lanes = self.lock();
        let newest = shelf.waiting().pop();
        match newest {
            Some(number) => drop(lanes.insert(attempt, Some(number))),
            None => {
                lanes.remove(&attempt);
                drop(lanes);
                self.idle.send_modify(|count| *count += 1);
            }
        }
        newest
    }

    async fn send(&self, shelf: &Shelf, parcel: &Parcel) -> Result<(), Failed> {
        let _turn = self.room.acquire().await;
        let client: Client = self.premises.client().map_err(failed)?;
        for blob in &parcel.blobs {
            let file: PathBuf = shelf.file(&blob.file);
            let digest = blob.digest.as_str().parse();
            let digest = digest.map_err(|_| Failed::ForGood("it has no digest".to_owned()))?;
            client.put_blob(&file, &digest).await.map_err(failed)?;
        }
        Ok(())
    }

    /// The server has the blobs: it is told of them. An error if that is to be tried again.
    fn told(
        &self,
        attempt: AttemptId,
        number: u64,
        shelf: &Shelf,
        parcel: Parcel,
    ) -> Result<(), String> {
        let cleared = match self.link.tell(parcel.frame.clone()) {
            Ok(_) => {
                points::pass(Point::ParcelTold);
                // If the machine stops here, it is told twice, and is the same.
                shelf.settle(number, &parcel)
            }
            // Too many reports wait; there is room once the server has them.
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                return Err(error.to_string());
            }
            // It can never be told, so the server does not have it, whatever it has of the blobs.
            Err(error) => {
                tracing::warn!(%attempt, %error, "a snapshot was not told");
                shelf.drop_one(number, &parcel)
            }
        };
        if let Err(error) = cleared {
            tracing::warn!(%attempt, %error, "a parcel cannot be cleared away");
        }
        for old in shelf.waiting().into_iter().filter(|old| *old < number) {
            if let Some(parcel) = shelf.get(old) {
                drop(shelf.drop_one(old, &parcel));
            }
        }
        Ok(())
    }
}

/// What is told of work that the server does not take.
fn unsent(frame: Checkpoint, why: &str) -> Checkpoint {
    let cut = &why[..why.floor_char_boundary(WHY_BYTES_MAX)];
    let summary = Summary::new("summary", format!("Snapshot, on its machine alone: {cut}")).ok();
    Checkpoint { summary, work: None, log: None, ..frame }
}

fn failed(failure: Failure) -> Failed {
    let why = failure.body["detail"].as_str().unwrap_or(failure.code()).to_owned();
    match failure.body["retryable"].as_bool() {
        Some(false) => Failed::ForGood(why),
        Some(true) | None => Failed::Again(why),
    }
}
