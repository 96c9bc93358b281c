//! What is known about a worktree, beside its folder: a crash leaves either the old or the new.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use baton_domain::ids::{DeploymentId, ProjectId, TaskId, TenantId};
use serde::{Deserialize, Serialize};

use crate::files::replace;

use super::beneath::Identity;
use super::{Error, Key, Oid, Plan, Ran};

/// The form of the record; a later one is not read by guessing.
const FORM: u32 = 1;
/// Bytes of a record: the tails of a few commands are the longest part of it.
const RECORD_BYTES_MAX: u64 = 1 << 20;
pub(super) const RECORD: &str = "record.json";

/// How far a worktree is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being made, or its making was cut short: nobody has worked in it.
    Making,
    /// Agents work in it.
    Ready,
    /// Its task needs it no more.
    Over,
    /// Somebody may still write in it, or it holds what cannot be kept otherwise.
    Quarantined { why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    form: u32,
    pub(super) deployment: DeploymentId,
    pub(super) tenant: TenantId,
    pub(super) project: ProjectId,
    pub(super) task: TaskId,
    pub(super) generation: u32,
    pub(super) base: Oid,
    /// The snapshot that it began from.
    pub(super) from: Option<Oid>,
    /// The last attempt that was let in.
    #[serde(default)]
    pub(super) attempt: u32,
    /// Which folder was made; none while there is none.
    pub(super) folder: Option<Identity>,
    pub(super) phase: State,
    /// What the commands of the project said when it was made.
    pub(super) setup: Vec<Ran>,
}

impl Record {
    pub(super) fn new(deployment: &DeploymentId, plan: &Plan<'_>) -> Self {
        let Plan { key, project, base, from, attempt, .. } = plan;
        Self {
            form: FORM,
            deployment: deployment.clone(),
            tenant: key.tenant.clone(),
            project: (*project).clone(),
            task: key.task,
            generation: key.generation,
            base: base.clone(),
            from: from.clone(),
            attempt: *attempt,
            folder: None,
            phase: State::Making,
            setup: vec![],
        }
    }

    pub(super) fn key(&self) -> Key {
        Key { tenant: self.tenant.clone(), task: self.task, generation: self.generation }
    }

    /// Reads it; none if there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(RECORD);
        let read = || -> io::Result<Self> {
            let mut bytes = vec![];
            File::open(&path)?.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
            let record: Self = serde_json::from_slice(&bytes)?;
            match record.form {
                FORM => Ok(record),
                other => Err(io::Error::other(format!("it has form {other}, of a newer baton"))),
            }
        };
        match read() {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::File { path, error }),
        }
    }

    /// Writes it whole or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(RECORD);
        let bytes = serde_json::to_vec_pretty(self).map_err(io::Error::other);
        bytes.and_then(|bytes| replace(&path, &bytes)).map_err(Error::file(&path))
    }
}

/// Takes a folder away with everything in it, also what was made unwritable.
pub(super) fn clear(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    open_up(folder, FOLDERS_DEEP_MAX);
    fs::remove_dir_all(folder).map_err(Error::file(folder))
}

/// How deep folders are opened up to be taken away: deeper ones must be taken away by hand.
const FOLDERS_DEEP_MAX: usize = 64;

fn open_up(folder: &Path, deep_max: usize) {
    use std::os::unix::fs::PermissionsExt as _;
    drop(fs::set_permissions(folder, fs::Permissions::from_mode(0o700)));
    let Ok(inside) = fs::read_dir(folder) else { return };
    for entry in inside.flatten().filter(|_| deep_max > 0) {
        // The type of the entry itself: a link is not followed.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path(), deep_max - 1);
        }
    }
}
