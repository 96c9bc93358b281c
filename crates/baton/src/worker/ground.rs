//! Where an agent works: a worktree of the project's repository, or a plain folder where there is none.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_domain::ids::{Digest, Label};
use baton_domain::text::Line;

use crate::protocol::Dispatch;
use crate::worktree::{
    Error, Git, Held, House, Key, Plan, Prepared, Repository, Source, State, Taken, Worktree,
};

use super::card::Card;
use super::prepare::{self, Premises, Whose};

mod bring;

/// Worktrees that one task may have had on this machine: each one but the last was closed because somebody
/// might still write in it, or because the task went on elsewhere.
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

/// What a worktree is made of.
struct Stuff<'a> {
    house: &'a House,
    /// The project's own repository, if it is on this machine.
    repository: Option<&'a Repository>,
    whose: &'a Whose,
    dispatch: &'a Dispatch,
}

impl Premises {
    /// Finds or makes the place where a run is worked on.
    ///
    /// # Errors
    /// If the repository cannot be used, or the work of the attempts before cannot be had.
    pub fn site(&self, whose: &Whose, dispatch: &Dispatch) -> Result<Site, prepare::Error> {
        let own = self.settings.projects.get(&dispatch.project).cloned();
        let said = dispatch.root.as_ref().map(|root| PathBuf::from(root.as_str()));
        let Some(root) = own.or(said) else { return Ok(Site::Plain) };
        let there = root.is_dir();
        // Whoever has the whole history from the server needs no repository.
        let sent = dispatch.work.as_ref().is_some_and(|work| !work.base_bundles.is_empty());
        match (there, sent) {
            (false, false) => return Ok(Site::Elsewhere(root)),
            (true, _) if !root.join(".git").exists() => return Ok(Site::Plain),
            (true, _) | (false, true) => {}
        }
        let git = Git::find(&self.found.programs)?;
        let repository = there.then(|| Repository::at(&git, &root)).transpose()?;
        let house = &House::new(&self.data, &whose.deployment, &git);
        self.tree(&Stuff { house, repository: repository.as_ref(), whose, dispatch })
    }

    /// The worktree of the task: the last one, or the next if nobody may work there again.
    fn tree(&self, stuff: &Stuff<'_>) -> Result<Site, prepare::Error> {
        let Stuff { house, whose, dispatch, .. } = stuff;
        let (tenant, task) = (whose.tenant.clone(), dispatch.attempt.task);
        let mut generation = match house.newest(&tenant, task, GENERATIONS_MAX)? {
            None => 1,
            Some(mut last) if is_behind(&last, dispatch) => {
                // The task went on elsewhere: what is here is an old state of it.
                last.finish()?;
                last.key().generation + 1
            }
            Some(last) => last.key().generation,
        };
        while generation <= GENERATIONS_MAX {
            let key = Key { tenant: tenant.clone(), task, generation };
            match self.prepared(stuff, key) {
                Ok(Prepared { worktree, held, .. }) => {
                    return Ok(Site::Tree(Box::new(Ground { worktree, held }), generation));
                }
                Err(prepare::Error::Worktree {
                    error: Error::Quarantined { .. } | Error::WorkspaceChanged(_),
                }) => generation += 1,
                Err(error) => return Err(error),
            }
        }
        let why = format!("{task}: {GENERATIONS_MAX} of them were closed");
        Err(Error::NoWorktree(why).into())
    }

    fn prepared(&self, stuff: &Stuff<'_>, key: Key) -> Result<Prepared, prepare::Error> {
        let Stuff { house, repository, dispatch, .. } = stuff;
        let is_there = match house.worktree(&key) {
            Ok(one) => *one.state() != State::Making,
            Err(Error::NoWorktree(_)) => false,
            Err(error) => return Err(error.into()),
        };
        // A folder that is there holds at least as much as any snapshot of it.
        let from = if is_there { None } else { self.newest(stuff, &key)? };
        let (base, branch) = match (repository, &dispatch.work) {
            (Some(own), _) => (own.resolve("HEAD")?, own.branch()?),
            (None, Some(work)) => (self.commit(dispatch, &work.base)?, None),
            (None, None) => return Err(Error::NoCommit("HEAD".to_owned()).into()),
        };
        let plan = Plan {
            key,
            attempt: dispatch.attempt.number,
            project: &dispatch.project,
            source: repository.map_or(Source::Bundles, Source::Repository),
            base,
            branch: branch.as_deref(),
            from,
            author: ("Baton", "agent@baton.invalid"),
            setup: &[],
        };
        let mut nothing = |_: &str, folder: &Path| {
            let why = format!("{} has no commands to be set up by", folder.display());
            Err(std::io::Error::other(why))
        };
        Ok(house.prepare(&plan, &mut nothing)?)
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

/// Whether somebody has worked on the task after those who worked here.
fn is_behind(worktree: &Worktree, dispatch: &Dispatch) -> bool {
    dispatch.work.as_ref().is_some_and(|work| work.attempt > worktree.attempt())
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

    /// Somebody may again.
    ///
    /// # Errors
    /// The same.
    pub fn open(&mut self) -> Result<(), Error> {
        self.worktree.release()
    }
}

/// What is told of a snapshot: names that mean the same on every machine.
#[must_use]
pub fn told(taken: &Taken, bundle: Option<&Digest>) -> BTreeMap<Label, Line> {
    let snapshot = taken.snapshot();
    let named = [
        ("base", snapshot.base.to_string()),
        ("head", snapshot.head.to_string()),
        ("tree", snapshot.tree.to_string()),
        ("snapshot", snapshot.commit.to_string()),
        ("ref", snapshot.name.clone()),
    ];
    let bundle = bundle.map(|digest| ("bundle", digest.as_str().to_owned()));
    let pair = |(name, value): (&str, String)| {
        Some((Label::new(name).ok()?, Line::new("git", value).ok()?))
    };
    named.into_iter().chain(bundle).filter_map(pair).collect()
}
