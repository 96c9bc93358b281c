//! What a reviewer found of what was submitted: a word on the submission, signed, and no run of its own.

use baton_domain::Refusal;
use baton_domain::command::{Command, Expect, Person, Review as Said};
use baton_domain::contract::{Finding, Receipt};
use baton_domain::ids::{LineId, RunId};
use baton_domain::limits::MISSING_MAX;
use baton_domain::text::{Item, Reason};
use baton_store::TaskRow;

use crate::call::Call;
use crate::operation::{Answered, Audience, Declaration, Hints, Level, Method, Operation, Permit};
use crate::problem::Problem;
use crate::receipts::{Found, Signer, Statement, asks};
use crate::shape::{RunRef, record, words};
use crate::views::RunView;

use super::waive::{submitted, tree};

words! {
    /// What a reviewer says.
    pub enum ReviewVerdict {
        /// It counts.
        Approve = "approve",
        /// It does not: somebody goes on with what is missing.
        Reject = "reject",
    }
}

record! {
    /// What was found of what a run submitted.
    pub struct Review {
        /// Which run; its commands have passed, and it waits for this.
        run: RunRef,
        /// What you say.
        verdict: ReviewVerdict,
        /// Why.
        reason: Reason,
        /// How sure you are, in percent.
        confidence: Option<u8>,
        /// What is still to be done, if you reject it: the next attempt is told.
        #[at_most(MISSING_MAX)]
        missing: Option<Vec<Item>>,
    }
}

impl Operation for Review {
    const ABOUT: Declaration = Declaration {
        noun: "run",
        verb: "review",
        summary: "Approve or reject what a run submitted; never for whoever did the work",
        method: Method::Post,
        path: "/v1/runs/{run}/review",
        permit: Permit::Scope(Level::Write),
        audience: Audience::Anyone,
        hints: Hints::ENDS,
        columns: &["id", "state", "result"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        if call.envelope().pass.is_some() {
            let detail = "whoever works on an attempt reviews nothing";
            return Err(Problem::new("not_for_you", detail));
        }
        let task = call.task_of(self.run)?;
        let row = call.task(task).await?;
        let approved = self.verdict == ReviewVerdict::Approve;
        let receipts = if approved { self.receipts(call, &row).await? } else { vec![] };
        let said = Said {
            by: call.caller().principal.clone(),
            approved,
            confidence: self.confidence.unwrap_or(100),
            missing: self.missing.clone().unwrap_or_default(),
            reason: self.reason.clone(),
            receipts,
        };
        // What is signed is about the task as it was read, and about no other.
        let version = call.envelope().if_match.unwrap_or(row.flow.version);
        let run = match self.run {
            RunRef::Run(run) => Some(run.number),
            RunRef::Live(_) | RunRef::Mine => None,
        };
        let expect = Expect { version: Some(version), run };
        let commands =
            vec![Command::Expect(expect), Command::Person(Person::Review(Box::new(said)))];
        let done = call.on_task(task, commands).await?;
        call.run_view(&done).await
    }
}

impl Review {
    /// The reviewer's word on every line that nothing else answers.
    async fn receipts(&self, call: &Call, row: &TaskRow) -> Result<Vec<Receipt>, Problem> {
        // The rules say why, if nothing waits for a review.
        let Some((run, mark)) = row.flow.run.as_ref().and_then(submitted) else {
            return Ok(vec![]);
        };
        let contract = row.flow.contract.as_ref().map(|mark| mark.hash.clone());
        let (contract, tree) =
            (contract.ok_or(Refusal::ContractChanged)?, tree(call, row, mark).await?);
        let signer = Signer::new(&call.engine().keyring().proving());
        let receipt = |line: &LineId| {
            let finding = Finding::Holds { evidence: None };
            let term = row.brief.contract.lines.get(line)?;
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
                found: Found::Holds,
                reason: Some(self.reason.clone()),
                evidence: None,
                by: call.caller().principal.clone(),
                at: call.engine().now(),
            };
            let signed = Some(signer.sign(&statement));
            Some(Receipt { line: line.clone(), finding, at: statement.at, signed })
        };
        Ok(row.brief.contract.reviewed().filter_map(receipt).collect())
    }
}
