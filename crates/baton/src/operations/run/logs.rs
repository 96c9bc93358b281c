//! What the agent of a run said: from its worker if that is there, or else what it brought last.

use std::io::Read as _;

use baton_domain::ids::{AttemptId, RunId};
use baton_domain::run::Mode;
use baton_store::blobs::Error;
use baton_store::read::RunFull;
use tokio::task::spawn_blocking;

use super::kept;
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{RunRef, Violation, When, record};
use crate::views::{LOG_LINES_MAX, LogLine, LogView};

/// Lines that are told if nobody says how many: two screens.
const LINES_USUAL: usize = 100;
/// Bytes of a log that a worker brought: a quarter of a MiB of texts, and what stands around them.
const LOG_BYTES_MAX: u64 = 1 << 20;

record! {
    /// Whose log.
    pub struct Logs {
        /// Which run; of a task the live one, or else the one that finished last.
        run: RunRef,
        /// Of this attempt; otherwise of the live one, or else of the one that ended last.
        attempt: Option<AttemptId>,
        /// Only lines after this number: the `last` of an earlier answer. Without it, the last lines.
        after: Option<u64>,
        /// At most so many lines.
        #[at_most(LOG_LINES_MAX)]
        #[usual(LINES_USUAL)]
        limit: Option<u16>,
    }
}

impl Operation for Logs {
    const ABOUT: Declaration = Declaration::look(
        ("run", "logs"),
        "/v1/runs/{run}/logs",
        &["at", "voice", "text"],
        "Read what the agent of a run said",
    );

    type Answer = LogView;

    async fn perform(self, call: &Call) -> Result<Answered<LogView>, Problem> {
        let (row, as_of) = call.told(call.task_of(self.run)?).await?;
        let id = match self.attempt {
            Some(named) if named.task != row.flow.id => {
                let rule = format!("must be an attempt of {}, like the run", row.flow.id);
                return Err(Problem::invalid(vec![Violation { field: "attempt".into(), rule }]));
            }
            Some(_) | None => call.run_of(self.run, &row.flow)?,
        };
        let full = call.run(id).await?;
        let held = row.flow.run.as_ref().filter(|run| run.number == id.number);
        let held = held.and_then(|run| run.held());
        let ended = full.attempts.last().map(|last| last.number);
        let named = self.attempt.map(|attempt| attempt.number);
        let number = named.or(held.map(|held| held.attempt)).or(ended);
        let Some(number) = number else {
            return Ok(Answered::read(nothing(id), as_of));
        };
        let attempt = AttemptId { task: id.task, number };
        let held = held.filter(|held| held.attempt == number);
        let live = held.is_some();
        let supervised = held.is_some_and(|held| held.mode == Mode::Supervised);
        let fresh = match supervised {
            true => call.engine().logs().fresh(&call.caller().tenant, attempt).await,
            false => None,
        };
        let (lines, fresh, brought_at) = match fresh {
            Some(lines) => (lines, true, None),
            None => {
                let (lines, at) = brought(call, &full, number).await?;
                (lines, false, at)
            }
        };
        let view = LogView { attempt: Some(attempt), live, fresh, brought_at, ..nothing(id) };
        Ok(Answered::read(self.cut(view, lines), as_of))
    }
}

impl Logs {
    /// The lines that were asked for.
    fn cut(&self, view: LogView, mut lines: Vec<LogLine>) -> LogView {
        let most = self.limit.map_or(LINES_USUAL, usize::from);
        let end = lines.last().map_or(0, |last| last.number);
        let after = self.after.unwrap_or(0);
        lines.retain(|line| line.number > after);
        let surplus = lines.len().saturating_sub(most);
        match self.after {
            // Whoever follows reads on; whoever looks wants the end.
            Some(_) => lines.truncate(most),
            None => drop(lines.drain(..surplus)),
        }
        let dropped = lines.first().map_or(0, |first| first.number - 1 - after);
        let last = lines.last().map_or(end.max(after), |last| last.number);
        LogView { items: lines, last, dropped, ..view }
    }
}

fn nothing(run: RunId) -> LogView {
    LogView {
        run,
        attempt: None,
        live: false,
        fresh: false,
        items: vec![],
        last: 0,
        dropped: 0,
        brought_at: None,
    }
}

/// What the worker of an attempt brought last, and when.
async fn brought(
    call: &Call,
    full: &RunFull,
    attempt: u32,
) -> Result<(Vec<LogLine>, Option<When>), Problem> {
    let own = full.checkpoints.iter().rev().filter(|one| one.attempt == attempt);
    let mut logs = own.filter_map(|one| Some((kept::log_of(one)?, When(one.at))));
    let Some((digest, at)) = logs.next() else { return Ok((vec![], None)) };
    let Some(blobs) = call.engine().blobs() else { return Ok((vec![], None)) };
    let tenant = call.caller().tenant.clone();
    let read = spawn_blocking(move || -> Result<Vec<u8>, Error> {
        let blob = blobs.get_verified(tenant.as_str(), &digest.as_str().parse()?)?;
        let mut bytes = vec![];
        let read = blob.bytes.take(LOG_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(Error::SourceFailed)?;
        Ok(bytes)
    });
    let broke = |why: String| {
        tracing::error!(%why, "a log could not be read");
        Problem::new("internal", "something broke on our side; the log says what")
    };
    let bytes = match read.await.map_err(|_| broke("a thread ended".to_owned()))? {
        Ok(bytes) => bytes,
        // It was named and is not here: nobody has it.
        Err(Error::NotFound { .. }) => return Ok((vec![], Some(at))),
        Err(error) => return Err(broke(error.to_string())),
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // A line of a newer worker that cannot be read is none.
    let lines = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    Ok((lines, Some(at)))
}
