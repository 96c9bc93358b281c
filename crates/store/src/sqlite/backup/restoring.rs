//! The way back of a copy: checked and changed in a folder of its own, then put in the place of what
//! was there, in one step that can be interrupted anywhere.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use baton_domain::scene::Lease;
use rusqlite::Connection;

use super::{Error, broken, close, copied, look, sync};
use crate::chain::Audit;
use crate::sqlite::place::Place;
use crate::sqlite::{Chance, load, pen};

/// What a restore leaves in the folder until the restored database is in its place. Whoever enters
/// the folder next finishes what a crash interrupted.
const STAGED: &str = "restored-";
/// Where it is made ready. One that was given up is removed by the next.
const DRAFT: &str = "restoring.partial";
/// The files of a database; the log and its index belong to it.
const FILES: [&str; 3] = ["baton.db", "baton.db-wal", "baton.db-shm"];

/// A database that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Which life of it this is; claim tokens and cursors of others are dead.
    pub incarnation: u64,
    /// Where the database that was there before is now.
    pub aside: Option<PathBuf>,
    /// What was walked.
    pub audit: Audit,
}

/// A copy that is about to come back. Whoever drops it has changed nothing.
pub struct Restoring {
    folder: PathBuf,
    draft: PathBuf,
    incarnation: u64,
    audit: Audit,
    /// Held until the restored database is in its place.
    _place: Place,
}

impl Restoring {
    /// Copies a database into a folder that nobody uses, walks it, and gives it another life.
    pub fn begin(
        file: &Path,
        folder: &Path,
        chance: &mut Chance,
        trusted: Option<&[u8; 32]>,
    ) -> Result<Self, Error> {
        let source = look(file, file)?;
        let place = Place::enter(folder)?;
        let draft = folder.join(DRAFT);
        let io = |error| Error::Io(draft.clone(), error);
        match fs::remove_dir_all(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Ok(()) | Err(_) => {}
        }
        fs::DirBuilder::new().mode(0o700).create(&draft).map_err(io)?;
        let empty = Audit { entries: 0, seals: 0, fault: None, ended: true };
        let folder = folder.to_owned();
        // From here on it clears up after itself.
        let mut begun = Self { folder, draft, incarnation: 0, audit: empty, _place: place };
        let path = begun.path();
        let (copy, audit, _lock) = copied(&source, &path, trusted)?;
        begun.audit = audit;
        begun.incarnation = renew(&copy, chance).map_err(broken)?;
        close(copy, &path)?;
        Ok(begun)
    }

    /// The folder of the copy, in which it may be opened and changed before it comes back.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.draft
    }

    fn path(&self) -> PathBuf {
        self.draft.join("baton.db")
    }

    /// Puts it in its place. What was there is moved aside.
    pub fn finish(self) -> Result<Restored, Error> {
        let path = self.path();
        // Whoever opened it may have left a log: it goes as one file.
        let conn = Connection::open(&path).map_err(broken)?;
        let mode = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0));
        let mode: String = mode.map_err(broken)?;
        if mode != "delete" {
            return Err(Error::Damaged(format!("somebody holds the copy ({mode})")));
        }
        close(conn, &path)?;
        let staged = self.folder.join(format!("{STAGED}{:016x}.db", self.incarnation));
        fs::rename(&path, &staged).map_err(|error| Error::Io(staged, error))?;
        sync(&self.folder)?;
        let aside = finish(&self.folder).map_err(|error| Error::Io(self.folder.clone(), error))?;
        let (incarnation, audit) = (self.incarnation, self.audit.clone());
        Ok(Restored { incarnation, aside, audit })
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next one.
        drop(fs::remove_dir_all(&self.draft));
    }
}

/// Brings a copy back as it is.
pub fn restore(
    file: &Path,
    folder: &Path,
    chance: &mut Chance,
    trusted: Option<&[u8; 32]>,
) -> Result<Restored, Error> {
    Restoring::begin(file, folder, chance, trusted)?.finish()
}

/// Puts a restored database in its place, if one is waiting; called with the folder locked, before
/// anything in it is opened. It can be interrupted anywhere and done again.
pub(in crate::sqlite) fn finish(folder: &Path) -> io::Result<Option<PathBuf>> {
    let Some((staged, life)) = staged(folder)? else { return Ok(None) };
    let aside = folder.join(format!("before-restore-{life}"));
    for name in FILES {
        if folder.join(name).symlink_metadata().is_ok() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&aside)?;
            fs::rename(folder.join(name), aside.join(name))?;
        }
    }
    if aside.is_dir() {
        File::open(&aside)?.sync_all()?;
    }
    fs::rename(&staged, folder.join("baton.db"))?;
    File::open(folder)?.sync_all()?;
    Ok(aside.is_dir().then_some(aside))
}

/// The database that waits to be put in its place, with the life that its name bears.
fn staged(folder: &Path) -> io::Result<Option<(PathBuf, String)>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let life = name.to_str().and_then(|name| name.strip_prefix(STAGED)?.strip_suffix(".db"));
        if let Some(life) = life {
            return Ok(Some((entry.path(), life.to_owned())));
        }
    }
    Ok(None)
}

/// Whether a restore was interrupted; the next start finishes it.
#[must_use]
pub fn is_unfinished(folder: &Path) -> bool {
    staged(folder).is_ok_and(|staged| staged.is_some())
}

/// Gives a database another life, so that no claim from before is good in it: tokens and cursors
/// name the life that they are of, and every lease is forfeit, whoever proves to have held it. The
/// first sweep ends their attempts as those of any holder that was lost.
fn renew(conn: &Connection, chance: &mut Chance) -> rusqlite::Result<u64> {
    let (before, _) = load::names(conn)?;
    let mut bytes = [0; 8];
    chance(&mut bytes);
    // Positive, never the one before, and never the one that means no life at all.
    let drawn = u64::from_be_bytes(bytes) >> 1;
    let incarnation = if drawn == before || drawn == 0 { before / 2 + 1 } else { drawn };
    let sql = "UPDATE meta SET value = ?1 WHERE name = 'incarnation'";
    conn.execute(sql, [pen::int(incarnation)])?;
    conn.execute("UPDATE leases SET expires_at = ?1", [Lease::FORFEIT.0])?;
    Ok(incarnation)
}
