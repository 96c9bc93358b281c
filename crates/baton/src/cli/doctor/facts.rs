//! What is so, without any opinion on it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use baton_domain::time::Timestamp;
use baton_store::sqlite::OpenError;
use baton_store::sqlite::backup;

use crate::init::{self, Agent};
use crate::surroundings::{Surroundings, key_file_in, socket_in};

/// Everything that the doctor looks at.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) folder: Thing,
    pub(super) in_use: bool,
    pub(super) unfinished: bool,
    pub(super) free: Option<u64>,
    pub(super) free_min: u64,
    pub(super) network: Option<&'static str>,
    pub(super) database: Database,
    pub(super) database_changed_at: Option<Timestamp>,
    pub(super) socket_folder: Thing,
    pub(super) secrets: Vec<Thing>,
    pub(super) server: Server,
    pub(super) place: String,
    /// Whether a key would go over a network as it is.
    pub(super) plain_beyond: bool,
    pub(super) now: Timestamp,
    pub(super) around: Surroundings,
    pub(super) key_file: Option<Thing>,
    /// What is wrong with the repository around, if it was set up.
    pub(super) repository: Option<Vec<(String, String)>>,
}

/// A file or a folder, as far as it matters whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thing {
    pub(super) path: PathBuf,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Unreadable,
    Present { mode: u32, ours: bool, folder: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Database {
    Absent,
    Sound { version: i64, incarnation: u64 },
    Newer(String),
    Broken(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Silent(String),
    Refused(String),
    Troubled(Vec<String>),
    Green,
}

impl Facts {
    /// Looks at the folder and the environment; whoever calls asks the server.
    pub(super) fn gather(folder: &Path, around: &Surroundings, now: Timestamp) -> Self {
        let (free, free_min) = backup::free_bytes(folder);
        let socket = around.socket.clone().unwrap_or_else(|| socket_in(folder));
        let secrets = ["pepper", "seal.key"].map(|name| Thing::at(&folder.join(name)));
        let mut secrets = secrets.to_vec();
        secrets.push(Thing::at(&key_file_in(folder)));
        Self {
            folder: Thing::at(folder),
            in_use: backup::is_in_use(folder).unwrap_or(false),
            unfinished: backup::is_unfinished(folder),
            free,
            free_min,
            network: backup::network(folder).ok().flatten(),
            database: database(folder),
            database_changed_at: changed_at(&folder.join("baton.db")),
            socket_folder: Thing::at(socket.parent().unwrap_or(Path::new("."))),
            secrets,
            server: Server::Green,
            place: String::new(),
            plain_beyond: false,
            now,
            around: around.clone(),
            key_file: around.key_file.as_deref().map(Thing::at),
            repository: std::env::current_dir()
                .ok()
                .and_then(|here| init::examined(&here, &Agent::found(&around.programs))),
        }
    }
}

impl Thing {
    fn at(path: &Path) -> Self {
        let state = match fs::symlink_metadata(path) {
            Ok(about) => State::Present {
                mode: about.mode() & 0o7777,
                ours: about.uid() == rustix::process::geteuid().as_raw(),
                folder: about.is_dir(),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => State::Absent,
            Err(_) => State::Unreadable,
        };
        Self { path: path.into(), state }
    }
}

fn database(folder: &Path) -> Database {
    if !folder.join("baton.db").exists() {
        return Database::Absent;
    }
    match backup::about(folder) {
        Ok(about) => Database::Sound { version: about.version, incarnation: about.incarnation },
        Err(backup::Error::Open(newer @ OpenError::Newer { .. })) => {
            Database::Newer(newer.to_string())
        }
        Err(error) => Database::Broken(error.to_string()),
    }
}

fn changed_at(path: &Path) -> Option<Timestamp> {
    let changed = fs::metadata(path).ok()?.modified().ok()?;
    let since = changed.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}
