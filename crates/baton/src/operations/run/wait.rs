//! Waiting for a run to change, a while at a time.

use std::pin::pin;
use std::time::Duration;

use baton_domain::command::{Agent, Supervisor};
use baton_domain::ids::AttemptId;
use baton_domain::run::{Mark, Mode, Phase, Purpose};
use baton_domain::task::Flow;
use baton_domain::time::Millis;
use baton_store::TaskRow;
use tokio::time::sleep;

use super::words;
use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::shape::{RunRef, Span, record};
use crate::views::RunView;

/// The longest that one request may wait: shorter than the patience of proxies and clients.
const WAIT_MAX: Millis = Millis::seconds(50);

record! {
    /// A run to wait for.
    pub struct Wait {
        /// Which run; of a task the live one, or else the one that finished last.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// The version that the caller saw; without it, the present one.
        since: Option<u64>,
        /// How long; 50 seconds at most, and half a lease for a holder on its own: then ask again.
        #[at_most(WAIT_MAX.0)]
        wait: Option<Span>,
    }

    /// What became of waiting.
    pub struct Waited {
        /// Whether the task changed, or an answer is there that the holder had not read.
        changed: bool,
        /// The longest that this request would have waited: what was asked for, or what is allowed.
        wait: Span,
        /// The run as it is now.
        run: RunView,
    }
}

impl Operation for Wait {
    const ABOUT: Declaration = Declaration {
        noun: "run",
        verb: "wait",
        summary: "Wait until a run changes: an answer, an end, somebody else's word",
        method: Method::Post,
        path: "/v1/runs/{run}/wait",
        permit: Permit::Scope(Level::Read),
        audience: Audience::Anyone,
        hints: Hints::SETS,
        columns: &["run", "changed"],
    };

    type Answer = Waited;

    async fn perform(self, call: &Call) -> Result<Answered<Waited>, Problem> {
        let id = call.task_of(self.run)?;
        // Whoever begins to listen before it looks misses nothing.
        let mut listener = call.engine().changes().listen(&call.caller().tenant)?;
        let (mut row, mut as_of) = call.told(id).await?;
        let run = call.run_of(self.run, &row.flow)?;
        let since = self.since.unwrap_or(row.flow.version);
        let wait = self.bound(call, &row).await?;
        let mut end = pin!(sleep(Duration::from_millis(wait.0)));
        while !self.is_over(call, &row.flow, since) {
            tokio::select! {
                biased;
                () = &mut end => break,
                heard = listener.heard() => heard?,
            }
            (row, as_of) = call.told(id).await?;
        }
        let changed = self.is_over(call, &row.flow, since);
        if self.has_unread_answer(call, &row.flow) {
            let says = Agent::Receive(Mark::Delivered);
            call.as_agent_again(RunRef::Run(run), self.attempt, says).await?;
            (row, as_of) = call.told(id).await?;
        }
        let live = RunView::live(&row.flow, row.lease.as_ref()).filter(|live| live.id == run);
        let mut view = match live {
            Some(view) => view,
            None => {
                let found = RunView::of_row(&call.run(run).await?.row);
                RunView { version: Some(row.flow.version), ..found }
            }
        };
        words::fill(call, &row.flow, &mut view).await?;
        Ok(Answered::read(Waited { changed, wait: Span(wait), run: view }, as_of))
    }
}

impl Wait {
    /// How long it may take. A holder on its own shows that it lives, and is back in time to show
    /// it again.
    async fn bound(&self, call: &Call, row: &TaskRow) -> Result<Millis, Problem> {
        let wait = self.wait.map_or(WAIT_MAX, |wait| wait.0.min(WAIT_MAX));
        let solo = call.held(&row.flow, self.attempt).filter(|held| held.mode == Mode::Solo);
        if solo.is_none() {
            return Ok(wait);
        }
        let renew = Supervisor::Renew { lease: None };
        let done = call.as_supervisor_again(self.run, self.attempt, renew).await?;
        let half = done.committed.lease.map(|lease| Millis(lease.length.0 / 2));
        Ok(half.map_or(wait, |half| wait.min(half)))
    }

    fn is_over(&self, call: &Call, flow: &Flow, since: u64) -> bool {
        flow.version != since || self.has_unread_answer(call, flow)
    }

    fn has_unread_answer(&self, call: &Call, flow: &Flow) -> bool {
        let answer = flow.run.as_ref().and_then(|run| run.answer);
        let hears = call.held(flow, self.attempt).is_some_and(|held| match held.purpose {
            Purpose::Work | Purpose::Merge => !matches!(held.phase, Phase::Stopping { .. }),
            Purpose::Verify | Purpose::Probe => false,
        });
        answer.is_some_and(|answer| answer.mark == Mark::Sent) && hears && call.is_agent()
    }
}
