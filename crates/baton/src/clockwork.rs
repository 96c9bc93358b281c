//! Turns the passing of time into orders. Any number of servers may do this at once: what is due
//! fires once, because firing moves the due time in the same commit.

use std::sync::Arc;
use std::time::Duration;

use baton_store::Error;
use baton_store::order::Swept;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::Instrument;

use crate::engine::Engine;
use crate::points::{self, Point};

/// The pause between two looks at the clock: a quarter of what a lease may be overdue.
const EVERY: Duration = Duration::from_millis(500);
/// The longest pause after failures: short of the silence that counts as an outage.
const EVERY_MAX: Duration = Duration::from_secs(2);
/// What one sweep may do at first: little, so that other orders get their turn.
const COUNT_MIN: usize = 100;
/// What one sweep may do when much is due.
const COUNT_MAX: usize = 1_000;
/// Sweeps of one tick: enough to catch up after an outage, few enough to look at the clock again.
const SWEEPS_MAX: usize = 16;

/// Lets time pass until told to stop. A failed tick, or one that panicked, is tried again. Every
/// turn that reached the store is counted for whoever watches.
pub async fn run(
    engine: Arc<Engine>,
    mut shutdown: watch::Receiver<bool>,
    turns: watch::Sender<u64>,
) {
    let mut failures = 0;
    loop {
        let engine = Arc::clone(&engine);
        // A task of its own, so that a panic in it ends the tick and not the clockwork.
        let ticked = tokio::spawn(async move { tick(&engine).await }.in_current_span()).await;
        if ticked.as_ref().is_ok_and(reached_the_store) {
            turns.send_modify(|turns| *turns += 1);
        }
        let pause = match ticked {
            Ok(Ok(swept)) => {
                failures = 0;
                if swept.more { Duration::ZERO } else { EVERY }
            }
            Ok(Err(error)) => {
                failures += 1;
                tracing::warn!(%error, failures, "a sweep failed");
                backed_off(failures)
            }
            Err(error) => {
                failures += 1;
                tracing::error!(%error, failures, "a sweep broke");
                backed_off(failures)
            }
        };
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => return,
            () = sleep(pause) => {}
        }
    }
}

/// Whether a tick was answered by the store, however badly: a full disk, or a database that is away,
/// is nothing that another server in this place would mend. One whose queue is full has not been asked.
fn reached_the_store(ticked: &Result<Swept, Error>) -> bool {
    match ticked {
        Err(Error::Overloaded) => false,
        Ok(_)
        | Err(
            Error::Refused(_)
            | Error::KeyReused
            | Error::DiskFull
            | Error::CursorExpired { .. }
            | Error::Stopped(_)
            | Error::Unknown(_)
            | Error::Read(_)
            | Error::Internal(_),
        ) => true,
    }
}

fn backed_off(failures: u32) -> Duration {
    EVERY.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(EVERY_MAX)
}

/// Lets everything happen that is due by now, as far as one tick goes; after a long pause there
/// may be more. On a system where nothing is due it writes nothing.
#[tracing::instrument(level = "debug", skip_all)]
pub async fn tick(engine: &Engine) -> Result<Swept, Error> {
    let mut total = Swept::default();
    let mut count_max = COUNT_MIN;
    for _ in 0..SWEEPS_MAX {
        let swept = engine.sweep(count_max).await?;
        points::pass(Point::TimePassed);
        total.due += swept.due;
        total.reactions += swept.reactions;
        total.more = swept.more;
        if !swept.more {
            break;
        }
        count_max = (2 * count_max).min(COUNT_MAX);
    }
    // An unsealed minute is no reason not to let time pass; its age is in the health.
    if let Err(error) = engine.seal_if_due().await {
        tracing::warn!(%error, "what happened is not sealed");
    }
    // Nor is a part of the history that was not looked at again.
    if let Err(error) = engine.audit_if_due().await {
        tracing::warn!(%error, "the history is not audited");
    }
    Ok(total)
}

#[cfg(test)]
mod tests;
