//! A project that is set up from the folder that it is about: where that is, and what its committed `baton.toml` says of
//! its stages.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::client::Failure;
use crate::contract::{Asked, Error, FILE, FILE_BYTES_MAX, Pipeline, SCHEMA_BYTES_MAX};
use crate::declaration::Declaration;
use crate::init;
use crate::problem::Problem;
use crate::shape::Span;
use crate::worktree::{Git, Repository};

use super::Session;
use super::worktrees::refused;

/// Whether this is a project of which nothing but its name is said.
pub(super) fn is_open(about: &Declaration, arguments: &Map<String, Value>) -> bool {
    let said = ["root", "stages", "promote", "home", "target", "push", "archive_after"];
    (about.noun, about.verb) == ("project", "add")
        && !said.iter().any(|name| arguments.contains_key(*name))
}

/// Adds what the folder says, if it is that of the project.
pub(super) async fn fill(
    session: &Session<'_>,
    arguments: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let Ok(here) = std::env::current_dir() else { return Ok(()) };
    let root = init::root(&here);
    let named = init::project_of(&here);
    if named.is_none() || named.as_deref() != arguments.get("project").and_then(Value::as_str) {
        return Ok(());
    }
    arguments.insert("root".to_owned(), root.display().to_string().into());
    if !init::is_repository(&root) {
        return Ok(());
    }
    let programs = session.around.programs.clone();
    let looked = tokio::task::spawn_blocking(move || committed(&programs, &root)).await;
    let broke = |_| Failure::from(Problem::new("internal", "it broke on the way"));
    if let Some(pipeline) = looked.map_err(broke)?? {
        arguments.extend(told(pipeline));
    }
    Ok(())
}

/// What the file of the last commit says; nothing if there is none yet.
fn committed(programs: &[PathBuf], root: &Path) -> Result<Option<Pipeline>, Failure> {
    let git = Git::find(programs).map_err(refused)?;
    let repository = Repository::at(&git, root).map_err(refused)?;
    let none = || {
        let detail = format!("no commit has {FILE} yet: nothing of it counts before");
        let next = format!("git add {FILE} && git commit -m \"Set up Baton\"");
        Failure::from(Problem::new("not_found", detail).next(next))
    };
    let head = repository.resolve("HEAD").map_err(|_| none())?;
    let files = repository.files(&head).map_err(refused)?;
    let bytes = files.read(FILE, FILE_BYTES_MAX).map_err(refused)?.ok_or_else(none)?;
    let schema = |path: &str| files.read(path, SCHEMA_BYTES_MAX).ok().flatten();
    let wrong =
        |error: Error| Failure::from(Problem::new("invalid", error.to_string()).next(error.next()));
    Ok(Asked::read(&bytes, &schema).map_err(wrong)?.pipeline)
}

/// The same as arguments.
fn told(pipeline: Pipeline) -> Map<String, Value> {
    let Pipeline { stages, landing, promote, archive_after } = pipeline;
    let mut told = Map::new();
    told.insert("stages".to_owned(), json!(stages));
    told.insert("promote".to_owned(), promote.into());
    let texts = [
        ("target", landing.target.map(|line| line.to_string())),
        ("push", landing.push.map(|line| line.to_string())),
        ("home", landing.home.map(|home| home.to_string())),
        ("archive_after", archive_after.map(|length| Span(length).to_string())),
    ];
    told.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into()))));
    told
}
