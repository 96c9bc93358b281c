//! What a worker before this one left: attempts whose agents run on, or ended while nobody looked.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_domain::ids::{AttemptId, DeploymentId, Label};
use baton_domain::text::Text;
use rustix::fs::{FlockOperation, flock};

use crate::chance::Chance;
use crate::files::{make_folder, replace};
use crate::shim::{self, Found, Place};

use super::card::Card;
use super::outbox;

/// Attempts that are looked at; a hello names no more.
const ATTEMPTS_MAX: usize = crate::protocol::SLOTS_MAX;
/// Attempts that are over and settled whose folders are kept, for whoever wants to read them.
const SETTLED_MAX: usize = 64;
/// What of a settled attempt is of no use any more, and secret.
const SECRET: [&str; 2] = ["spec.json", "card.json"];
/// Bytes of a name that is kept in a file.
const NAME_BYTES_MAX: u64 = 256;
/// Characters of the name of a machine: room is left for what tells two of one name apart.
const HOST_CHARS_MAX: usize = 32;

/// The right to be the worker of a folder.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock lives as long as the open file")] File);

/// What is left of one attempt.
#[derive(Debug)]
pub struct Left {
    pub attempt: AttemptId,
    /// What it was started with; none if it never came so far, and an error if nobody can tell.
    pub card: io::Result<Option<Card>>,
    /// What became of its process.
    pub found: io::Result<Found>,
}

impl Lock {
    /// Becomes the worker of a folder, and says so in it.
    ///
    /// # Errors
    /// If somebody is, or nobody can be.
    pub fn take(folder: &Path) -> io::Result<Option<Self>> {
        make_folder(folder)?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(lock_of(folder))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Self(file)))
    }
}

/// Where the lock of a worker's folder is. Whoever holds it has written its number into it.
#[must_use]
pub fn lock_of(folder: &Path) -> PathBuf {
    folder.join("lock")
}

/// Looks what became of every attempt that is not settled. Whatever a boot before this one left is dead.
///
/// # Errors
/// If the folder cannot be read.
pub async fn survey(attempts: &Path) -> io::Result<Vec<Left>> {
    make_folder(attempts)?;
    let mut left = vec![];
    for (attempt, folder) in folders(attempts)? {
        if !outbox::is_in(&folder) {
            continue;
        }
        if left.len() >= ATTEMPTS_MAX {
            let why = format!("{} holds more than {ATTEMPTS_MAX} attempts", attempts.display());
            return Err(io::Error::other(why));
        }
        let card = Card::read(&folder);
        let found = shim::adopt(&Place::at(&folder)).await;
        left.push(Left { attempt, card, found });
    }
    Ok(left)
}

/// Takes the secrets out of a settled attempt, and removes the oldest settled ones beyond the bound. One
/// of which something is not reported is never touched.
///
/// # Errors
/// If a folder cannot be read or removed.
pub fn tidy(attempts: &Path, live: &BTreeSet<AttemptId>) -> io::Result<usize> {
    let mut settled = vec![];
    for (attempt, folder) in folders(attempts)? {
        if live.contains(&attempt) || outbox::is_in(&folder) {
            continue;
        }
        for name in SECRET {
            remove(&folder.join(name))?;
        }
        let since = fs::metadata(&folder)?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        settled.push((since, folder));
    }
    settled.sort();
    let beyond = settled.len().saturating_sub(SETTLED_MAX);
    for (_, folder) in settled.iter().take(beyond) {
        fs::remove_dir_all(folder)?;
    }
    Ok(beyond)
}

fn folders(attempts: &Path) -> io::Result<Vec<(AttemptId, PathBuf)>> {
    let mut folders = vec![];
    for entry in fs::read_dir(attempts)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(attempt) = name.to_str().and_then(|name| name.parse().ok()) {
            folders.push((attempt, entry.path()));
        }
    }
    folders.sort();
    Ok(folders)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What this worker is called, the same each time: the name of the machine, and what tells two workers on it
/// apart.
///
/// # Errors
/// If it cannot be kept.
pub fn machine(folder: &Path, chance: &dyn Chance) -> io::Result<Label> {
    let path = folder.join("machine");
    // A folder is known by its inode, which stays when it is moved and is another in a copy.
    let inode = fs::metadata(folder)?.ino();
    let kept = name_in(&path)?;
    let (name, of) = kept.as_deref().and_then(|kept| kept.split_once(' ')).unzip();
    let name = name.or(kept.as_deref()).and_then(|name| Label::new(name).ok());
    if let Some(name) = name.filter(|_| of.is_none_or(|of| of == inode.to_string())) {
        if of.is_none() {
            replace(&path, format!("{name} {inode}").as_bytes())?;
        }
        return Ok(name);
    }
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let host: String =
        host.chars().filter(char::is_ascii_alphanumeric).take(HOST_CHARS_MAX).collect();
    let mut bytes = [0; 4];
    chance.fill(&mut bytes);
    let name = format!(
        "{}-{:08x}",
        if host.is_empty() { "worker" } else { &host },
        u32::from_be_bytes(bytes)
    );
    let label = Label::new(&name).map_err(io::Error::other)?;
    replace(&path, format!("{name} {inode}").as_bytes())?;
    Ok(label)
}

/// A name of this process alone, by which a server tells it from another worker of the same name.
#[must_use]
pub fn process(chance: &dyn Chance) -> Text<64> {
    let mut bytes = [0; 16];
    chance.fill(&mut bytes);
    let name = format!("{:032x}", u128::from_be_bytes(bytes));
    Text::new("process", name).expect("32 digits are a text")
}

/// The installation that the attempts of this folder belong to, once that is known.
///
/// # Errors
/// If it cannot be read.
pub fn deployment(folder: &Path) -> io::Result<Option<DeploymentId>> {
    Ok(name_in(&folder.join("deployment"))?.and_then(|name| DeploymentId::new(&name).ok()))
}

/// Keeps it.
///
/// # Errors
/// If it cannot be written.
pub fn keep_deployment(folder: &Path, deployment: &DeploymentId) -> io::Result<()> {
    replace(&folder.join("deployment"), deployment.as_str().as_bytes())
}

fn name_in(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut text = String::new();
    file.take(NAME_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text.trim().to_owned()))
}

#[cfg(test)]
mod tests;
