//! What is kept, how it is brought back, and what may go: nothing goes whose content no ref holds.

use std::path::{Path, PathBuf};

use baton_domain::ids::{TaskId, TenantId};

use super::create::{fill, index, link, remove};
use super::house::folders;
use super::names::{of_task, refs_of};
use super::record::{Record, clear};
use super::snapshot::{Kept, named};
use super::{Depot, Error, House, Key, Oid, Plan, Source, State, Worktree};

/// A worktree as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub key: Key,
    pub project: String,
    pub state: State,
    pub path: PathBuf,
    /// Whether somebody works in it now.
    pub in_use: bool,
    /// How many snapshots its task has, and the last of them.
    pub snapshots: usize,
    pub last: Option<(String, Oid)>,
}

/// The last snapshot of a task.
#[derive(Clone, Debug)]
pub struct Last {
    /// Where it is.
    pub depot: Depot,
    pub name: String,
    /// The attempt that it is called after, and which one of it this is.
    pub age: (u32, u32),
    pub commit: Oid,
}

/// What becomes of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes; this snapshot holds it. In a dry run nobody has looked yet.
    Gone(Option<String>),
    /// It stays: somebody works in it.
    InUse,
    /// It stays: its task goes on.
    Needed,
    /// It stays: it is quarantined, or has just been, because a snapshot cannot hold it.
    Quarantined(String),
}

/// A worktree and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub key: Key,
    pub path: PathBuf,
    pub fate: Fate,
}

/// A worktree whose quarantine is lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    pub key: Key,
    pub path: PathBuf,
    /// Why it was quarantined.
    pub why: String,
}

/// What was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub name: String,
    pub commit: Oid,
    pub to: PathBuf,
}

impl House {
    /// Every worktree, with what is kept of its task.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        self.all_worktrees()?.iter().map(Worktree::listed).collect()
    }

    fn all_worktrees(&self) -> Result<Vec<Worktree>, Error> {
        let mut all = vec![];
        for folder in folders(&self.worktrees())? {
            let Some(record) = Record::read(&folder)? else { continue };
            // What belongs to another deployment, or was copied here, is none of ours.
            if record.deployment == *self.deployment() && self.folder_of(&record.key()) == folder {
                all.push(Worktree { house: self.clone(), folder, record });
            }
        }
        Ok(all)
    }

    /// The snapshot that is meant: the last of an attempt, or the last of all. It is looked for in the
    /// repositories of every project here, also when the worktree is gone.
    ///
    /// # Errors
    /// If there is none.
    pub fn last_snapshot(
        &self,
        tenant: &TenantId,
        task: TaskId,
        attempt: Option<u32>,
    ) -> Result<Last, Error> {
        let whose = of_task(tenant, task);
        let refs = refs_of(self.deployment(), &whose);
        for depot in self.depots()? {
            let all = named(&depot, &refs)?;
            let own = all.into_iter().filter(|one| attempt.is_none_or(|own| own == one.attempt));
            if let Some(last) = own.max_by_key(|one| (one.attempt, one.number)) {
                let (age, name) = ((last.attempt, last.number), last.name);
                return Ok(Last { depot, name, age, commit: last.commit });
            }
        }
        Err(Error::NoSnapshot(whose))
    }

    /// Brings a snapshot back into a folder that is not there yet; no worktree is touched. The folder is a
    /// repository of its own, with the whole history.
    ///
    /// # Errors
    /// If there is no such snapshot, or if the folder is there.
    pub fn restore(
        &self,
        tenant: &TenantId,
        task: TaskId,
        attempt: Option<u32>,
        to: &Path,
    ) -> Result<Restored, Error> {
        let Last { depot, name, commit, .. } = self.last_snapshot(tenant, task, attempt)?;
        if to.symlink_metadata().is_ok() {
            return Err(Error::Exists(to.to_path_buf()));
        }
        let kept = Kept::read(&depot, &commit)?;
        std::fs::create_dir(to).map_err(Error::file(to))?;
        let to = to.canonicalize().map_err(Error::file(to))?;
        let plan = Plan {
            key: Key { tenant: tenant.clone(), task, generation: 1 },
            attempt: 0,
            project: &"restored".parse().expect("a plain word is a name"),
            source: Source::Bundles,
            base: kept.head().clone(),
            branch: None,
            from: Some(commit.clone()),
            author: ("Baton", "baton@localhost"),
            setup: &[],
        };
        let scratch = tempfile::tempdir().map_err(Error::file(&to))?;
        fill(&depot, &kept.files, &to, scratch.path())?;
        link(&plan, &depot, &kept, &to)?;
        index(&depot, &kept, &to, scratch.path())?;
        // It is its user's now, and must not miss anything when the depot is cleared away.
        let objects = to.join(".git/objects");
        // What can be borrowed is not written, so the borrowing ends first.
        remove(&objects.join("info/alternates"))?;
        depot.unpack(depot.packed(None, std::slice::from_ref(&commit), &[])?, &objects)?;
        Ok(Restored { name, commit, to })
    }

    /// Takes away worktrees that nobody needs, or only tells which. With a task, that of the task, whether
    /// it goes on or not. A worktree goes after a snapshot that has read every file of it; if a snapshot
    /// cannot hold it, it is quarantined instead.
    ///
    /// # Errors
    /// If a folder cannot be read or taken away.
    pub fn prune(
        &self,
        task: Option<(&TenantId, TaskId)>,
        yes: bool,
    ) -> Result<Vec<Pruned>, Error> {
        let mut pruned = vec![];
        for mut worktree in self.all_worktrees()? {
            let key = worktree.key();
            if task.is_some_and(|(tenant, task)| key.tenant != *tenant || key.task != task) {
                continue;
            }
            let path = worktree.path();
            let fate = worktree.prune(task.is_some(), yes)?;
            pruned.push(Pruned { key, path, fate });
        }
        if pruned.iter().any(|one| yes && matches!(one.fate, Fate::Gone(_))) {
            self.tidy()?;
        }
        Ok(pruned)
    }

    /// Lifts the quarantine of the worktrees of a task, or of one generation of it; or only tells which. Whoever is
    /// worked in stays as it is.
    ///
    /// # Errors
    /// If there is no such worktree, if somebody works in one, or if it cannot be written down.
    pub fn release(
        &self,
        (tenant, task): (&TenantId, TaskId),
        generation: Option<u32>,
        yes: bool,
    ) -> Result<Vec<Released>, Error> {
        let mut released = vec![];
        for mut worktree in self.all_worktrees()? {
            let key = worktree.key();
            let meant = key.tenant == *tenant
                && key.task == task
                && generation.is_none_or(|own| own == key.generation);
            let State::Quarantined { why } = worktree.state().clone() else { continue };
            if !meant {
                continue;
            }
            let _held = worktree.hold()?;
            if yes {
                worktree.release()?;
            }
            released.push(Released { key, path: worktree.path(), why });
        }
        Ok(released)
    }

    /// Those that are quarantined because a death is not proved.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn unproved(&self) -> Result<Vec<Worktree>, Error> {
        Ok(self.all_worktrees()?.into_iter().filter(Worktree::is_unproved).collect())
    }

    /// Packs the repositories of all projects.
    fn tidy(&self) -> Result<(), Error> {
        let borrowers = self.all_worktrees()?;
        for depot in self.depots()? {
            let borrows =
                |one: &Worktree| one.depot().is_ok_and(|own| own.objects() == depot.objects());
            depot.tidy(borrowers.iter().any(borrows))?;
        }
        Ok(())
    }
}

impl Worktree {
    fn listed(&self) -> Result<Listed, Error> {
        let all = match self.house.depot(&self.record.tenant, &self.record.project) {
            Some(depot) => named(&depot, &self.refs())?,
            None => vec![],
        };
        let last = all.iter().max_by_key(|one| (one.attempt, one.number));
        Ok(Listed {
            key: self.key(),
            project: self.record.project.to_string(),
            state: self.record.phase.clone(),
            path: self.path(),
            in_use: self.hold().is_err(),
            snapshots: all.len(),
            last: last.map(|last| (last.name.clone(), last.commit.clone())),
        })
    }

    fn prune(&mut self, meant: bool, yes: bool) -> Result<Fate, Error> {
        let Ok(_held) = self.hold() else { return Ok(Fate::InUse) };
        match &self.record.phase {
            State::Quarantined { why } => return Ok(Fate::Quarantined(why.clone())),
            State::Ready if !meant => return Ok(Fate::Needed),
            // Nobody has worked in it: there is nothing to keep.
            State::Making if yes => return self.leave(None),
            State::Making | State::Ready | State::Over => {}
        }
        if !yes {
            return Ok(Fate::Gone(None));
        }
        // Attempts are counted from 1: what nobody kept before is kept under none of them.
        let attempt = self.snapshots()?.iter().map(|one| one.attempt).max().unwrap_or(0);
        let why = match self.take(attempt, false) {
            Ok(taken) if taken.snapshot().left_out.is_empty() => {
                let snapshot = taken.snapshot();
                let depot = self.depot()?;
                let call = depot.call("rev-list").args(["--objects", "--quiet"]).long();
                match call.arg(snapshot.commit.as_str()).ends()?.code {
                    Some(0) => return self.leave(Some(snapshot.name.clone())),
                    Some(_) | None => "a part of its last snapshot is missing".to_owned(),
                }
            }
            Ok(taken) => told(&taken.snapshot().left_out),
            Err(error) => error.to_string(),
        };
        self.quarantine(&why)?;
        Ok(Fate::Quarantined(why))
    }

    /// Takes the folder away. Its record goes first, so that what a crash leaves is recognised as half made.
    fn leave(&mut self, held_by: Option<String>) -> Result<Fate, Error> {
        self.record.phase = State::Making;
        self.record.write(&self.folder)?;
        clear(&self.path())?;
        clear(&self.folder)?;
        Ok(Fate::Gone(held_by))
    }
}

fn told(left: &super::LeftOut) -> String {
    let first = left.files.first().map(|(path, why)| format!("{path} ({why:?})"));
    let rest = left.files.len().saturating_sub(1) + left.more;
    match (first, rest) {
        (Some(first), 0) => format!("a snapshot cannot hold {first}"),
        (Some(first), rest) => format!("a snapshot cannot hold {first} and {rest} more"),
        (None, _) => format!("{} commits of it cannot be read", left.commits),
    }
}
