//! The files of one commit, read as data. A repository that is somebody's is not asked under its settings: its
//! objects are borrowed by a repository of ours that lives as long as the look.

use std::path::PathBuf;

use baton_domain::ids::{ProjectId, TenantId};
use tempfile::TempDir;

use super::depot::quoted;
use super::git::Call;
use super::snapshot::Kept;
use super::{Depot, Error, House, Oid, Repository};

/// The files of a commit.
#[derive(Debug)]
pub struct Files {
    depot: Depot,
    /// Objects of somebody else that are looked at, too.
    borrowed: Option<PathBuf>,
    commit: Oid,
    #[expect(
        dead_code,
        reason = "the folder of a depot that was made for the look lives as long as this"
    )]
    place: Option<TempDir>,
}

impl Repository {
    /// The files of a commit.
    ///
    /// # Errors
    /// If there is no room for a look at them.
    pub fn files(&self, commit: &Oid) -> Result<Files, Error> {
        let place = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
        let depot = Depot::open(self.git(), &place.path().join("depot"), commit)?;
        let (borrowed, place) = (Some(self.objects()), Some(place));
        Ok(Files { depot, borrowed, commit: commit.clone(), place })
    }
}

impl Depot {
    /// The files of a commit that is here.
    #[must_use]
    pub fn files(&self, commit: &Oid) -> Files {
        Files { depot: self.clone(), borrowed: None, commit: commit.clone(), place: None }
    }
}

impl House {
    /// The commit that a task began from whose work is kept as this snapshot, if both are here.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn began_from(
        &self,
        tenant: &TenantId,
        project: &ProjectId,
        snapshot: &Oid,
    ) -> Result<Option<Oid>, Error> {
        let Some(depot) = self.depot(tenant, project) else { return Ok(None) };
        let base = Kept::read(&depot, snapshot)?.began_from().clone();
        Ok(if depot.has(&base)? { Some(base) } else { None })
    }

    /// What a plain file of a commit holds, which is here or in the project's own repository.
    ///
    /// # Errors
    /// If it is too long, or cannot be read.
    pub fn file_of(
        &self,
        tenant: &TenantId,
        project: &ProjectId,
        repository: Option<&Repository>,
        commit: &Oid,
        (path, bytes_max): (&str, usize),
    ) -> Result<Option<Vec<u8>>, Error> {
        let depot = self.depot(tenant, project);
        if let Some(depot) = depot
            && depot.has(commit)?
        {
            return plain_file_of(commit, path, bytes_max, |what| depot.call(what));
        }
        match repository {
            Some(own) => own.files(commit)?.read(path, bytes_max),
            None => Ok(None),
        }
    }
}

impl Files {
    /// What a plain file holds; none if there is no file of that name. A link is none.
    ///
    /// # Errors
    /// If it is too long, or cannot be read.
    pub fn read(&self, path: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        plain_file_of(&self.commit, path, bytes_max, |what| self.call(what))
    }

    fn call<'a>(&self, what: &str) -> Call<'a> {
        let call = self.depot.call(what);
        match &self.borrowed {
            Some(objects) => call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(objects)),
            None => call,
        }
    }
}

fn plain_file_of<'a>(
    commit: &Oid,
    path: &str,
    bytes_max: usize,
    call: impl Fn(&str) -> Call<'a>,
) -> Result<Option<Vec<u8>>, Error> {
    let listed = call("ls-tree").args(["--full-tree", "-z", commit.as_str(), "--"]);
    let listed = listed.arg(path).run()?;
    let Some(oid) = plain_file(&listed) else { return Ok(None) };
    let call = call("cat-file").args(["blob", oid.as_str()]);
    call.at_most(bytes_max).run().map(Some)
}

/// The object of a plain file in what git says of one name: `100644 blob <oid>\t<path>`.
fn plain_file(listed: &[u8]) -> Option<Oid> {
    let about = listed.split(|byte| *byte == b'\t').next()?;
    let mut words = std::str::from_utf8(about).ok()?.split(' ');
    let (mode, kind, oid) = (words.next()?, words.next()?, words.next()?);
    (kind == "blob" && mode.starts_with("100")).then(|| oid.parse().ok()).flatten()
}
