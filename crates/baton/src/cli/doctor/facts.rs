//! What is so, without any opinion on it.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use baton_domain::time::Timestamp;
use baton_store::PepperDigest;
use baton_store::postgres::examine::Condition;
use baton_store::sqlite::OpenError;
use baton_store::sqlite::backup;

use crate::chance::SystemChance;
use crate::init::{self, Agent};
use crate::surroundings::{Surroundings, blobs_in, key_file_in, socket_in};
use crate::tokens::{self, Secrets};

use super::isolation::{self, Tried};

/// Everything that the doctor looks at.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) folder: Thing,
    pub(super) in_use: bool,
    pub(super) unfinished: bool,
    pub(super) free: Option<u64>,
    pub(super) free_min: u64,
    pub(super) network: Option<&'static str>,
    pub(super) read_only: bool,
    pub(super) database: Database,
    /// What a database elsewhere is like.
    pub(super) condition: Option<Condition>,
    pub(super) database_changed_at: Option<Timestamp>,
    pub(super) socket_folder: Thing,
    pub(super) blobs: Thing,
    pub(super) secrets: Vec<Thing>,
    /// Whether the pepper in the folder is that of the database.
    pub(super) pepper: Pepper,
    /// What killed copies left in the folder.
    pub(super) leftovers: Vec<PathBuf>,
    /// A socket that nobody can be listening at.
    pub(super) stale_socket: Option<PathBuf>,
    pub(super) server: Server,
    /// What the server tells of itself, if it answers.
    pub(super) told: Told,
    pub(super) place: String,
    /// The host of a server on another machine.
    pub(super) host: Option<String>,
    /// Whether a key would go over a network as it is.
    pub(super) plain_beyond: bool,
    /// The command that starts a server in this folder.
    pub(super) serve: String,
    pub(super) now: Timestamp,
    pub(super) around: Surroundings,
    pub(super) key_file: Option<Thing>,
    /// How agents can be kept apart, if that can be told.
    pub(super) isolation: Option<Tried>,
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
    Sound {
        version: i64,
        incarnation: u64,
    },
    Newer(String),
    Broken(String),
    /// One elsewhere that cannot be used, and what helps.
    Elsewhere {
        why: String,
        fix: &'static str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// There is no such address.
    Nowhere(String),
    Silent(String),
    Refused {
        why: String,
        /// What whoever refused says that helps.
        next: Option<String>,
    },
    Troubled(Vec<Trouble>),
    Green,
}

/// Something that a server says is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) detail: String,
    pub(super) next: String,
}

/// What a server tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) pid: Option<i32>,
    pub(super) now: Option<Timestamp>,
    pub(super) version: Option<String>,
    pub(super) stop_unverified: u64,
    /// Channels by which nobody is told: their names, and why.
    pub(super) broken_channels: Vec<(String, String)>,
    /// That every account is at its limit while work is queued, in words.
    pub(super) exhausted: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pepper {
    /// There is nothing that one could fit.
    Unneeded,
    Fits,
    Missing,
    Wrong,
    Unusable(String),
}

impl Facts {
    /// Looks at the folder and the environment; whoever calls asks the server.
    pub(super) fn gather(folder: &Path, around: &Surroundings, now: Timestamp) -> Self {
        let (free, free_min) = backup::free_bytes(folder);
        let socket = around.socket.clone().unwrap_or_else(|| socket_in(folder));
        let secrets = ["pepper", "seal.key"].map(|name| Thing::at(&folder.join(name)));
        let mut secrets = secrets.to_vec();
        secrets.push(Thing::at(&key_file_in(folder)));
        let in_use = backup::is_in_use(folder).unwrap_or(false);
        let is_socket = fs::symlink_metadata(&socket).is_ok_and(|at| at.file_type().is_socket());
        let (database, pepper) = database(folder);
        let usual = around.folder().is_some_and(|usual| usual == folder);
        Self {
            folder: Thing::at(folder),
            in_use,
            unfinished: backup::is_unfinished(folder),
            free,
            free_min,
            read_only: backup::is_read_only(folder),
            network: backup::network(folder).ok().flatten(),
            database,
            condition: None,
            database_changed_at: changed_at(&folder.join("baton.db")),
            socket_folder: Thing::at(socket.parent().unwrap_or(Path::new("."))),
            blobs: Thing::at(&around.blobs.clone().unwrap_or_else(|| blobs_in(folder))),
            secrets,
            pepper,
            leftovers: backup::leftovers(folder),
            stale_socket: (is_socket && !in_use).then_some(socket),
            server: Server::Green,
            told: Told::default(),
            place: String::new(),
            host: None,
            plain_beyond: false,
            serve: match usual {
                true => "baton serve".to_owned(),
                false => format!("baton serve --data {}", quoted(folder)),
            },
            now,
            around: around.clone(),
            key_file: around.key_file.as_deref().map(Thing::at),
            isolation: isolation::tried(),
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

fn database(folder: &Path) -> (Database, Pepper) {
    if !folder.join("baton.db").exists() {
        return (Database::Absent, Pepper::Unneeded);
    }
    match backup::about(folder) {
        Ok(backup::Edition { version, incarnation, pepper: known }) => {
            (Database::Sound { version, incarnation }, pepper(folder, known))
        }
        Err(backup::Error::Open(newer @ OpenError::Newer { .. })) => {
            (Database::Newer(newer.to_string()), Pepper::Unneeded)
        }
        Err(error) => (Database::Broken(error.to_string()), Pepper::Unneeded),
    }
}

/// Looks at the pepper. It is never made by looking.
fn pepper(folder: &Path, known: Option<PepperDigest>) -> Pepper {
    pepper_at(&folder.join("pepper"), known)
}

/// Whether a file holds the pepper that a database knows.
pub(super) fn pepper_at(path: &Path, known: Option<PepperDigest>) -> Pepper {
    let Some(known) = known else { return Pepper::Unneeded };
    if path.symlink_metadata().is_err() {
        return Pepper::Missing;
    }
    match Secrets::open(path, &SystemChance) {
        Ok(secrets) if secrets.verifier() == known.0 => Pepper::Fits,
        Ok(_) => Pepper::Wrong,
        // Whose it is and who may read it is looked at with the other secrets.
        Err(tokens::Error::TooOpen { .. }) => Pepper::Unneeded,
        Err(error) => Pepper::Unusable(error.to_string()),
    }
}

/// A path as a shell takes it.
pub(super) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%~,".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

fn changed_at(path: &Path) -> Option<Timestamp> {
    let changed = fs::metadata(path).ok()?.modified().ok()?;
    let since = changed.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}
