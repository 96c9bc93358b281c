//! What of a project's history others have already, so that it is not sent to them again, and what they have that is
//! taken from them.

use std::fs;
use std::path::{Path, PathBuf};

use baton_domain::ids::{ProjectId, TaskId, TenantId};

use super::names::{of_task, refs_of};
use super::{Depot, Error, House, Key, Oid, Repository, Snapshot, Worktree};

/// Bytes of a history that is sent along with the work on it. Whoever works on a larger one has a clone of it.
pub const BASE_BYTES_MAX: u64 = 64 << 20;
/// Bases that are remembered to have been sent: those of a few weeks.
const BASES_MAX: usize = 64;
const FILE: &str = "handed.json";

impl Depot {
    /// The bases that were handed in, oldest first, each with what it can be made from.
    #[must_use]
    pub fn handed(&self) -> Vec<(Oid, Vec<String>)> {
        // A list that cannot be read is none: what it named is sent once more.
        let text = fs::read(self.handed_file()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Remembers one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note_handed(&self, base: &Oid, parts: &[String]) -> Result<(), Error> {
        let mut all = self.handed();
        if all.iter().any(|(own, _)| own == base) {
            return Ok(());
        }
        all.push((base.clone(), parts.to_vec()));
        let surplus = all.len().saturating_sub(BASES_MAX);
        let path = self.handed_file();
        let bytes = serde_json::to_vec(&all[surplus..]).map_err(std::io::Error::other);
        bytes.and_then(|bytes| crate::files::replace(&path, &bytes)).map_err(Error::file(&path))
    }

    fn handed_file(&self) -> PathBuf {
        self.objects().with_file_name(FILE)
    }
}

impl Worktree {
    /// Writes a bundle of a snapshot, over what others have.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn bundle(&self, snapshot: &Snapshot, known: &[Oid], to: &Path) -> Result<u64, Error> {
        self.depot()?.bundle(&snapshot.name, known, to)
    }

    /// Writes a bundle of the commit that its task began from, over what others have; nothing if its history is
    /// too large to be sent along.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn bundle_base(&self, known: &[Oid], to: &Path) -> Result<Option<u64>, Error> {
        let depot = self.depot()?;
        if depot.bytes()? > BASE_BYTES_MAX {
            return Ok(None);
        }
        let name = format!("{}base/{}", self.refs(), self.key().generation);
        depot.bundle(&name, known, to).map(Some)
    }

    /// Whether a commit is here.
    ///
    /// # Errors
    /// If git does not say.
    pub fn has(&self, commit: &Oid) -> Result<bool, Error> {
        self.depot()?.has(commit)
    }
}

impl House {
    /// The last worktree that a task has had here, if it has had one; of at most so many.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn newest(
        &self,
        tenant: &TenantId,
        task: TaskId,
        generations_max: u32,
    ) -> Result<Option<Worktree>, Error> {
        for generation in (1..=generations_max).rev() {
            match self.worktree(&Key { tenant: tenant.clone(), task, generation }) {
                Ok(found) => return Ok(Some(found)),
                Err(Error::NoWorktree(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether a snapshot of a task is kept here, made here or taken in.
    ///
    /// # Errors
    /// If git does not say.
    pub fn keeps(
        &self,
        (tenant, task): (&TenantId, TaskId),
        project: &ProjectId,
        snapshot: &Oid,
    ) -> Result<bool, Error> {
        let Some(depot) = self.depot(tenant, project) else { return Ok(false) };
        let refs = refs_of(self.deployment(), &of_task(tenant, task));
        Ok(depot.refs(&refs)?.iter().any(|(_, commit)| commit == snapshot))
    }

    /// Has a commit here, from the project's own repository if need be; whether it has.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub fn has_base(
        &self,
        (tenant, project): (&TenantId, &ProjectId),
        repository: Option<&Repository>,
        base: &Oid,
    ) -> Result<bool, Error> {
        let depot = self.make_depot(tenant, project, base)?;
        match repository {
            None => depot.has(base),
            Some(own) => match depot.take_commit(own, base) {
                Ok(()) => Ok(true),
                Err(Error::NoCommit(_)) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }
}
