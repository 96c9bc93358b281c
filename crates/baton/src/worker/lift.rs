//! Quarantines that lift by themselves: whoever was not proved dead may be proved dead later, at the latest after the
//! machine was started anew.

use std::fs;

use baton_domain::ids::AttemptId;
use baton_domain::run::Death;
use tokio::task::spawn_blocking;

use crate::shim::{self, Place, Proof, Status};
use crate::worktree::{Error, Git, House, Worktree};

use super::adopt::Left;
use super::card::Card;
use super::prepare::Premises;

/// Looks again at every worktree that was closed because a death was not proved. Attempts that are still to be
/// driven are left to their drivers.
pub async fn lift(premises: &Premises, left: &[Left]) {
    lift_plain(premises, left).await;
    let (data, programs) = (premises.data.clone(), premises.found.programs.clone());
    let closed = spawn_blocking(move || -> Result<Vec<Worktree>, Error> {
        let mut closed = vec![];
        for house in House::all(&data, &Git::find(&programs)?)? {
            closed.extend(house.unproved()?);
        }
        Ok(closed)
    });
    let closed = match closed.await {
        Ok(Ok(closed)) => closed,
        // Without git there are no worktrees.
        Ok(Err(Error::NoGit)) => return,
        Ok(Err(error)) => return tracing::warn!(%error, "closed worktrees cannot be looked at"),
        Err(error) => return tracing::warn!(%error, "closed worktrees cannot be looked at"),
    };
    for worktree in closed {
        let attempt = AttemptId { task: worktree.key().task, number: worktree.attempt() };
        let is_driven = left.iter().any(|left| left.attempt == attempt);
        if !is_driven && is_dead(&Place::at(premises.attempt(attempt))).await {
            open(worktree, attempt).await;
        }
    }
}

/// The same for folders without git, which are found by the attempts that are kept.
async fn lift_plain(premises: &Premises, left: &[Left]) {
    let Ok(kept) = fs::read_dir(premises.attempts()) else { return };
    for folder in kept.filter_map(Result::ok) {
        let Ok(Some(card)) = Card::read(&folder.path()) else { continue };
        let attempt = card.dispatch.attempt;
        if !card.plain || left.iter().any(|left| left.attempt == attempt) {
            continue;
        }
        let Ok(mut ground) = premises.ground(&card) else { continue };
        if ground.unproved() == Some(attempt) && is_dead(&Place::at(folder.path())).await {
            match ground.hold().then(|| ground.open()) {
                Some(Ok(())) => {
                    tracing::info!(%attempt, "it is dead after all: its folder is open again")
                }
                Some(Err(error)) => tracing::warn!(%attempt, %error, "its folder stays closed"),
                None => tracing::warn!(%attempt, "its folder stays closed: somebody works in it"),
            }
        }
    }
}

/// Whether nobody of an attempt lives, as its shim wrote down or as can be proved now.
async fn is_dead(place: &Place) -> bool {
    let dead = |proof: Proof| proof.death != Death::None && !proof.survivor;
    if let Ok(Some(Status::Stopped { proof, .. })) = place.status()
        && dead(proof)
    {
        return true;
    }
    match place.launch() {
        Ok(Some(launch)) => shim::prove(&launch).await.is_ok_and(dead),
        // Of whom nothing is known nothing is proved: a person has to look.
        Ok(None) | Err(_) => false,
    }
}

async fn open(mut worktree: Worktree, attempt: AttemptId) {
    let opened = spawn_blocking(move || -> Result<(), Error> {
        let _held = worktree.hold()?;
        worktree.release()
    });
    match opened.await {
        Ok(Ok(())) => tracing::info!(%attempt, "it is dead after all: its worktree is open again"),
        Ok(Err(error)) => tracing::warn!(%attempt, %error, "its worktree stays closed"),
        Err(error) => tracing::warn!(%attempt, %error, "its worktree stays closed"),
    }
}
