//! Runs that are held to be checked, and have no agent: what was submitted, and what passes a stage that Baton works.

use std::sync::Arc;

use baton_domain::ids::AttemptId;
use baton_domain::project::WorkedBy;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};

use crate::protocol::{Dispatch, Gates};
use crate::worktree::{Git, House, Repository};

use super::attempt::{WORDS_MAX, Word};
use super::check::{self, Pinned, Subject};
use super::course::Said;
use super::prepare::{Premises, Whose};
use super::yard::given_back;
use super::{Live, Sign, Worker};

/// Checks at once: each may be a whole build.
const CHECKS_MAX: u16 = 2;

/// Checks that are under way.
pub(super) struct Checks {
    places: u16,
    /// Credits that the server has and has not used.
    promised: u16,
    running: JoinSet<(AttemptId, Result<Gates, String>)>,
}

impl Checks {
    /// None; whoever ends after one run of an agent takes none.
    pub(super) fn new(once: bool) -> Self {
        let places = if once { 0 } else { CHECKS_MAX };
        Self { places, promised: 0, running: JoinSet::new() }
    }

    /// A server that comes, or comes again, was promised nothing.
    pub(super) fn forget_promises(&mut self) {
        self.promised = 0;
    }

    /// How much more room can be promised, which is promised with this.
    pub(super) fn promise(&mut self) -> u16 {
        let taken = u16::try_from(self.running.len()).unwrap_or(u16::MAX);
        let more = self.places.saturating_sub(taken).saturating_sub(self.promised);
        self.promised += more;
        more
    }

    /// Whether none is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The next one that has come to its end.
    pub(super) async fn done(&mut self) -> Option<(AttemptId, Result<Gates, String>)> {
        loop {
            match self.running.join_next().await {
                Some(Ok(done)) => return Some(done),
                Some(Err(error)) => {
                    tracing::error!(%error, "a check broke: it is left to its lease")
                }
                None => return std::future::pending().await,
            }
        }
    }
}

impl<T: FnMut(Sign) + Send> Worker<T> {
    /// Something to check has come.
    pub(super) fn look_into(&mut self, dispatch: Dispatch) {
        let attempt = dispatch.attempt;
        self.checks.promised = self.checks.promised.saturating_sub(1);
        let whose = self.whose.clone().filter(|_| !self.draining);
        let Some(whose) = whose else {
            return self.told(attempt, Err("the worker is about to end".to_owned()));
        };
        let (words, heard) = mpsc::channel(WORDS_MAX);
        self.live.insert(attempt, Live { words, lease_ms: dispatch.lease_ms, fenced: false });
        let premises = Arc::clone(&self.premises);
        self.checks
            .running
            .spawn(async move { (attempt, checked(&premises, whose, dispatch, heard).await) });
        self.beat();
    }

    /// A check has come to its end.
    pub(super) async fn looked_into(&mut self, attempt: AttemptId, found: Result<Gates, String>) {
        self.live.remove(&attempt);
        self.told(attempt, found);
        self.settle().await;
        self.give_room();
    }

    fn told(&mut self, attempt: AttemptId, found: Result<Gates, String>) {
        let kept = match found {
            Ok(gates) => self.link.tell(gates).map(drop),
            Err(why) => {
                tracing::warn!(%attempt, why, "a check is given back");
                let frames = given_back(attempt, &why, None);
                frames.into_iter().try_for_each(|frame| self.link.tell(frame).map(drop))
            }
        };
        if let Err(error) = kept {
            tracing::error!(%attempt, %error, "what was found could not be told");
        }
        self.settling.insert(attempt);
    }
}

/// Runs what is asked for on the commit that is meant, until it is done or nobody wants to know.
async fn checked(
    premises: &Arc<Premises>,
    whose: Whose,
    dispatch: Dispatch,
    mut words: mpsc::Receiver<Word>,
) -> Result<Gates, String> {
    let (off, is_off) = watch::channel(false);
    let own = (Arc::clone(premises), whose.clone(), dispatch.clone());
    let pinned = spawn_blocking(move || pinned(&own.0, &own.1, &own.2)).await;
    let pinned = pinned.map_err(|error| error.to_string())??;
    let asks = dispatch.asks.clone().unwrap_or_default();
    let subject = Subject { whose, dispatch, asks };
    let mut found = std::pin::pin!(check::run(premises, &subject, &pinned, is_off));
    loop {
        tokio::select! {
            found = &mut found => return found,
            Some(word) = words.recv() => match word {
                Word::Said(Said::Fenced(_) | Said::Cancel(_)) | Word::Drain => {
                    off.send_replace(true);
                }
                Word::Said(Said::Answer { .. } | Said::Checkpointed | Said::Stands(_))
                | Word::Renewed { .. }
                | Word::Listen { .. }
                | Word::Bound
                | Word::Check(_)
                | Word::Cut => {}
            }
        }
    }
}

/// The commit that is meant: what passed before, in a stage that Baton works, or else what was kept last.
fn pinned(premises: &Premises, whose: &Whose, dispatch: &Dispatch) -> Result<Pinned, String> {
    let root = premises.root(dispatch).filter(|root| root.is_dir());
    let git = Git::find(&premises.found.programs).map_err(|error| error.to_string())?;
    let repository = root.map(|root| Repository::at(&git, &root)).transpose();
    let repository = repository.map_err(|error| error.to_string())?;
    let house = House::new(&premises.data, &whose.deployment, &git);
    let passed = dispatch.worked_by == WorkedBy::Baton;
    let found = premises.work_to_check(whose, dispatch, (&house, repository.as_ref()), passed);
    let found = found.map_err(|error| error.to_string())?;
    found.ok_or_else(|| "nobody kept anything of it: there is nothing to check".to_owned())
}
