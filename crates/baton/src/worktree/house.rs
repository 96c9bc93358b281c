//! Where the worktrees of a deployment are on this machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use baton_domain::ids::{DeploymentId, ProjectId, TenantId};
use rustix::fs::{FlockOperation, flock};

use crate::files::make_folder;

use super::beneath::Root;
use super::names::{plain, refs_of};
use super::record::Record;
use super::{Depot, Error, Git, Key, Oid, State};

/// Why a worktree is quarantined whose agent may still live.
pub const UNPROVED: &str = "its death is not proved";
/// The file that says which deployment a folder is of.
const NAME: &str = "deployment";

/// The worktrees of one deployment on this machine.
#[derive(Clone, Debug)]
pub struct House {
    folder: PathBuf,
    deployment: DeploymentId,
    git: Git,
}

/// One worktree.
#[derive(Clone, Debug)]
pub struct Worktree {
    pub(super) house: House,
    pub(super) folder: PathBuf,
    pub(super) record: Record,
}

/// The right to work in a worktree, until it is dropped or the process ends; of one that was lent, until
/// whoever has it ends, too.
#[derive(Debug)]
pub struct Held {
    file: File,
    lent: bool,
}

impl Held {
    fn new(file: File) -> Self {
        Self { file, lent: false }
    }

    /// The same right for a process that is started with it.
    ///
    /// # Errors
    /// If this process has too many files open.
    pub fn lend(&mut self) -> std::io::Result<File> {
        self.lent = true;
        self.file.try_clone()
    }

    /// Whoever had it is known to be gone.
    pub fn take_back(&mut self) {
        self.lent = false;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A process that is just being started by another thread may still have the file open. Letting go
        // of the lock lets go of it for everybody who was lent it, so that is left to the last of them.
        if !self.lent {
            flock(&self.file, FlockOperation::Unlock).unwrap_or_default();
        }
    }
}

impl House {
    /// The place of a deployment in a data folder. Nothing is made yet.
    #[must_use]
    pub fn new(data: &Path, deployment: &DeploymentId, git: &Git) -> Self {
        let folder = data.join("worker").join(plain(deployment.as_str()));
        Self { folder, deployment: deployment.clone(), git: git.clone() }
    }

    /// Those that a data folder has worktrees of.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn all(data: &Path, git: &Git) -> Result<Vec<Self>, Error> {
        let mut houses = vec![];
        for folder in folders(&data.join("worker"))? {
            let Ok(name) = fs::read_to_string(folder.join(NAME)) else { continue };
            let Ok(deployment) = name.trim().parse() else { continue };
            let house = Self::new(data, &deployment, git);
            // A folder that was copied under another name is nobody's.
            houses.extend((house.folder == folder).then_some(house));
        }
        Ok(houses)
    }

    /// Which deployment it is of.
    #[must_use]
    pub fn deployment(&self) -> &DeploymentId {
        &self.deployment
    }

    pub(super) fn worktrees(&self) -> PathBuf {
        self.folder.join("worktrees")
    }

    pub(super) fn folder_of(&self, key: &Key) -> PathBuf {
        self.worktrees().join(key.folder())
    }

    fn depot_folder(&self, tenant: &TenantId, project: &ProjectId) -> PathBuf {
        let name = format!("{}.{}.git", plain(tenant.as_str()), plain(project.as_str()));
        self.folder.join("repositories").join(name)
    }

    /// The repository of a project here, made if there is none.
    pub(super) fn make_depot(
        &self,
        tenant: &TenantId,
        project: &ProjectId,
        like: &Oid,
    ) -> Result<Depot, Error> {
        self.make_folder(&self.folder.join("repositories"))?;
        Depot::open(&self.git, &self.depot_folder(tenant, project), like)
    }

    /// The repository of a project here, if there is one.
    #[must_use]
    pub fn depot(&self, tenant: &TenantId, project: &ProjectId) -> Option<Depot> {
        Depot::existing(&self.git, &self.depot_folder(tenant, project))
    }

    /// Every project that has a repository here.
    pub(super) fn depots(&self) -> Result<Vec<Depot>, Error> {
        let all = folders(&self.folder.join("repositories"))?;
        Ok(all.iter().filter_map(|folder| Depot::existing(&self.git, folder)).collect())
    }

    /// Makes a folder of ours, which nobody else may enter.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        make_folder(folder).map_err(Error::file(folder))?;
        let name = self.folder.join(NAME);
        if !name.exists() {
            fs::write(&name, format!("{}\n", self.deployment)).map_err(Error::file(&name))?;
        }
        Ok(())
    }

    /// A worktree that was made.
    ///
    /// # Errors
    /// If there is none, or its record cannot be read.
    pub fn worktree(&self, key: &Key) -> Result<Worktree, Error> {
        let folder = self.folder_of(key);
        let record = Record::read(&folder)?.filter(|record| record.deployment == self.deployment);
        let record = record.ok_or_else(|| Error::NoWorktree(key.folder()))?;
        Ok(Worktree { house: self.clone(), folder, record })
    }
}

impl Worktree {
    /// Which it is.
    #[must_use]
    pub fn key(&self) -> Key {
        self.record.key()
    }

    /// The folder that the agent works in.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The commit that its task began from.
    #[must_use]
    pub fn base(&self) -> &Oid {
        &self.record.base
    }

    /// The last attempt that was let in.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.record.attempt
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.record.phase
    }

    /// The project's repository. An agent must be able to read its [`Depot::objects`].
    ///
    /// # Errors
    /// If it is gone.
    pub fn depot(&self) -> Result<Depot, Error> {
        let depot = self.house.depot(&self.record.tenant, &self.record.project);
        depot.ok_or_else(|| Error::NoWorktree(self.key().folder()))
    }

    /// Where the snapshots of its task are.
    pub(super) fn refs(&self) -> String {
        refs_of(&self.house.deployment, &self.key().whose())
    }

    /// Works in it: one does at a time.
    ///
    /// # Errors
    /// If somebody does.
    pub fn hold(&self) -> Result<Held, Error> {
        hold(&self.folder)
    }

    /// Nobody works here again: somebody may still write in it whose death is not proved.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn quarantine(&mut self, why: &str) -> Result<(), Error> {
        self.turn(State::Quarantined { why: why.to_owned() })
    }

    /// Lifts a quarantine whose cause is gone: death was proved after all, or a person has looked. If the task has
    /// gone on in a later one, it is needed no more.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn release(&mut self) -> Result<(), Error> {
        let key = self.key();
        let later = Key { generation: key.generation + 1, ..key };
        let went_on = Record::read(&self.house.folder_of(&later))?.is_some();
        match self.record.phase {
            State::Quarantined { .. } if went_on => self.turn(State::Over),
            State::Quarantined { .. } => self.turn(State::Ready),
            State::Making | State::Ready | State::Over => Ok(()),
        }
    }

    /// Whether it is quarantined because a death is not proved, and for nothing else.
    #[must_use]
    pub fn is_unproved(&self) -> bool {
        matches!(&self.record.phase, State::Quarantined { why } if why == UNPROVED)
    }

    /// Its task needs it no more, so that it may be pruned. A quarantined one stays as it is.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn finish(&mut self) -> Result<(), Error> {
        match self.record.phase {
            State::Ready => self.turn(State::Over),
            State::Making | State::Over | State::Quarantined { .. } => Ok(()),
        }
    }

    /// Its task goes on, by this attempt.
    pub(super) fn let_in(&mut self, attempt: u32) -> Result<(), Error> {
        self.record.attempt = attempt;
        self.turn(State::Ready)
    }

    fn turn(&mut self, state: State) -> Result<(), Error> {
        let mut record = self.record.clone();
        record.phase = state;
        record.write(&self.folder)?;
        self.record = record;
        Ok(())
    }

    /// Looks at its files as the only one: whoever comes next waits.
    pub(super) fn look(&self) -> Result<Held, Error> {
        let path = self.folder.join("looking");
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(Error::file(&path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| Error::file(&path)(error.into()))?;
        Ok(Held::new(file))
    }

    /// The folder that was made, held open; another one in its place is not read.
    pub(super) fn root(&self) -> Result<Root, Error> {
        let changed = || Error::WorkspaceChanged(self.path());
        let root = Root::open(&self.path()).map_err(|_| changed())?;
        let found = root.identity().map_err(Error::file(&self.path()))?;
        if Some(found) == self.record.folder { Ok(root) } else { Err(changed()) }
    }
}

/// Takes the lock of a worktree.
pub(super) fn hold(folder: &Path) -> Result<Held, Error> {
    let path = folder.join("lock");
    let file = File::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(Error::file(&path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Held::new(file)),
        Err(rustix::io::Errno::AGAIN) => Err(Error::InUse(folder.to_path_buf())),
        Err(error) => Err(Error::File { path, error: error.into() }),
    }
}

/// How many folders are looked at: more is no work of this program.
const FOLDERS_MAX: usize = 100_000;

/// The folders in a folder, sorted; none if it is not there.
pub(super) fn folders(inside: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(inside) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(Error::file(inside))?,
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let found = entries.take(FOLDERS_MAX).flatten().filter(is_folder);
    let mut found: Vec<_> = found.map(|entry| entry.path()).collect();
    found.sort();
    Ok(found)
}
