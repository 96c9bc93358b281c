//! How far a holder is, and that it lives.

use std::collections::BTreeMap;

use baton_domain::command::{Agent, Evidence, FailedItem, Note, Report, Supervisor};
use baton_domain::ids::{AttemptId, Label, RunId};
use baton_domain::limits::{EVIDENCE_MAX, ITEMS_MAX};
use baton_domain::run::Mark;
use baton_domain::text::{Cursor, Item, Line, Reason, Summary};
use baton_store::read::RunWord;

use super::WORKERS_OWN;
use super::claim::renew_every;
use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Operation};
use crate::operations::saying::{Said, Saying};
use crate::problem::Problem;
use crate::shape::{RunRef, Span, Violation, When, record};
use crate::views::{LeaseView, RunView};

record! {
    /// Word that the agent is at work.
    pub struct Begin {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
    }

    /// Word that the holder lives.
    pub struct Heartbeat {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// How long the lease lives from now on without renewal; otherwise as long as before.
        lease: Option<Span>,
    }

    /// A lease that was renewed.
    pub struct Renewed {
        /// Which run.
        run: RunId,
        /// Who holds it.
        attempt: AttemptId,
        /// How the run stands.
        state: RunWord,
        /// The right to act as the attempt.
        lease: LeaseView,
        /// Renew at least this often.
        renew_every: Span,
        /// How far the last answer of a person got; one that is only sent waits to be read.
        answer: Option<Mark>,
    }

    /// How far the agent is.
    pub struct Progress {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// How far it is.
        summary: Option<Summary>,
        /// Where to go on.
        cursor: Option<Cursor>,
        /// Items done since the last report.
        #[at_most(ITEMS_MAX)]
        done: Option<Vec<Item>>,
        /// Items failed since the last report.
        #[at_most(ITEMS_MAX)]
        failed: Option<Vec<FailedWish>>,
        /// The last answer of a person was acted upon.
        answer_applied: Option<bool>,
    }

    /// An item that failed.
    pub struct FailedWish {
        /// Which one.
        item: Item,
        /// Why.
        reason: Reason,
    }

    /// A note for the next holder to go on from.
    pub struct Checkpoint {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<AttemptId>,
        /// How far it is.
        summary: Summary,
        /// Where to go on.
        cursor: Option<Cursor>,
        /// What shows it.
        #[at_most(EVIDENCE_MAX)]
        evidence: Option<Vec<EvidenceWish>>,
        /// The state of the work tree: names such as base, head, bundle.
        #[at_most(EVIDENCE_MAX)]
        git: Option<BTreeMap<Label, Line>>,
    }

    /// Something that shows how far a run is.
    pub struct EvidenceWish {
        /// What sort of thing.
        kind: Label,
        /// Where it is.
        reference: Line,
        /// What it shows.
        summary: Option<Line>,
    }
}

impl Saying for Begin {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("begin", "/v1/runs/{run}/begin"),
        Hints::SETS,
        &["id", "state", "attempt"],
        "Say that you are at work on the run that you claimed",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        Ok(Said::ByAgent(self.run, self.attempt, vec![Agent::Begin]))
    }
}

impl Operation for Heartbeat {
    const ABOUT: Declaration = Declaration::of_holder(
        Audience::Supervisor,
        ("heartbeat", "/v1/runs/{run}/heartbeat"),
        Hints::SETS,
        &["run", "attempt", "lease"],
        "Renew the lease of the run that you hold",
    );

    type Answer = Renewed;

    async fn perform(self, call: &Call) -> Result<Answered<Renewed>, Problem> {
        let renew = Supervisor::Renew { lease: self.lease.map(|lease| lease.0) };
        let done = call.as_supervisor_again(self.run, self.attempt, renew).await?;
        let (Some(run), Some(lease)) = (&done.flow.run, &done.committed.lease) else {
            return Err(baton_domain::Refusal::LeaseLost.into());
        };
        let value = Renewed {
            run: RunId { task: done.flow.id, number: run.number },
            attempt: AttemptId { task: done.flow.id, number: lease.attempt },
            state: RunWord::of(run),
            lease: LeaseView { expires_at: When(lease.expires_at) },
            renew_every: renew_every(lease.length),
            answer: run.answer.map(|answer| answer.mark),
        };
        Ok(call.done(value, &done.committed))
    }
}

impl Saying for Progress {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("progress", "/v1/runs/{run}/progress"),
        Hints::ADDS,
        &["id", "state", "items_done", "items_failed"],
        "Report how far you are",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        let failed = |wish: FailedWish| FailedItem { item: wish.item, reason: wish.reason };
        let report = Report {
            summary: self.summary,
            cursor: self.cursor,
            done: self.done.unwrap_or_default(),
            failed: self.failed.unwrap_or_default().into_iter().map(failed).collect(),
        };
        let mut says = vec![];
        let applied = self.answer_applied.unwrap_or(false);
        // A report that says nothing is refused, unless it is there for the answer alone.
        if !applied || report != Report::default() {
            says.push(Agent::Progress(report));
        }
        says.extend(applied.then_some(Agent::Receive(Mark::Applied)));
        Ok(Said::ByAgent(self.run, self.attempt, says))
    }
}

impl Saying for Checkpoint {
    const DECLARED: Declaration = Declaration::of_holder(
        Audience::Agent,
        ("checkpoint", "/v1/runs/{run}/checkpoints"),
        Hints::ADDS,
        &["id", "state", "attempt"],
        "Leave a note for the next holder to go on from",
    );

    type Shown = RunView;

    fn said(self) -> Result<Said, Problem> {
        let evidence = |wish: EvidenceWish| Evidence {
            kind: wish.kind,
            reference: wish.reference,
            summary: wish.summary,
        };
        let git = self.git.unwrap_or_default();
        if git.keys().any(|name| name.as_str().starts_with(WORKERS_OWN)) {
            let rule = format!(
                "must not have names that begin with `{WORKERS_OWN}`: they are the workers'"
            );
            return Err(Problem::invalid(vec![Violation { field: "git".into(), rule }]));
        }
        let note = Note {
            summary: self.summary,
            cursor: self.cursor,
            evidence: self.evidence.unwrap_or_default().into_iter().map(evidence).collect(),
            git,
        };
        let says = Agent::Checkpoint(Box::new(note));
        Ok(Said::ByAgent(self.run, self.attempt, vec![says]))
    }
}
