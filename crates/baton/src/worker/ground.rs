//! Where an agent works: a worktree of the project's repository, or a plain folder where there is none.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use baton_domain::ids::Label;
use baton_domain::text::Line;

use crate::protocol::Dispatch;
use crate::worktree::{
    Error, Git, Held, House, Key, Plain, Plan, Prepared, Repository, Source, State, Taken, Worktree,
};

use super::card::Card;
use super::prepare::{Premises, Whose};

/// Worktrees that one task may have had on this machine: each one but the last was closed because somebody
/// might still write in it.
const GENERATIONS_MAX: u32 = 64;

/// A folder that somebody works in, and the right to: of the worker until an agent is started, then of its
/// shim as well, so that nobody else works there as long as one of the two lives.
#[derive(Debug)]
pub struct Ground {
    folder: Folder,
    /// None if the shim has it alone: it was started by a worker before this one.
    held: Option<Held>,
}

/// What kind of folder it is.
#[derive(Debug)]
enum Folder {
    Tree(Box<Worktree>),
    Plain(Plain),
}

/// What was found where the project should be.
pub enum Site {
    /// The folder of the task, of this generation.
    Here(Ground, u32),
    /// Nothing: the project is on another machine.
    Elsewhere(PathBuf),
}

impl Premises {
    /// Finds or makes the place where a run is worked on.
    ///
    /// # Errors
    /// If the repository cannot be used.
    pub fn site(&self, whose: &Whose, dispatch: &Dispatch) -> Result<Site, Error> {
        let of_task = self.of_task(whose, dispatch.attempt.task);
        let Some(root) = dispatch.root.as_ref().map(|root| PathBuf::from(root.as_str())) else {
            return plain(&of_task);
        };
        if !root.is_dir() {
            return Ok(Site::Elsewhere(root));
        }
        if !root.join(".git").exists() {
            return plain(&of_task);
        }
        let git = Git::find(&self.found.programs)?;
        let repository = Repository::at(&git, &root)?;
        let house = House::new(&self.data, &whose.deployment, &git);
        self.tree(&house, &repository, whose, dispatch)
    }

    /// The worktree of the task: the last one, or the next if nobody may work there again.
    fn tree(
        &self,
        house: &House,
        repository: &Repository,
        whose: &Whose,
        dispatch: &Dispatch,
    ) -> Result<Site, Error> {
        let base = repository.resolve("HEAD")?;
        let (tenant, task) = (whose.tenant.clone(), dispatch.attempt.task);
        let key = |generation| Key { tenant: tenant.clone(), task, generation };
        let is_there = |generation: &u32| house.worktree(&key(*generation)).is_ok();
        // An older one holds an older state of the work.
        let newest = (1..=GENERATIONS_MAX).rev().find(is_there).unwrap_or(1);
        for generation in newest..=GENERATIONS_MAX {
            let key = key(generation);
            let there = match house.worktree(&key) {
                Ok(there) => Some(there),
                Err(Error::NoWorktree(_)) => None,
                Err(error) => return Err(error),
            };
            if there.as_ref().is_some_and(|one| matches!(one.state(), State::Quarantined { .. })) {
                continue;
            }
            let from = match house.last_snapshot(&tenant, task, None) {
                Ok(last) => Some(last),
                Err(Error::NoSnapshot(_)) => None,
                // Beginning from nothing would lose what nobody could read just now.
                Err(error) => return Err(error),
            };
            let plan = Plan {
                key,
                project: &dispatch.project,
                source: Source::Repository(repository),
                base: base.clone(),
                branch: None,
                from: from.map(|(_, _, commit)| commit),
                author: ("Baton", "agent@baton.invalid"),
                setup: &[],
            };
            let mut nothing = |_: &str, folder: &Path| {
                let why = format!("{} has no commands to be set up by", folder.display());
                Err(std::io::Error::other(why))
            };
            match house.prepare(&plan, &mut nothing) {
                Ok(Prepared { worktree, held, .. }) => {
                    let ground = Ground { folder: Folder::Tree(worktree.into()), held: Some(held) };
                    return Ok(Site::Here(ground, generation));
                }
                // Whoever is there is not known here any more: the work goes on from what was kept of it.
                Err(Error::InUse(_) | Error::Quarantined { .. } | Error::WorkspaceChanged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoWorktree(format!("{task}: {GENERATIONS_MAX} of them were closed")))
    }

    /// The place that a worker before this one had for an attempt. Its shim has the right to it, if it
    /// lives; otherwise that is taken.
    ///
    /// # Errors
    /// If it is gone.
    pub fn ground(&self, card: &Card) -> Result<Ground, Error> {
        let (deployment, tenant) = (card.whose_deployment.clone(), card.whose_tenant.clone());
        let (task, whose) = (card.dispatch.attempt.task, Whose { deployment, tenant });
        let of_task = self.of_task(&whose, task);
        let Whose { deployment, tenant } = whose;
        let folder = match card.generation {
            Some(generation) if card.plain => Folder::Plain(Plain::at(&of_task, generation)),
            // Whoever was there before plain folders had generations.
            None => Folder::Plain(Plain::at(&of_task, 1)),
            Some(generation) => {
                let git = Git::find(&self.found.programs)?;
                let house = House::new(&self.data, &deployment, &git);
                Folder::Tree(house.worktree(&Key { tenant, task, generation })?.into())
            }
        };
        let mut ground = Ground { folder, held: None };
        ground.hold();
        Ok(ground)
    }
}

fn plain(of_task: &Path) -> Result<Site, Error> {
    let (plain, held) = Plain::prepare(of_task, GENERATIONS_MAX)?;
    let generation = plain.generation();
    Ok(Site::Here(Ground { folder: Folder::Plain(plain), held: Some(held) }, generation))
}

impl Ground {
    /// What its repository borrows from Baton's own; nothing of a plain folder.
    ///
    /// # Errors
    /// If that is gone.
    pub fn objects(&self) -> Result<Option<PathBuf>, Error> {
        match &self.folder {
            Folder::Tree(worktree) => Ok(Some(worktree.depot()?.objects())),
            Folder::Plain(_) => Ok(None),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.folder {
            Folder::Tree(worktree) => worktree.path(),
            Folder::Plain(plain) => plain.path(),
        }
    }

    /// The worktree itself, for whoever copies it; none of a plain folder.
    #[must_use]
    pub fn worktree(&self) -> Option<Worktree> {
        match &self.folder {
            Folder::Tree(worktree) => Some(Worktree::clone(worktree)),
            Folder::Plain(_) => None,
        }
    }

    /// The right to work here, for the shim of the agent that does.
    ///
    /// # Errors
    /// If somebody else has it, or this process has too many files open.
    pub fn lend(&mut self) -> io::Result<File> {
        let other = || io::Error::other("somebody else has the right to the agent's folder");
        self.held.as_mut().ok_or_else(other)?.lend()
    }

    /// The shim is gone: the right is the worker's alone, unless somebody was faster. Whether it is.
    pub fn hold(&mut self) -> bool {
        match &mut self.held {
            Some(held) => held.take_back(),
            None => {
                self.held = match &self.folder {
                    Folder::Tree(worktree) => worktree.hold().ok(),
                    Folder::Plain(plain) => plain.hold().ok(),
                }
            }
        }
        self.held.is_some()
    }

    /// Nobody works here again.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn close(&mut self, why: &str) -> Result<(), Error> {
        match &mut self.folder {
            Folder::Tree(worktree) => worktree.quarantine(why),
            Folder::Plain(plain) => plain.quarantine(why),
        }
    }
}

/// What is told of a snapshot: names that mean the same on every machine.
#[must_use]
pub fn told(taken: &Taken) -> BTreeMap<Label, Line> {
    let snapshot = taken.snapshot();
    let named = [
        ("base", snapshot.base.to_string()),
        ("head", snapshot.head.to_string()),
        ("tree", snapshot.tree.to_string()),
        ("snapshot", snapshot.commit.to_string()),
        ("ref", snapshot.name.clone()),
    ];
    let pair = |(name, value): (&str, String)| {
        Some((Label::new(name).ok()?, Line::new("git", value).ok()?))
    };
    named.into_iter().filter_map(pair).collect()
}
