//! Who is watched: streams and waiting requests that end when their key does.
//!
//! One task looks after all of them, as long as there is anybody: it asks about every secret once,
//! however many callers showed it, and so a thousand idle readers cost what their few keys cost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_domain::key::{KeyId, Verifier};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Identity, opens};

/// How often the watched are looked at: half of the second within which whatever ended is told,
/// even after the machine was suspended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Proof = (KeyId, [u8; 32]);

/// Everybody who is watched, by what they showed.
#[derive(Default)]
pub(super) struct Watched(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    /// What is sent is that it is over.
    by_proof: BTreeMap<Proof, watch::Sender<bool>>,
    /// Whether somebody looks after them.
    tended: bool,
}

impl Watched {
    /// Begins to watch; also tells whether nobody looks after the watched yet, and the asker must.
    fn enter(&self, id: KeyId, shown: Verifier) -> (watch::Receiver<bool>, bool) {
        let mut rows = self.lock();
        let row = rows.by_proof.entry((id, shown.0)).or_insert_with(|| watch::Sender::new(false));
        let over = row.subscribe();
        (over, !std::mem::replace(&mut rows.tended, true))
    }

    /// What is watched now. If nothing is, nobody looks after it from here on.
    fn proofs(&self) -> Option<Vec<Proof>> {
        let mut rows = self.lock();
        rows.by_proof.retain(|_, row| row.receiver_count() > 0);
        rows.tended = !rows.by_proof.is_empty();
        rows.tended.then(|| rows.by_proof.keys().cloned().collect())
    }

    fn end(&self, proof: &Proof) {
        if let Some(row) = self.lock().by_proof.remove(proof) {
            row.send_replace(true);
        }
    }

    /// Whoever panicked while it held the lock left the rows whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves once the secret opens the key no longer.
pub(super) async fn is_over(identity: Arc<Identity>, id: KeyId, shown: Verifier) {
    let (mut over, untended) = identity.watched.enter(id, shown);
    if untended {
        let changes = identity.changes.subscribe();
        tokio::spawn(tend(Arc::downgrade(&identity), changes));
    }
    // Whoever waits here keeps nothing alive: a server that closes waits for nobody.
    drop(identity);
    // A sender that is gone went with the identity, and with it whoever vouched for the key.
    drop(over.wait_for(|over| *over).await);
}

/// Looks after the watched until there is nobody.
async fn tend(identity: Weak<Identity>, mut changes: watch::Receiver<u64>) {
    loop {
        changes.mark_unchanged();
        let Some(identity) = identity.upgrade() else { return };
        let Some(proofs) = identity.watched.proofs() else { return };
        for proof in proofs {
            // What cannot be read is not known to have ended; it is asked again in a moment.
            if let Ok(known) = identity.look_up(&proof.0).await
                && !opens(
                    known.as_deref().map(|known| &known.found),
                    &Verifier(proof.1),
                    identity.engine.now(),
                )
            {
                identity.watched.end(&proof);
            }
        }
        drop(identity);
        // Only a change or the time ends this; if the identity is gone, the next look tells.
        drop(timeout(LOOK_EVERY, changes.changed()).await);
    }
}
