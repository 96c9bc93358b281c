//! Attempts, and what they left behind, as callers see them.

use std::collections::BTreeMap;

use baton_domain::command::Evidence;
use baton_domain::contract::{Finding, Receipt};
use baton_domain::deadline::Deadline;
use baton_domain::history::{AttemptRecord, CheckpointRecord};
use baton_domain::ids::{AttemptId, Digest, Label, LineId, PrincipalId, RunId, TaskId};
use baton_domain::limits::EVIDENCE_MAX;
use baton_domain::run::{Certainty, Death, Held, Mode, Outcome, Purpose};
use baton_domain::text::{Code, Cursor, Line, Reason, Signed, Summary};
use baton_domain::trail::Ended;

use crate::shape::{When, record, words};

words! {
    /// What was found of a line of a contract.
    pub enum FoundWord {
        /// It is true.
        Holds = "holds",
        /// It is not.
        Fails = "fails",
        /// A person vouches for it.
        Waived = "waived",
    }
}

record! {
    /// One try of a run by one holder.
    pub struct AttemptView {
        /// Which attempt.
        id: AttemptId,
        /// Of which run.
        run: RunId,
        /// Who held it.
        holder: PrincipalId,
        /// Whether a worker watched the agent.
        mode: Mode,
        /// What it was held for.
        purpose: Purpose,
        /// When it began.
        claimed_at: When,
        /// When it ended; a live one has not.
        ended_at: Option<When>,
        /// How it ended.
        outcome: Option<Ended>,
        /// The stable word for why it failed.
        code: Option<Code>,
        /// What took too long.
        deadline: Option<Deadline>,
        /// What is known of its effects.
        certainty: Option<Certainty>,
        /// How the death of its processes was proved.
        death: Option<Death>,
        /// Millionths of a currency unit that it cost.
        spent_micros: u64,
    }

    /// A note of how far a run is, for the next holder to go on from.
    pub struct CheckpointView {
        /// Of which task.
        task: TaskId,
        /// Counted per task.
        number: u32,
        /// Of which run.
        run: RunId,
        /// Who left it.
        attempt: AttemptId,
        /// When.
        at: When,
        /// Whether its worker kept the work by itself, and the agent said nothing.
        snapshot: bool,
        /// How far it is.
        summary: Summary,
        /// Where to go on.
        cursor: Option<Cursor>,
        /// Items done by then.
        items_done: u32,
        /// Items failed by then.
        items_failed: u32,
        /// What shows it.
        #[at_most(EVIDENCE_MAX)]
        evidence: Vec<EvidenceView>,
        /// The state of the work tree.
        #[at_most(EVIDENCE_MAX)]
        git: BTreeMap<Label, Line>,
    }

    /// Something that shows how far a run is.
    pub struct EvidenceView {
        /// What sort of thing.
        kind: Label,
        /// Where it is.
        reference: Line,
        /// What it shows.
        summary: Option<Line>,
    }

    /// The proof of one line of a contract.
    pub struct ReceiptView {
        /// Of which task.
        task: TaskId,
        /// Which line.
        line: LineId,
        /// What was found.
        found: FoundWord,
        /// Why it does not hold, or why a person vouches for it.
        reason: Option<Reason>,
        /// The bytes that show it.
        evidence: Option<Digest>,
        /// When it was checked.
        at: When,
        /// The version of the task whose entry holds it.
        version: u64,
        /// The same as a signed text, which `receipt verify` checks without a server.
        signed: Option<Signed>,
    }
}

impl AttemptView {
    /// One that ended.
    #[must_use]
    pub fn ended(task: TaskId, record: &AttemptRecord) -> Self {
        let (code, deadline) = match &record.outcome {
            Outcome::Failed { code, .. } => (Some(code.clone()), None),
            Outcome::TimedOut { deadline } => (None, Some(*deadline)),
            Outcome::Completed { .. }
            | Outcome::Blocked { .. }
            | Outcome::Released { .. }
            | Outcome::Lost
            | Outcome::Cancelled
            | Outcome::EndedWithoutResult => (None, None),
        };
        Self {
            id: AttemptId { task, number: record.number },
            run: RunId { task, number: record.run },
            holder: record.holder.clone(),
            mode: record.mode,
            purpose: record.purpose,
            claimed_at: When(record.claimed_at),
            ended_at: Some(When(record.ended_at)),
            outcome: Some(record.outcome.ended()),
            code,
            deadline,
            certainty: Some(record.certainty),
            death: record.death,
            spent_micros: record.spent_micros,
        }
    }

    /// The one that holds the run.
    #[must_use]
    pub fn live(run: RunId, held: &Held) -> Self {
        Self {
            id: AttemptId { task: run.task, number: held.attempt },
            run,
            holder: held.holder.clone(),
            mode: held.mode,
            purpose: held.purpose,
            claimed_at: When(held.claimed_at),
            ended_at: None,
            outcome: None,
            code: None,
            deadline: None,
            certainty: None,
            death: None,
            spent_micros: held.spent_micros,
        }
    }
}

impl CheckpointView {
    /// A checkpoint as callers see it.
    #[must_use]
    pub fn of(task: TaskId, record: &CheckpointRecord) -> Self {
        let evidence = |one: &Evidence| EvidenceView {
            kind: one.kind.clone(),
            reference: one.reference.clone(),
            summary: one.summary.clone(),
        };
        Self {
            task,
            number: record.number,
            run: RunId { task, number: record.run },
            attempt: AttemptId { task, number: record.attempt },
            at: When(record.at),
            snapshot: record.snapshot,
            summary: record.note.summary.clone(),
            cursor: record.note.cursor.clone(),
            items_done: record.progress.done,
            items_failed: record.progress.failed,
            evidence: record.note.evidence.iter().map(evidence).collect(),
            git: record.note.git.clone(),
        }
    }
}

impl ReceiptView {
    /// A receipt as callers see it.
    #[must_use]
    pub fn of(task: TaskId, version: u64, receipt: &Receipt) -> Self {
        let (found, reason, evidence) = match &receipt.finding {
            Finding::Holds { evidence } => (FoundWord::Holds, None, evidence.clone()),
            Finding::Fails { reason, evidence } => {
                (FoundWord::Fails, Some(reason.clone()), evidence.clone())
            }
            Finding::Waived { reason } => (FoundWord::Waived, Some(reason.clone()), None),
        };
        Self {
            task,
            line: receipt.line.clone(),
            found,
            reason,
            evidence,
            at: When(receipt.at),
            version,
            signed: receipt.signed.clone(),
        }
    }
}
