//! Where an agent works: a worktree of the project's repository, or a plain folder where there is none.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_domain::ids::Label;
use baton_domain::text::Line;

use crate::protocol::Dispatch;
use crate::worktree::{
    Error, Git, Held, House, Key, Plan, Prepared, Repository, Source, State, Taken, Worktree,
};

use super::card::Card;
use super::prepare::{Premises, Whose};

/// Worktrees that one task may have had on this machine: each one but the last was closed because somebody
/// might still write in it.
const GENERATIONS_MAX: u32 = 64;

/// A worktree that somebody works in.
#[derive(Debug)]
pub struct Ground {
    worktree: Worktree,
    #[expect(dead_code, reason = "the right to work there lives as long as this")]
    held: Held,
}

/// What was found where the project should be.
pub enum Site {
    /// A repository, and the worktree of the task.
    Tree(Box<Ground>, u32),
    /// A folder that is not under git, or none.
    Plain,
    /// Nothing: the project is on another machine.
    Elsewhere(PathBuf),
}

impl Premises {
    /// Finds or makes the place where a run is worked on.
    ///
    /// # Errors
    /// If the repository cannot be used.
    pub fn site(&self, whose: &Whose, dispatch: &Dispatch) -> Result<Site, Error> {
        let Some(root) = dispatch.root.as_ref().map(|root| PathBuf::from(root.as_str())) else {
            return Ok(Site::Plain);
        };
        if !root.is_dir() {
            return Ok(Site::Elsewhere(root));
        }
        if !root.join(".git").exists() {
            return Ok(Site::Plain);
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
        for generation in 1..=GENERATIONS_MAX {
            let key = Key { tenant: tenant.clone(), task, generation };
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
                    return Ok(Site::Tree(Box::new(Ground { worktree, held }), generation));
                }
                Err(Error::Quarantined { .. } | Error::WorkspaceChanged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoWorktree(format!("{task}: {GENERATIONS_MAX} of them were closed")))
    }

    /// The place that a worker before this one had for an attempt.
    ///
    /// # Errors
    /// If it is gone.
    pub fn ground(&self, card: &Card) -> Result<Option<Ground>, Error> {
        let Some(generation) = card.generation else { return Ok(None) };
        let git = Git::find(&self.found.programs)?;
        let house = House::new(&self.data, &card.whose_deployment, &git);
        let (tenant, task) = (card.whose_tenant.clone(), card.dispatch.attempt.task);
        let worktree = house.worktree(&Key { tenant, task, generation })?;
        let held = worktree.hold()?;
        Ok(Some(Ground { worktree, held }))
    }
}

impl Ground {
    /// What its repository borrows from Baton's own.
    ///
    /// # Errors
    /// If that is gone.
    pub fn objects(&self) -> Result<PathBuf, Error> {
        Ok(self.worktree.depot()?.objects())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.worktree.path()
    }

    /// The worktree itself, for whoever copies it.
    #[must_use]
    pub fn worktree(&self) -> Worktree {
        self.worktree.clone()
    }

    /// Nobody works here again.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn close(&mut self, why: &str) -> Result<(), Error> {
        self.worktree.quarantine(why)
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
