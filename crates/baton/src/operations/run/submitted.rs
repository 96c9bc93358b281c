//! What is looked at before a completion goes to the rules: the bytes that it names, and the tasks that it
//! tells of. Everything that is wrong is told at once.
//!
//! Bytes by digest never change and never go, so what was found here still is so when the order commits.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::contract::{Artifact, Contract, Submission, Term};
use baton_domain::event::Event;
use baton_domain::ids::{AttemptId, Digest, LineId, TaskId, TenantId};
use baton_domain::refusal::Missing;
use baton_domain::run::Phase;
use baton_domain::text::Summary;
use baton_store::TaskRow;
use baton_store::blobs::{Blobs, Error};
use baton_store::read::Happened;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::call::Call;
use crate::problem::Problem;
use crate::shape::{RunRef, Violation};

/// Tasks that one summary may tell of.
const CITED_MAX: usize = 64;
/// Bytes of an artifact that is held against a schema, which needs it whole in memory.
const CHECKED_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a schema.
const SCHEMA_BYTES_MAX: u64 = 64 << 10;
/// Words of a schema that lead elsewhere: a few of them can stand for more than anybody can walk through.
const LEADS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Refuses a completion that names what is not so, and lists all of it. What the rules would refuse anyway is
/// left to them.
pub async fn check(
    call: &Call,
    run: RunRef,
    attempt: Option<AttemptId>,
    (summary, submission): (Option<&Summary>, &Submission),
) -> Result<(), Problem> {
    submission.check()?;
    let cited = cited(summary)?;
    // What happened is not looked at again: by now its own submission is the last one.
    if call.is_repeated().await? {
        return Ok(());
    }
    let row = call.task(call.task_of(run)?).await?;
    if !is_for_us(call, &row, attempt, submission) {
        return Ok(());
    }
    let mut missing = row.brief.contract.missing(submission);
    missing.extend(stale(call, &row, submission).await?);
    missing.extend(unkept(call, &row.brief.contract, submission).await?);
    for task in cited {
        if call.engine().task(&call.caller().tenant, task).await?.what.is_none() {
            missing.push(open("summary", "task_unknown", &task.to_string()));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Refusal::Incomplete { missing }.into()) }
}

/// Whether the rules would get as far as to what is missing.
fn is_for_us(
    call: &Call,
    row: &TaskRow,
    attempt: Option<AttemptId>,
    submission: &Submission,
) -> bool {
    let Some(held) = call.held(&row.flow, attempt) else { return false };
    let speaks = match held.phase {
        Phase::Leased | Phase::Working | Phase::WaitingInput(_) => true,
        Phase::Verifying { .. } | Phase::Stopping { .. } => false,
    };
    let asked = row.flow.contract.as_ref().map(|mark| &mark.hash);
    let answers = submission.contract.as_ref().is_none_or(|own| asked == Some(own));
    speaks && answers
}

/// The tasks that a summary tells of, by their numbers: an id has one spelling.
fn cited(summary: Option<&Summary>) -> Result<BTreeSet<TaskId>, Problem> {
    let text = summary.map_or("", Summary::as_str);
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let cited: BTreeSet<TaskId> = words.filter_map(|word| word.parse().ok()).collect();
    if cited.len() > CITED_MAX {
        let rule = format!("must tell of at most {CITED_MAX} tasks");
        return Err(Problem::invalid(vec![Violation { field: "summary".to_owned(), rule }]));
    }
    Ok(cited)
}

/// Artifacts that an attempt before this one submitted, to the bit: this one has not made them.
async fn stale(
    call: &Call,
    row: &TaskRow,
    submission: &Submission,
) -> Result<Vec<Missing>, Problem> {
    let Some(run) = &row.flow.run else { return Ok(vec![]) };
    // After a failed round the last submission is of the same attempt.
    let again = run.held().is_some_and(|held| held.rounds > 0);
    let last = run.trail.submitted.filter(|_| !again);
    let before = row.flow.last.as_ref().and_then(|last| last.submitted);
    let versions: Vec<u64> = last.into_iter().chain(before).collect();
    if versions.is_empty() || submission.artifacts.is_empty() {
        return Ok(vec![]);
    }
    let tenant = &call.caller().tenant;
    let entries = call.engine().entries_at(tenant, row.flow.id, versions).await?;
    let mut known: BTreeSet<(&str, &Digest)> = BTreeSet::new();
    for entry in &entries {
        let Happened::ToTask(events) = &entry.happened else { continue };
        for event in events {
            let Event::Submitted { submission, .. } = event else { continue };
            known.extend(submission.artifacts.iter().map(|one| (one.path.as_str(), &one.digest)));
        }
    }
    let is_stale = |one: &&Artifact| known.contains(&(one.path.as_str(), &one.digest));
    let stale = submission.artifacts.iter().filter(is_stale);
    let contract = &row.brief.contract;
    Ok(stale.map(|one| open(line_of(contract, one), "artifact_stale", one.path.as_str())).collect())
}

/// Artifacts whose bytes are not here as it is said, or do not fit.
async fn unkept(
    call: &Call,
    contract: &Contract,
    submission: &Submission,
) -> Result<Vec<Missing>, Problem> {
    let Some(blobs) = call.engine().blobs() else { return Ok(vec![]) };
    let (tenant, contract, submission) =
        (call.caller().tenant.clone(), contract.clone(), submission.clone());
    let looked = spawn_blocking(move || {
        let kept = Kept { blobs, tenant, contract: &contract };
        submission.artifacts.iter().map(|one| kept.look(one)).collect::<Result<Vec<_>, _>>()
    });
    let broke = |why: String| {
        tracing::error!(%why, "the artifacts of a submission could not be looked at");
        Problem::new("internal", "something broke on our side; the log says what")
    };
    let found = looked.await.map_err(|_| broke("a thread ended".to_owned()))?;
    Ok(found.map_err(|error| broke(error.to_string()))?.into_iter().flatten().collect())
}

struct Kept<'a> {
    blobs: Arc<dyn Blobs>,
    tenant: TenantId,
    contract: &'a Contract,
}

impl Kept<'_> {
    fn look(&self, artifact: &Artifact) -> Result<Option<Missing>, Error> {
        let line = line_of(self.contract, artifact);
        let bad = |code| Ok(Some(open(line, code, artifact.path.as_str())));
        let digest = artifact.digest.as_str().parse()?;
        match self.blobs.stat(self.tenant.as_str(), &digest) {
            Err(Error::NotFound { .. }) => return bad("artifact_not_uploaded"),
            Err(error) => return Err(error),
            Ok(stat) if stat.size != artifact.bytes => return bad("artifact_size"),
            Ok(_) => {}
        }
        for (_, schema) in answered(self.contract, artifact) {
            let Some(schema) = schema else { continue };
            if artifact.bytes > CHECKED_BYTES_MAX {
                return bad("artifact_too_large");
            }
            let Some(schema) = self.read(schema, SCHEMA_BYTES_MAX)? else {
                return bad("schema_not_uploaded");
            };
            let Some(bytes) = self.read(&artifact.digest, CHECKED_BYTES_MAX)? else {
                return bad("artifact_not_uploaded");
            };
            match fits(&schema, &bytes) {
                Some(true) => {}
                Some(false) => return bad("artifact_schema"),
                None => return bad("schema_unusable"),
            }
        }
        Ok(None)
    }

    fn read(&self, digest: &Digest, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        let blob = match self.blobs.get_verified(self.tenant.as_str(), &digest.as_str().parse()?) {
            Err(Error::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        let mut bytes = vec![];
        let read = blob.bytes.take(bytes_max + 1).read_to_end(&mut bytes);
        read.map_err(Error::SourceFailed)?;
        let whole = u64::try_from(bytes.len()).is_ok_and(|count| count <= bytes_max);
        Ok(whole.then_some(bytes))
    }
}

/// Whether bytes are JSON that fits a schema; none if the schema is none, or leads elsewhere: it must be
/// written out.
fn fits(schema: &[u8], bytes: &[u8]) -> Option<bool> {
    let schema: Value = serde_json::from_slice(schema).ok().filter(|schema| !leads(schema))?;
    let validator = jsonschema::validator_for(&schema).ok()?;
    Some(serde_json::from_slice(bytes).is_ok_and(|value: Value| validator.is_valid(&value)))
}

/// Whether anything in a schema stands for something elsewhere.
fn leads(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            map.iter().any(|(name, inner)| LEADS.contains(&name.as_str()) || leads(inner))
        }
        Value::Array(items) => items.iter().any(leads),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The lines that ask for an artifact, with their schemas.
fn answered<'a>(
    contract: &'a Contract,
    artifact: &'a Artifact,
) -> impl Iterator<Item = (&'a LineId, Option<&'a Digest>)> {
    contract.lines.iter().filter_map(|(line, term)| match term {
        Term::Artifact { path, schema, .. } => {
            let fits = baton_domain::pattern::matches(path.as_str(), artifact.path.as_str());
            fits.then_some((line, schema.as_ref()))
        }
        Term::Gate { .. } | Term::Criterion { .. } | Term::Review => None,
    })
}

/// The first line that asks for an artifact; what no line asks for is told under `artifacts`.
fn line_of<'a>(contract: &'a Contract, artifact: &'a Artifact) -> &'a str {
    answered(contract, artifact).next().map_or("artifacts", |(line, _)| line.as_str())
}

fn open(line: &str, code: &'static str, path: &str) -> Missing {
    let line = LineId::new(line).expect("it is a line, or a plain word");
    Missing { line, code, path: path.to_owned() }
}
