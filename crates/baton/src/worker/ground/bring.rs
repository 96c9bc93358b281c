//! The work of the attempts before, from wherever it is: never from nothing, and never from what is old.

use std::path::PathBuf;

use baton_domain::ids::{AttemptId, Digest};
use baton_domain::text::Text;
use tokio::runtime::Handle;

use crate::protocol::{Dispatch, Work};
use crate::worktree::{Error, House, Key, Oid, Repository, Work as Landable};

use super::super::check::Pinned;
use super::super::prepare::{self, Premises, Whose};
use super::Stuff;

impl Premises {
    /// The newest snapshot of the task: one that is here, or the one that the server names.
    pub(super) fn newest(
        &self,
        stuff: &Stuff<'_>,
        key: &Key,
    ) -> Result<Option<Oid>, prepare::Error> {
        let here = match stuff.house.last_snapshot(&key.tenant, key.task, None) {
            Ok(last) => Some(last),
            Err(Error::NoSnapshot(_)) => None,
            // Beginning from nothing would lose what nobody could read just now.
            Err(error) => return Err(error.into()),
        };
        let Some(work) = &stuff.dispatch.work else { return Ok(here.map(|last| last.commit)) };
        match here.filter(|last| last.age >= work.age()) {
            Some(last) => Ok(Some(last.commit)),
            None => self.bring(stuff, key, work).map(Some),
        }
    }

    /// What of a task lands: the commit that passed its checks, or what was kept of it last; none if nothing was.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn work_to_land(
        &self,
        whose: &Whose,
        dispatch: &Dispatch,
        house: &House,
        repository: &Repository,
    ) -> Result<Option<Landable>, prepare::Error> {
        let (tenant, task) = (whose.tenant.clone(), dispatch.attempt.task);
        let key = Key { tenant, task, generation: 1 };
        let repository = Some(repository);
        let newest = self.newest(&Stuff { house, repository, whose, dispatch }, &key)?;
        let Some(depot) = house.depot(&key.tenant, &dispatch.project) else { return Ok(None) };
        let head = dispatch.head.as_ref().and_then(|head| head.as_str().parse().ok());
        let Some(head) = head.or(newest) else { return Ok(None) };
        let subject = dispatch.landing.as_ref().map(|ticket| ticket.subject.to_string());
        let says = subject.unwrap_or_else(|| format!("chore: work on {task}"));
        Ok(Some(depot.work_of(&head, &says)?))
    }

    /// What of a task is checked: the commit that passed before, or what was kept of it last; none if nothing was.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn work_to_check(
        &self,
        whose: &Whose,
        dispatch: &Dispatch,
        (house, repository): (&House, Option<&Repository>),
        passed: bool,
    ) -> Result<Option<Pinned>, prepare::Error> {
        let (tenant, task) = (whose.tenant.clone(), dispatch.attempt.task);
        let key = Key { tenant, task, generation: 1 };
        let newest = self.newest(&Stuff { house, repository, whose, dispatch }, &key)?;
        let Some(depot) = house.depot(&key.tenant, &dispatch.project) else { return Ok(None) };
        let head = dispatch.head.as_ref().filter(|_| passed);
        let head = head.and_then(|head| head.as_str().parse().ok());
        let Some(commit) = head.or(newest) else { return Ok(None) };
        let base = depot.work_of(&commit, "what is checked")?.base;
        Ok(Some(Pinned { depot, base, commit }))
    }

    /// Has the work here that the server names.
    fn bring(&self, stuff: &Stuff<'_>, key: &Key, work: &Work) -> Result<Oid, prepare::Error> {
        let Stuff { house, repository, dispatch, .. } = stuff;
        let (tenant, project) = (&key.tenant, &dispatch.project);
        let snapshot = self.commit(dispatch, &work.snapshot)?;
        if house.keeps((tenant, key.task), project, &snapshot)? {
            return Ok(snapshot);
        }
        let base = self.commit(dispatch, &work.base)?;
        if !house.has_base((tenant, project), *repository, &base)? {
            if work.base_bundles.is_empty() {
                let why = format!(
                    "the commit {base} that it began from is not in the project's repository here: \
                     git fetch, there"
                );
                return Err(prepare::Error::NoHandoff(from(dispatch), why));
            }
            let bundles = self.fetched(dispatch, &work.base_bundles)?;
            house.take_base((tenant, project), &bundles.paths(), &base)?;
        }
        let bundles = self.fetched(dispatch, &work.bundles)?;
        house.take_snapshot(key, project, &bundles.paths(), &snapshot)?;
        Ok(snapshot)
    }

    /// A commit by the name that the server has for it.
    pub(super) fn commit(
        &self,
        dispatch: &Dispatch,
        name: &Text<64>,
    ) -> Result<Oid, prepare::Error> {
        let wrong = |error| prepare::Error::NoHandoff(from(dispatch), format!("`{name}` {error}"));
        name.as_str().parse().map_err(wrong)
    }

    /// Blobs of the server as files, each of them as it was handed in, to the byte.
    fn fetched(&self, dispatch: &Dispatch, digests: &[Digest]) -> Result<Fetched, prepare::Error> {
        let refused = |why: String| prepare::Error::NoHandoff(from(dispatch), why);
        let folder = tempfile::Builder::new().prefix("fetched-").tempdir_in(self.folder());
        let folder = folder.map_err(|error| refused(error.to_string()))?;
        let told = |failure: crate::client::Failure| {
            refused(failure.body["detail"].as_str().unwrap_or(failure.code()).to_owned())
        };
        let client = self.client().map_err(told)?;
        let mut files = vec![];
        for digest in digests {
            let file = folder.path().join(digest.as_str());
            let name = digest.as_str().parse().map_err(|_| refused("no digest".to_owned()))?;
            // This thread is one beside the runtime, and may wait.
            Handle::current().block_on(client.get_blob(&name, &file)).map_err(told)?;
            files.push(file);
        }
        Ok(Fetched { _folder: folder, files })
    }
}

/// Files that go when this goes.
struct Fetched {
    _folder: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Fetched {
    fn paths(&self) -> Vec<&std::path::Path> {
        self.files.iter().map(PathBuf::as_path).collect()
    }
}

/// Whose work it is.
fn from(dispatch: &Dispatch) -> AttemptId {
    let number = dispatch.work.as_ref().map_or(dispatch.attempt.number, |work| work.attempt);
    AttemptId { number, ..dispatch.attempt }
}
