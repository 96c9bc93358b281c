//! Whether what was committed is more than on one disk. A commit that stopped waiting for a standby is
//! there for all to see, and gone with the machine: whoever repeats a request must not be told that
//! it happened because it can be seen.

use super::load::{BEGIN, BOUNDS};
use super::manner::Manner;
use super::pen::COMMIT;
use super::trouble::Trouble;
use super::wire::{Conn, Flush};
use super::{Shared, batch};
use crate::Error;

/// Writes a little, so that the commit after it is one that a standby confirms, and with it all before.
pub(super) const MARK: &str = "SELECT pg_logical_emit_message(true, 'baton', '')";

/// Sends what ends with a commit. Once it is sent, a commit that nobody confirmed is in doubt.
pub(super) async fn commit(conn: &mut Conn, flush: Flush) -> Result<super::wire::Answers, Trouble> {
    // Only what is said of this commit counts.
    conn.was_warned();
    let answers = conn.send(flush).await?;
    if conn.was_warned() {
        return Err(Trouble::Lost("it is committed, but no standby has confirmed it".into()));
    }
    Ok(answers)
}

/// Waits until a standby has everything that was committed before.
pub(super) async fn confirm(shared: &Shared) -> Result<(), Error> {
    let confirmed = async {
        let mut lent = shared.writers.get().await?;
        lent.begun();
        let mut flush = Flush::default();
        flush.add(BEGIN, vec![]);
        flush.add(BOUNDS, Manner::Alone.bounds());
        flush.add(MARK, vec![]);
        flush.add(COMMIT, vec![]);
        match commit(&mut lent, flush).await {
            Ok(_) => {
                lent.done();
                Ok(())
            }
            Err(trouble) => {
                batch::undo(&mut lent, &trouble).await;
                Err(trouble)
            }
        }
    };
    confirmed.await.map_err(|trouble: Trouble| Error::Unknown(trouble.told().to_string()))
}
