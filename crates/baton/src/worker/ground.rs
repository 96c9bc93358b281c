//! Where an agent works: a worktree of the project's repository, or a plain folder where there is none.
//!
//! All of this blocks: a worker does it beside its runtime.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use baton_domain::ids::{AttemptId, Digest, Label};
use baton_domain::text::Line;

use crate::contract;
use crate::protocol::Dispatch;
use crate::worktree::{
    Error, Git, Held, House, Key, Oid, Plain, Plan, Prepared, Repository, Source, State, Taken,
    Worktree,
};

use super::bind;
use super::card::Card;
use super::errand::{Errand, SETUP_MAX};
use super::prepare::{self, Premises, Whose};

mod bring;

/// Worktrees that one task may have had on this machine: each one but the last was closed because somebody
/// might still write in it, or because the task went on elsewhere.
const GENERATIONS_MAX: u32 = 64;
/// Characters of a command's last words that are told: with the command they fit into a reason.
const LAST_WORDS_CHARS_MAX: usize = 400;

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
        let of_task = self.of_task(whose, dispatch.attempt.task);
        let Some(root) = self.root(dispatch) else { return plain(&of_task) };
        let there = root.is_dir();
        // Whoever has the whole history from the server needs no repository.
        let sent = dispatch.work.as_ref().is_some_and(|work| !work.base_bundles.is_empty());
        match (there, sent) {
            (false, false) => return Ok(Site::Elsewhere(root)),
            (true, _) if !root.join(".git").exists() => return plain(&of_task),
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
                    let ground = Ground { folder: Folder::Tree(worktree.into()), held: Some(held) };
                    return Ok(Site::Here(ground, generation));
                }
                // Whoever is there is not known here any more: the work goes on from what was kept of it.
                Err(prepare::Error::Worktree {
                    error: Error::InUse(_) | Error::Quarantined { .. } | Error::WorkspaceChanged(_),
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
        if let (Some(own), None, false) = (repository, &from, is_there) {
            bind::check(own, &base, &dispatch.stage)?;
        }
        let commands = match is_there {
            true => vec![],
            false => stuff.setup(&base, from.as_ref())?,
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
            setup: &commands,
        };
        let mut errand = Errand::new(self, stuff.whose, dispatch, SETUP_MAX);
        let mut setup =
            |command: &str, folder: &Path, held: &mut Held| errand.run(command, folder, held);
        match house.prepare(&plan, &mut setup) {
            Err(Error::Setup { command, code, tail }) => {
                let how =
                    code.map_or("was ended by force".to_owned(), |code| format!("failed ({code})"));
                Err(prepare::Error::Setup { command, how, tail: last_words(&tail) })
            }
            prepared => Ok(prepared?),
        }
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

impl Stuff<'_> {
    /// The commands that set up a new worktree, by the commit that the task began from.
    fn setup(&self, base: &Oid, from: Option<&Oid>) -> Result<Vec<String>, prepare::Error> {
        let (tenant, project) = (&self.whose.tenant, &self.dispatch.project);
        let began = match from {
            Some(from) => self.house.began_from(tenant, project, from)?,
            None => None,
        };
        let commit = began.as_ref().unwrap_or(base);
        let what = (contract::FILE, contract::FILE_BYTES_MAX);
        let file = self.house.file_of(tenant, project, self.repository, commit, what)?;
        let settings = |error| prepare::Error::Settings { commit: commit.to_string(), error };
        file.map_or(Ok(vec![]), |bytes| contract::setup(&bytes).map_err(settings))
    }
}

/// The end of what a command said, in one line.
fn last_words(tail: &str) -> String {
    let line = tail.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(LAST_WORDS_CHARS_MAX);
    line.chars().skip(skip).collect()
}

fn plain(of_task: &Path) -> Result<Site, prepare::Error> {
    let (plain, held) = Plain::prepare(of_task, GENERATIONS_MAX)?;
    let generation = plain.generation();
    Ok(Site::Here(Ground { folder: Folder::Plain(plain), held: Some(held) }, generation))
}

/// Whether somebody has worked on the task after those who worked here.
fn is_behind(worktree: &Worktree, dispatch: &Dispatch) -> bool {
    dispatch.work.as_ref().is_some_and(|work| work.attempt > worktree.attempt())
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
    pub fn close(&mut self, why: &str, attempt: AttemptId) -> Result<(), Error> {
        match &mut self.folder {
            Folder::Tree(worktree) => worktree.quarantine(why),
            // A plain folder has no record of who was in it last.
            Folder::Plain(plain) => plain.quarantine(&format!("{why}\n{attempt}")),
        }
    }

    /// The attempt whose unproved death closed a folder without git, if that is why it is closed.
    #[must_use]
    pub fn unproved(&self) -> Option<AttemptId> {
        match &self.folder {
            Folder::Tree(_) => None,
            Folder::Plain(plain) => plain.unproved().ok().flatten(),
        }
    }

    /// Somebody may again.
    ///
    /// # Errors
    /// The same.
    pub fn open(&mut self) -> Result<(), Error> {
        match &mut self.folder {
            Folder::Tree(worktree) => worktree.release(),
            Folder::Plain(plain) => plain.release(),
        }
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
