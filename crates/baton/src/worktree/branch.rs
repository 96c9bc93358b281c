//! The branch of a task in the repository of its project: moved by whoever the project has made its home,
//! from where it was believed to be, and never away under a checkout.

use baton_domain::ids::{DeploymentId, TaskId, TenantId};

use super::names::{of_task, plain};
use super::{Depot, Error, Oid, Repository};

/// What became of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It moved.
    Done,
    /// It was there already.
    Already,
}

/// What the branch of a task is called.
#[must_use]
pub fn task_branch(deployment: &DeploymentId, tenant: &TenantId, task: TaskId) -> String {
    format!("refs/heads/baton/{}/{}", plain(deployment.as_str()), of_task(tenant, task))
}

impl Repository {
    /// Moves a branch from where it is believed to be (nowhere: it is made) to a commit of the depot.
    /// `known` are commits that both have, so that not everything is copied.
    ///
    /// # Errors
    /// If it is elsewhere, or checked out somewhere; then it stays where it is.
    pub fn advance(
        &self,
        depot: &Depot,
        branch: &str,
        expected: Option<&Oid>,
        to: &Oid,
        known: &[Oid],
    ) -> Result<Moved, Error> {
        let moved = |found: Option<Oid>| Error::BranchMoved {
            branch: branch.to_owned(),
            expected: expected.cloned(),
            found,
        };
        if !branch.starts_with("refs/heads/") {
            return Err(Error::NoCommit(branch.to_owned()));
        }
        let found = self.find(branch)?;
        if found.as_ref() == Some(to) {
            return Ok(Moved::Already);
        }
        if found.as_ref() != expected {
            return Err(moved(found));
        }
        if let Some(place) = self.checked_out(branch)? {
            return Err(Error::CheckedOut { branch: branch.to_owned(), place });
        }
        self.receive(depot, to, expected.into_iter().chain(known))?;
        let nothing = to.nothing();
        let old = expected.map_or(nothing.as_str(), Oid::as_str);
        let call = self.call("update-ref").args(["--no-deref", branch, to.as_str(), old]);
        match call.ends()?.code {
            Some(0) => Ok(Moved::Done),
            // Somebody was faster, or holds its lock.
            Some(_) | None => Err(moved(self.find(branch)?)),
        }
    }

    /// Copies a commit and what it needs, and makes sure that nothing is missing.
    pub(super) fn receive<'a>(
        &self,
        depot: &Depot,
        commit: &Oid,
        known: impl Iterator<Item = &'a Oid>,
    ) -> Result<(), Error> {
        let objects = self.objects();
        let mut both = vec![];
        for oid in known {
            let theirs = depot.call("cat-file").env("GIT_OBJECT_DIRECTORY", &objects);
            let theirs = theirs.args(["-e", oid.as_str()]).ends()?.code == Some(0);
            if theirs && depot.has(oid)? && !both.contains(oid) {
                both.push(oid.clone());
            }
        }
        let pack = depot.packed(None, std::slice::from_ref(commit), &both)?;
        depot.unpack(pack, &objects)?;
        let call = depot.call("rev-list").env("GIT_OBJECT_DIRECTORY", &objects).long();
        let call = call.args(["--objects", "--quiet", commit.as_str(), "--not"]);
        call.args(both.iter().map(Oid::as_str)).run()?;
        Ok(())
    }
}
