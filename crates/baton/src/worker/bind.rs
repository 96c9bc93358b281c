//! What a project asks of a run, from the commit that its work begins from: what an agent writes into its own copy of
//! the file changes nothing of it.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use baton_domain::contract::Contract;
use baton_domain::ids::{AttemptId, Commit, Digest, StageName};

use crate::contract::{self, Asked, FILE, FILE_BYTES_MAX, SCHEMA_BYTES_MAX, Whole};
use crate::protocol::Bind;
use crate::views::ContractLine;
use crate::worktree::{self, Files, Oid, Repository};

use super::ground::Ground;
use super::prepare::{self, open_plain};

/// What a project asks for, and the schemas that its lines name.
#[derive(Clone, Debug)]
pub struct Terms {
    pub whole: Whole,
    pub schemas: BTreeMap<Digest, Vec<u8>>,
    pub base: Option<Oid>,
}

impl Terms {
    /// What the server is told.
    #[must_use]
    pub fn frame(&self, attempt: AttemptId) -> Bind {
        let base = self.base.as_ref().and_then(|base| Commit::new(base.as_str()).ok());
        let protected = self.whole.protected.iter().cloned().collect();
        let lines = ContractLine::all(&self.whole.contract);
        Bind { attempt, seq: 0, base, lines, protected: Some(protected), wrong: None }
    }
}

/// What is asked of a run that works here; none if the project says nothing.
///
/// # Errors
/// If nobody can tell.
pub fn terms(
    ground: &Ground,
    root: Option<&Path>,
    stage: &StageName,
) -> Result<Option<Terms>, prepare::Error> {
    match ground.worktree() {
        Some(worktree) => {
            let base = worktree.base().clone();
            of_files(&worktree.depot()?.files(&base), stage, Some(base))
        }
        None => root.map_or(Ok(None), |root| of_folder(root, stage)),
    }
}

/// Whether a commit can be worked on from now on: what it asks for must be sound, and what the owner wrote must
/// be in it.
///
/// # Errors
/// If not.
pub fn check(repository: &Repository, base: &Oid, stage: &StageName) -> Result<(), prepare::Error> {
    let found = of_files(&repository.files(base)?, stage, Some(base.clone()))?;
    if found.is_none() && repository.root().join(FILE).is_file() {
        let why = format!(
            "{FILE} is in the project's folder, but not in the commit that the work begins from: git add {FILE} && \
             git commit -m \"Set up Baton\", there"
        );
        return Err(prepare::Error::Contract(why));
    }
    Ok(())
}

/// What the files of a commit ask for; none if they say nothing.
///
/// # Errors
/// If nobody can tell.
pub fn of_files(
    files: &Files,
    stage: &StageName,
    base: Option<Oid>,
) -> Result<Option<Terms>, prepare::Error> {
    let bytes = match files.read(FILE, FILE_BYTES_MAX) {
        Err(worktree::Error::TooMuch { .. }) => return Err(wrong(&contract::Error::TooLarge)),
        other => other?,
    };
    let Some(bytes) = bytes else { return Ok(None) };
    // A schema that is too long is as good as none: the refusal names it.
    let schema = |path: &str| files.read(path, SCHEMA_BYTES_MAX).ok().flatten();
    read(&bytes, &schema, stage, base).map(Some)
}

fn of_folder(root: &Path, stage: &StageName) -> Result<Option<Terms>, prepare::Error> {
    let file = |name: &str, bytes_max: usize| {
        let mut bytes = vec![];
        let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let open: File = open_plain(&root.join(name)).ok()?;
        open.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let Some(bytes) = file(FILE, FILE_BYTES_MAX) else { return Ok(None) };
    read(&bytes, &|path| file(path, SCHEMA_BYTES_MAX), stage, None).map(Some)
}

fn read(
    bytes: &[u8],
    schema: &dyn Fn(&str) -> Option<Vec<u8>>,
    stage: &StageName,
    base: Option<Oid>,
) -> Result<Terms, prepare::Error> {
    let asked = Asked::read(bytes, schema).map_err(|error| wrong(&error))?;
    let whole = asked.merged(Some(stage), &Contract::default()).map_err(|error| wrong(&error))?;
    Ok(Terms { whole, schemas: asked.schemas, base })
}

fn wrong(error: &contract::Error) -> prepare::Error {
    prepare::Error::Contract(format!("{error}; next: {}", error.next()))
}
