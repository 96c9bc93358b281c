//! The target branch of a project: moved from where it was believed to be, and never away under somebody's changes.
//!
//! Before it moves, a ref of ours says where to. The branch is the truth: whoever comes back after a crash sees there
//! whether it has moved, and brings the owner's checkout up to date if that had not been done.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use baton_domain::ids::DeploymentId;

use crate::points::{self, Point};

use super::names::refs;
use super::{Depot, Error, Moved, Oid, Repository};

/// What our lock of an index begins with: one that a crash left behind is ours to take away.
const LOCK: &[u8] = b"baton: the branch that is checked out here moves\n";

/// The owner's checkout of a branch, while nobody else changes its index.
struct Checkout {
    place: PathBuf,
    index: PathBuf,
    lock: PathBuf,
}

impl Repository {
    /// Moves the target branch from one commit to a later one, with the owner's checkout of it, if that has no changes
    /// of its own.
    ///
    /// # Errors
    /// If the branch is elsewhere, if it is checked out in another folder, or if its checkout has changes: then nothing
    /// has moved.
    pub fn land(
        &self,
        depot: &Depot,
        deployment: &DeploymentId,
        (branch, from, to): (&str, &Oid, &Oid),
    ) -> Result<Moved, Error> {
        let checkout = match self.checked_out(branch)? {
            None => {
                self.intend(depot, deployment, branch, (from, to))?;
                points::pass(Point::LandingIntended);
                let moved = self.advance(depot, branch, Some(from), to, &[])?;
                points::pass(Point::TargetMoved);
                self.forget_intent(deployment, branch)?;
                return Ok(moved);
            }
            Some(place) if place == self.root() => Checkout::lock(self, place)?,
            Some(place) => return Err(Error::CheckedOut { branch: branch.to_owned(), place }),
        };
        let done = self.land_under(depot, deployment, (branch, from, to), &checkout);
        // Whatever came of it, its owner may use it again.
        checkout.unlock()?;
        done
    }

    fn land_under(
        &self,
        depot: &Depot,
        deployment: &DeploymentId,
        (branch, from, to): (&str, &Oid, &Oid),
        checkout: &Checkout,
    ) -> Result<Moved, Error> {
        checkout.is_clean(depot, from, to)?;
        self.intend(depot, deployment, branch, (from, to))?;
        points::pass(Point::LandingIntended);
        let found = self.find(branch)?;
        if found.as_ref() != Some(from) {
            let (branch, expected) = (branch.to_owned(), Some(from.clone()));
            return Err(Error::BranchMoved { branch, expected, found });
        }
        let call = self.call("update-ref").args(["--no-deref", branch, to.as_str(), from.as_str()]);
        if call.ends()?.code != Some(0) {
            let (found, expected) = (self.find(branch)?, Some(from.clone()));
            return Err(Error::BranchMoved { branch: branch.to_owned(), expected, found });
        }
        points::pass(Point::TargetMoved);
        checkout.update(depot, from, to)?;
        points::pass(Point::CheckoutUpdated);
        self.forget_intent(deployment, branch)?;
        Ok(Moved::Done)
    }

    /// Says where a branch is about to move; the objects are there before.
    fn intend(
        &self,
        depot: &Depot,
        deployment: &DeploymentId,
        branch: &str,
        (from, to): (&Oid, &Oid),
    ) -> Result<(), Error> {
        self.receive(depot, to, [from].into_iter())?;
        let name = intent(deployment, branch);
        self.call("update-ref").args(["--no-deref", &name, to.as_str()]).run()?;
        Ok(())
    }

    fn forget_intent(&self, deployment: &DeploymentId, branch: &str) -> Result<(), Error> {
        let name = intent(deployment, branch);
        self.call("update-ref").args(["--no-deref", "-d", &name]).run()?;
        Ok(())
    }

    /// Ends what a crash has left half done: a branch that has moved has its checkout brought up to date, if its owner
    /// has not changed it since; one that has not stays where it is.
    ///
    /// # Errors
    /// If the owner's changes are in the way.
    pub fn recover(
        &self,
        depot: &Depot,
        deployment: &DeploymentId,
        branch: &str,
    ) -> Result<bool, Error> {
        Checkout::unlock_left(&self.index());
        let Some(to) = self.find(&intent(deployment, branch))? else { return Ok(false) };
        let here = self.checked_out(branch)?.is_some_and(|place| place == self.root());
        if here && self.find(branch)?.as_ref() == Some(&to) {
            depot.take_commit(self, &to)?;
            let from = depot.commit(&to)?.parents.into_iter().next();
            let from = from.ok_or_else(|| Error::NoCommit(to.to_string()))?;
            let checkout = Checkout::lock(self, self.root().to_path_buf())?;
            // What is there already, or what its owner has changed meanwhile, is left alone.
            let done = match checkout.is_clean(depot, &from, &to) {
                Ok(()) => checkout.update(depot, &from, &to),
                Err(Error::DirtyCheckout { .. }) => Ok(()),
                Err(error) => Err(error),
            };
            checkout.unlock()?;
            done?;
        }
        self.forget_intent(deployment, branch)?;
        Ok(true)
    }

    fn index(&self) -> PathBuf {
        self.git_dir().join("index")
    }

    /// Takes a branch of ours away that still is where it is believed to be, unless somebody has it checked out.
    ///
    /// # Errors
    /// If git does not.
    pub fn drop_branch(&self, branch: &str, at: &Oid) -> Result<bool, Error> {
        if self.find(branch)?.as_ref() != Some(at) || self.checked_out(branch)?.is_some() {
            return Ok(false);
        }
        let call = self.call("update-ref").args(["--no-deref", "-d", branch, at.as_str()]);
        Ok(call.ends()?.code == Some(0))
    }

    /// Pushes a branch to a remote of the repository, as its owner: with the keys and the agent of these variables, and
    /// without hooks or helpers.
    ///
    /// # Errors
    /// If it is refused there, or out of reach.
    pub fn push(
        &self,
        remote: &str,
        branch: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        if remote.is_empty() || remote.starts_with('-') {
            return Err(Error::NoCommit(remote.to_owned()));
        }
        let mut call = self.call("push").env("GIT_ALLOW_PROTOCOL", "file:ssh:https:http");
        // Nobody is there who could be asked for a password.
        call = call.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        for name in ["HOME", "SSH_AUTH_SOCK"] {
            if let Some(value) = variables.get(name) {
                call = call.env(name, value);
            }
        }
        call.args(["--porcelain", remote, &format!("{branch}:{branch}")]).long().run()?;
        Ok(())
    }

    /// Where a branch is; nothing if it is not there.
    ///
    /// # Errors
    /// If git does not say.
    pub fn branch_at(&self, branch: &str) -> Result<Option<Oid>, Error> {
        self.find(branch)
    }
}

/// The ref that says where a branch is about to move.
fn intent(deployment: &DeploymentId, branch: &str) -> String {
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    format!("{}landing/{branch}", refs(deployment))
}

impl Checkout {
    /// Takes the index as git itself does, so that nobody else changes it.
    fn lock(own: &Repository, place: PathBuf) -> Result<Self, Error> {
        let index = own.index();
        let lock = index.with_extension("lock");
        let made = OpenOptions::new().write(true).create_new(true).open(&lock);
        match made.and_then(|mut file| file.write_all(LOCK)) {
            Ok(()) => Ok(Self { place, index, lock }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let why = "somebody uses git there now".to_owned();
                Err(Error::DirtyCheckout { place, why })
            }
            Err(error) => Err(Error::File { path: lock, error }),
        }
    }

    /// Takes a lock away that a crash of ours has left.
    fn unlock_left(index: &Path) {
        let lock = index.with_extension("lock");
        if fs::read(&lock).is_ok_and(|bytes| bytes == LOCK) {
            drop(fs::remove_file(&lock));
        }
    }

    fn unlock(self) -> Result<(), Error> {
        fs::remove_file(&self.lock).map_err(Error::file(&self.lock))
    }

    /// Refuses a checkout in which something would be lost: staged, changed, or in the way.
    fn is_clean(&self, depot: &Depot, from: &Oid, to: &Oid) -> Result<(), Error> {
        let dirty =
            |why: &str| Error::DirtyCheckout { place: self.place.clone(), why: why.to_owned() };
        let draft = self.draft()?;
        let index = draft.path().join("index");
        fs::copy(&self.index, &index).map_err(|_| dirty("its index cannot be read"))?;
        let call = depot.call("diff-index").tree(&self.place).index(&index).long();
        let staged = call.args(["--cached", "--quiet", from.as_str()]).ends()?;
        if staged.code != Some(0) {
            return Err(dirty("something is staged there that is not committed"));
        }
        let call = depot.call("update-index").tree(&self.place).index(&index).long();
        if call.arg("--refresh").ends()?.code != Some(0) {
            return Err(dirty("files are changed there and not committed"));
        }
        // What is not known to git and would be overwritten is found by a trial.
        let call = depot.call("read-tree").tree(&self.place).index(&index).long();
        let call = call.args(["-m", "-u", "-n", from.as_str(), to.as_str()]);
        if call.ends()?.code != Some(0) {
            return Err(dirty("files that are not committed there are in the way"));
        }
        Ok(())
    }

    /// Brings files and index to the later commit.
    fn update(&self, depot: &Depot, from: &Oid, to: &Oid) -> Result<(), Error> {
        let draft = self.draft()?;
        let index = draft.path().join("index");
        fs::copy(&self.index, &index).map_err(Error::file(&self.index))?;
        let call = depot.call("read-tree").tree(&self.place).index(&index).long();
        call.args(["-m", "-u", from.as_str(), to.as_str()]).run()?;
        let bytes = fs::read(&index).map_err(Error::file(&index))?;
        crate::files::replace(&self.index, &bytes).map_err(Error::file(&self.index))
    }

    fn draft(&self) -> Result<tempfile::TempDir, Error> {
        tempfile::tempdir().map_err(Error::file(&self.place))
    }
}
