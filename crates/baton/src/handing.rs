//! The client's part of a completion: the files that a contract asks for are where the client is, not where the
//! server is. A refusal names the lines that are open; what answers them here is taken, handed in by its digest, and
//! named when the same is asked once more.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_domain::contract::{Contract, Term};
use baton_domain::ids::LineId;
use baton_domain::refusal::Missing;
use baton_domain::text::Line;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use crate::artifacts::{Gathered, Source};
use crate::client::{Client, Failure};
use crate::declaration::Declaration;
use crate::init;

/// Whether this is a completion that leaves it to the client to find what was made.
#[must_use]
pub fn is_open(about: &Declaration, arguments: &Map<String, Value>) -> bool {
    (about.noun, about.verb) == ("run", "complete") && !arguments.contains_key("artifacts")
}

/// What the refusal of a completion misses and is in the folder, handed in: the artifacts to name.
///
/// # Errors
/// The same refusal, if there is nothing to add; or with what is wrong with the files that are here.
pub async fn hand_in(client: &Client, refused: Failure, folder: PathBuf) -> Result<Value, Failure> {
    let Some(contract) = wanted(&refused.body) else { return Err(refused) };
    let gathering = spawn_blocking(move || -> std::io::Result<_> {
        let copies = tempfile::tempdir()?;
        let source = Source::open(&init::root(&folder))?;
        let gathered = source.gather(&contract, &BTreeMap::new(), copies.path());
        Ok((copies, gathered))
    });
    let Ok(Ok((copies, Gathered { made, open }))) = gathering.await else { return Err(refused) };
    if !open.is_empty() {
        return Err(retold(refused, &open));
    }
    let mut artifacts = vec![];
    for one in &made {
        let artifact = &one.artifact;
        let digest = artifact.digest.as_str();
        let named = digest.parse().expect("a digest is the name of a blob");
        client.put_blob(&one.copy, &named).await?;
        artifacts.push(json!({ "path": artifact.path, "digest": digest, "bytes": artifact.bytes }));
    }
    drop(copies);
    Ok(artifacts.into())
}

/// The lines of a refusal that a file could answer.
fn wanted(body: &Value) -> Option<Contract> {
    let missing = body["missing"].as_array().filter(|_| body["code"] == "incomplete")?;
    let line = |one: &Value| {
        let path = Line::new("path", one["path"].as_str()?).ok()?;
        let name = LineId::new(one["line"].as_str()?).ok()?;
        let absent = one["code"] == "artifact_missing";
        absent.then_some((name, Term::Artifact { path, bytes_min: 0, schema: None }))
    };
    let contract = Contract { lines: missing.iter().filter_map(line).collect() };
    (!contract.lines.is_empty() && contract.check().is_ok()).then_some(contract)
}

/// The same refusal, with what was found here in the place of what the server could not see.
fn retold(mut refused: Failure, open: &[Missing]) -> Failure {
    let told = |one: &Missing| json!({ "line": one.line, "code": one.code, "path": one.path });
    let rest: Vec<Value> = match refused.body["missing"].as_array() {
        Some(missing) => {
            missing.iter().filter(|one| one["code"] != "artifact_missing").cloned().collect()
        }
        None => vec![],
    };
    refused.body["missing"] = open.iter().map(told).chain(rest).collect();
    refused
}

#[cfg(test)]
mod tests;
