//! A person's word in the place of a proof.

use baton_domain::Refusal;
use baton_domain::command::{Command, Expect, Person};
use baton_domain::contract::{Finding, Receipt, SubmissionMark, Term};
use baton_domain::event::Event;
use baton_domain::ids::{LineId, RunId};
use baton_domain::limits::LINES_MAX;
use baton_domain::run::{Idle, Run, RunState};
use baton_domain::text::{Line, Reason};
use baton_store::TaskRow;
use baton_store::order::Kind;
use baton_store::read::Happened;

use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::receipts::{Found, Signer, Statement, asks};
use crate::shape::{RunRef, record};
use crate::views::RunView;

record! {
    /// Lines of a contract to vouch for.
    pub struct Waive {
        /// Which run; what it submitted counts then.
        run: RunRef,
        /// Which lines; all of them must be named, so all are meant if none is.
        #[at_most(LINES_MAX)]
        lines: Option<Vec<LineId>>,
        /// Why it counts although nothing proves it.
        reason: Reason,
    }
}

impl Operation for Waive {
    const ABOUT: Declaration = Declaration {
        noun: "run",
        verb: "waive",
        summary: "Vouch for what a run submitted, so that it counts without proof; signed",
        method: Method::Post,
        path: "/v1/runs/{run}/waive",
        permit: Permit::Scope(Level::Force),
        audience: Audience::Person,
        hints: Hints::ENDS,
        columns: &["id", "state", "result"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        if call.caller().kind != Kind::Person {
            let detail = "only a person vouches for what nobody proved";
            return Err(Problem::new("not_for_you", detail));
        }
        let task = call.task_of(self.run)?;
        let row = call.task(task).await?;
        let says = Person::Waive(self.receipts(call, &row).await?);
        // What is signed is about the task as it was read, and about no other.
        let version = call.envelope().if_match.unwrap_or(row.flow.version);
        let run = match self.run {
            RunRef::Run(run) => Some(run.number),
            RunRef::Live(_) | RunRef::Mine => None,
        };
        let expect = Expect { version: Some(version), run };
        let commands = vec![Command::Expect(expect), Command::Person(says)];
        let done = call.on_task(task, commands).await?;
        call.run_view(&done).await
    }
}

impl Waive {
    async fn receipts(&self, call: &Call, row: &TaskRow) -> Result<Vec<Receipt>, Problem> {
        // The rules say why, if nothing is submitted.
        let Some((run, mark)) = row.flow.run.as_ref().and_then(submitted) else {
            return Ok(vec![]);
        };
        let lines = &row.brief.contract.lines;
        let named = match &self.lines {
            Some(named) => named.clone(),
            None => lines.keys().cloned().collect(),
        };
        let contract = row.flow.contract.as_ref().map(|mark| mark.hash.clone());
        let (contract, tree) =
            (contract.ok_or(Refusal::ContractChanged)?, tree(call, row, mark).await?);
        let signer = Signer::new(&call.engine().keyring().proving());
        let receipt = |line: LineId| {
            let term: &Term = lines.get(&line).ok_or_else(|| Refusal::Invalid {
                field: "lines".into(),
                rule: format!("must be lines of the contract, and `{line}` is none"),
            })?;
            let finding = Finding::Waived { reason: self.reason.clone() };
            let statement = Statement {
                tenant: call.caller().tenant.clone(),
                task: row.flow.id,
                run: RunId { task: row.flow.id, number: run.number },
                submission: mark.raised,
                line: line.clone(),
                asks: asks(term),
                contract: contract.clone(),
                tree: tree.clone(),
                environment: None,
                found: Found::Waived,
                reason: None,
                evidence: None,
                by: call.caller().principal.clone(),
                at: call.engine().now(),
            };
            let statement = statement.finding(&finding);
            let signed = Some(signer.sign(&statement));
            Ok(Receipt { line, finding, at: statement.at, signed })
        };
        named.into_iter().map(receipt).collect()
    }
}

pub(super) fn submitted(run: &Run) -> Option<(&Run, SubmissionMark)> {
    match &run.state {
        RunState::Idle(Idle::Submitted(mark)) => Some((run, *mark)),
        RunState::Idle(Idle::Queued | Idle::Delayed { .. } | Idle::Blocked(_))
        | RunState::Held(_) => None,
    }
}

/// The tree that was submitted.
pub(super) async fn tree(
    call: &Call,
    row: &TaskRow,
    mark: SubmissionMark,
) -> Result<Option<Line>, Problem> {
    let tenant = &call.caller().tenant;
    let entries = call.engine().entries_at(tenant, row.flow.id, vec![mark.raised]).await?;
    let mut tree = None;
    for entry in &entries {
        let Happened::ToTask(events) = &entry.happened else { continue };
        for event in events {
            let Event::Submitted { submission, .. } = event else { continue };
            tree.clone_from(&submission.tree);
        }
    }
    Ok(tree)
}
