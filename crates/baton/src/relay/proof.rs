//! What a project asks of a run, and what was found of what was submitted, as workers tell it.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::{Command, Proof, Supervisor, Verdict};
use baton_domain::contract::{Binding, Finding, Receipt, Submission, SubmissionMark, Term};
use baton_domain::event::Event;
use baton_domain::ids::{AttemptId, LineId, RunId};
use baton_domain::run::Purpose;
use baton_domain::task::Brief;
use baton_domain::text::{Line, Reason};
use baton_store::TaskRow;
use baton_store::read::Happened;

use crate::contract::hash;
use crate::gates::checks;
use crate::protocol::{Ask, Bind, GateEnd, GateResult, Gates};
use crate::receipts::{Found, Signer, Statement, asks};
use crate::views::ContractLine;

use super::post::Post;
use super::report::{Refused, Wrong};

/// The commands that a contract has, as a worker is asked to run them.
pub(super) fn asked(brief: &Brief) -> Vec<Ask> {
    let ask = |check: crate::gates::Check| Ask {
        line: check.line,
        command: check.command,
        timeout_ms: check.timeout.0,
    };
    checks(&brief.contract).into_iter().map(ask).collect()
}

impl Post {
    /// What a project asks for becomes part of what is asked of the run; what cannot be read, or does not go with
    /// what the task asks for, parks it.
    pub(super) async fn bound(
        &self,
        frame: &Bind,
        proof: &Proof,
    ) -> Result<Option<Command>, Refused> {
        let says = |says| Ok(Some(Command::Supervisor(proof.clone(), says)));
        if let Some(wrong) = &frame.wrong {
            return says(Supervisor::Unbound(wrong.clone()));
        }
        let (contract, _) = ContractLine::contract(frame.lines.clone())
            .map_err(|wrong| invalid("lines", format!("`{}` {}", wrong.field, wrong.rule)))?;
        let protected: BTreeSet<Line> = frame.protected.iter().flatten().cloned().collect();
        let Some(row) = self.row(frame.attempt).await? else { return Ok(None) };
        let all = match row.brief.with_bound(&contract) {
            Ok(all) => all,
            Err(refusal) => {
                let why = format!("what baton.toml asks for does not go with the task: {refusal}");
                return says(Supervisor::Unbound(told(&why)));
            }
        };
        let (base, hash) = (frame.base.clone(), hash(&all, &protected));
        says(Supervisor::Bind(Box::new(Binding { contract, protected, base, hash })))
    }

    /// What was found of every line, signed.
    pub(super) async fn found(
        &self,
        frame: &Gates,
        proof: &Proof,
    ) -> Result<Option<Command>, Refused> {
        let Some(row) = self.row(frame.attempt).await? else { return Ok(None) };
        let mut results = BTreeMap::new();
        for result in &frame.results {
            if results.insert(&result.line, result).is_some() {
                return Err(invalid("results", "`results` names a line twice".to_owned()));
            }
        }
        let run = row.flow.run.as_ref();
        let held = run.and_then(|run| run.held());
        // A stage that Baton works checks what was submitted in the one before.
        let before = || {
            let raised = row.flow.last.as_ref().and_then(|last| last.submitted).unwrap_or(0);
            let attempt = frame.attempt.number;
            SubmissionMark { raised, attempt, tree: true, review: false }
        };
        let checks = held.filter(|held| held.purpose == Purpose::Verify);
        let mark = held.and_then(|held| held.submission).or_else(|| checks.map(|_| before()));
        let (Some(run), Some(mark)) = (run, mark) else {
            // The rules say that nothing is to be verified.
            let verdict = Verdict::default();
            return Ok(Some(Command::Verifier(proof.clone(), verdict)));
        };
        let submission = self.submission(frame.attempt, mark).await?;
        let id = RunId { task: row.flow.id, number: run.number };
        let receipts = self.receipts(&row, (id, mark), frame, (&results, &submission));
        let guarded = frame.guarded.clone().unwrap_or_default();
        let verdict = Verdict { receipts, commit: frame.commit.clone(), guarded };
        Ok(Some(Command::Verifier(proof.clone(), verdict)))
    }

    fn receipts(
        &self,
        row: &TaskRow,
        (run, mark): (RunId, SubmissionMark),
        frame: &Gates,
        (results, submission): (&BTreeMap<&LineId, &GateResult>, &Submission),
    ) -> Vec<Receipt> {
        let engine = self.relay.engine();
        let signer = Signer::new(&engine.keyring().proving());
        let Some(contract) = row.flow.contract.as_ref().map(|mark| mark.hash.clone()) else {
            return vec![];
        };
        let receipt = |(line, term): (&LineId, &Term)| {
            let finding = finding(term, results.get(line).copied(), submission)?;
            let statement = Statement {
                tenant: self.caller.tenant.clone(),
                task: row.flow.id,
                run,
                submission: mark.raised,
                line: line.clone(),
                asks: asks(term),
                contract: contract.clone(),
                tree: frame.commit.as_ref().and_then(|at| Line::new("tree", at.as_str()).ok()),
                environment: Some(frame.environment.clone()),
                found: Found::Holds,
                reason: None,
                evidence: None,
                by: self.caller.principal.clone(),
                at: engine.now(),
            };
            let statement = statement.finding(&finding);
            let signed = Some(signer.sign(&statement));
            Some(Receipt { line: line.clone(), finding, at: statement.at, signed })
        };
        row.brief.contract.lines.iter().filter_map(receipt).collect()
    }

    async fn row(&self, attempt: AttemptId) -> Result<Option<TaskRow>, Refused> {
        let row = self.relay.engine().task(&self.caller.tenant, attempt.task).await;
        Ok(row.map_err(Refused::Store)?.what)
    }

    /// What was submitted.
    async fn submission(
        &self,
        attempt: AttemptId,
        mark: SubmissionMark,
    ) -> Result<Submission, Refused> {
        let (engine, tenant) = (self.relay.engine(), &self.caller.tenant);
        let entries = engine.entries_at(tenant, attempt.task, vec![mark.raised]).await;
        for entry in entries.map_err(Refused::Store)? {
            let Happened::ToTask(events) = &entry.happened else { continue };
            for event in events {
                if let Event::Submitted { submission, .. } = event {
                    return Ok(submission.clone());
                }
            }
        }
        Ok(Submission::default())
    }
}

/// What is known of a line; none of one that only a reviewer can answer.
fn finding(term: &Term, result: Option<&GateResult>, submission: &Submission) -> Option<Finding> {
    match term {
        // The completion would have been refused without it.
        Term::Artifact { path, .. } => {
            let evidence = submission.answering(path).next().map(|one| one.digest.clone());
            Some(Finding::Holds { evidence })
        }
        Term::Gate { .. } | Term::Criterion { check: Some(_), .. } => Some(match result {
            None => Finding::Fails { reason: told("it was not run"), evidence: None },
            Some(result) if is_success(result) => Finding::Holds { evidence: result.log.clone() },
            Some(result) => {
                let tail = result.tail.as_ref().map(|tail| format!("\n{tail}"));
                let reason = told(&format!("{}{}", words(result), tail.unwrap_or_default()));
                Finding::Fails { reason, evidence: result.log.clone() }
            }
        }),
        Term::Criterion { check: None, .. } | Term::Review => None,
    }
}

fn is_success(result: &GateResult) -> bool {
    result.ended == GateEnd::Exited && result.code == Some(0)
}

/// How a command ended, in a sentence.
fn words(result: &GateResult) -> String {
    let code = result.code.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
    match result.ended {
        GateEnd::Exited => format!("it exited with {code}"),
        GateEnd::Signalled => format!("signal {code} ended it"),
        GateEnd::TimedOut => format!("it took more than {} ms", result.took_ms),
        GateEnd::NotStarted => {
            let why = result.why.as_ref().map_or("nobody knows why", Reason::as_str);
            format!("it could not be started: {why}")
        }
    }
}

fn told(text: &str) -> Reason {
    let cut = &text[..text.floor_char_boundary(2_000)];
    let usual = || Reason::new("reason", "it cannot be told").expect("a plain sentence");
    Reason::new("reason", cut).unwrap_or_else(|_| usual())
}

fn invalid(field: &'static str, detail: String) -> Refused {
    Refused::Frame(Wrong { code: "invalid", detail, field: Some(field) })
}
