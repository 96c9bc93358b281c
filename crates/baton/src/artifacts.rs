//! Files that a contract asks for, taken from a folder in which somebody else may be at work.
//!
//! A name is resolved once, beneath the root and through no link, and from then on only the descriptor counts:
//! what it is, how large it is, and its bytes, which are hashed while they are copied away. Whatever happens to the
//! folder afterwards, the copy is what was looked at. Every line that is open is told with a code of its own.
//!
//! All of this blocks: whoever has a runtime does it beside that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use baton_domain::contract::{Artifact, Contract, Submission, Term};
use baton_domain::ids::{Digest, LineId};
use baton_domain::limits::ARTIFACTS_MAX;
use baton_domain::pattern;
use baton_domain::refusal::Missing;
use baton_domain::text::Line;
use baton_store::blobs::BYTES_MAX;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use crate::worktree::beneath::Root;

use search::Search;

mod search;

/// How often a file is read again that changed while it was read.
const READS_MAX: usize = 3;
/// How much is read at once.
const CHUNK_BYTES: usize = 128 << 10;
/// Bytes of all artifacts of one submission: four of the largest.
const ALL_BYTES_MAX: u64 = 4 * BYTES_MAX;

/// A file that answers a line.
#[derive(Debug)]
pub struct Made {
    pub artifact: Artifact,
    /// Its bytes as they were hashed; gone with this.
    pub copy: TempPath,
}

/// What was found for the lines of a contract.
#[derive(Debug, Default)]
pub struct Gathered {
    pub made: Vec<Made>,
    /// Every line that is open, and why.
    pub open: Vec<Missing>,
}

/// Why a file does not answer a line: the code that its line is told with.
type Code = &'static str;

/// A folder that artifacts are taken from.
#[derive(Debug)]
pub struct Source(Root);

impl Source {
    /// Opens the folder. It is that folder from now on, whatever is put under its name.
    ///
    /// # Errors
    /// If it is not a folder.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Root::open(folder).map(Self)
    }

    /// Takes every file that a contract asks for, as copies in a folder of ours. `before` are the files that were
    /// there when the attempt began: what still is as it was, this attempt has not made.
    pub fn gather(
        &self,
        contract: &Contract,
        before: &BTreeMap<Line, Digest>,
        into: &Path,
    ) -> Gathered {
        let mut gathered = Gathered::default();
        let (mut taken, mut room) = (BTreeSet::new(), ALL_BYTES_MAX);
        for (line, path, bytes_min) in artifacts(contract) {
            let found = match self.find(path) {
                Ok(found) => found,
                Err(code) => {
                    gathered.open.push(open(line, code, path.as_str()));
                    continue;
                }
            };
            for name in found {
                // Two lines may ask for the same file.
                if taken.contains(&name) {
                    continue;
                }
                let copied = named(&name).and_then(|path| {
                    let made = self.copy(path, bytes_min, room, into)?;
                    let stale = before.get(&made.artifact.path) == Some(&made.artifact.digest);
                    if stale { Err("artifact_stale") } else { Ok(made) }
                });
                match copied {
                    Ok(_) if gathered.made.len() == ARTIFACTS_MAX => {
                        gathered.open.push(open(line, "artifact_too_many", &name));
                        break;
                    }
                    Ok(made) => {
                        room = room.saturating_sub(made.artifact.bytes);
                        gathered.made.push(made);
                        taken.insert(name);
                    }
                    Err(code) => gathered.open.push(open(line, code, &name)),
                }
            }
        }
        gathered
    }

    /// What of the files that a contract asks for is there already. What cannot be read now is not there: it
    /// will be told when it counts.
    #[must_use]
    pub fn marks(&self, contract: &Contract) -> BTreeMap<Line, Digest> {
        let mut marks = BTreeMap::new();
        for (_, path, _) in artifacts(contract) {
            for name in self.find(path).unwrap_or_default() {
                let Ok(path) = named(&name) else { continue };
                if let Ok((digest, _)) = self.read(&path, BYTES_MAX, &mut || Ok(io::sink())) {
                    marks.insert(path, digest);
                }
            }
        }
        marks
    }

    fn find(&self, path: &Line) -> Result<Vec<String>, Code> {
        if !pattern::is_pattern(path.as_str()) {
            return Ok(vec![path.to_string()]);
        }
        Search::new(path.as_str()).within(&self.0)
    }

    fn copy(&self, path: Line, bytes_min: u64, room: u64, into: &Path) -> Result<Made, Code> {
        let mut last = None;
        let mut draft = || {
            let (file, path) = tempfile::NamedTempFile::new_in(into)?.into_parts();
            last = Some(path);
            Ok(file)
        };
        let (digest, bytes) = self.read(&path, room.min(BYTES_MAX), &mut draft)?;
        match bytes {
            0 => return Err("artifact_empty"),
            bytes if bytes < bytes_min => return Err("artifact_too_small"),
            _ => {}
        }
        let copy = last.ok_or("artifact_unreadable")?;
        Ok(Made { artifact: Artifact { path, digest, bytes }, copy })
    }

    /// Reads a plain file of one name whole, as it was at one moment.
    fn read<W: Write>(
        &self,
        path: &Line,
        bytes_max: u64,
        draft: &mut dyn FnMut() -> io::Result<W>,
    ) -> Result<(Digest, u64), Code> {
        for _ in 0..READS_MAX {
            let mut file = self.0.whatever(Path::new(path.as_str())).map_err(|e| code(&e))?;
            let about = plain(&file, bytes_max)?;
            let mut into = draft().map_err(|_| "artifact_unreadable")?;
            let (digest, bytes) = pour(&mut file, &mut into, bytes_max)?;
            if same(&about, &plain(&file, bytes_max)?) && size(&about) == bytes {
                return Ok((digest, bytes));
            }
        }
        Err("artifact_changing")
    }
}

fn artifacts(contract: &Contract) -> impl Iterator<Item = (&LineId, &Line, u64)> {
    contract.lines.iter().filter_map(|(line, term)| match term {
        Term::Artifact { path, bytes_min, .. } => Some((line, path, *bytes_min)),
        Term::Gate { .. } | Term::Criterion { .. } | Term::Review => None,
    })
}

fn open(line: &LineId, code: Code, path: &str) -> Missing {
    Missing { line: line.clone(), code, path: path.to_owned() }
}

/// A path as a submission can name it: a name with hidden characters, or with a token in it, is none.
fn named(path: &str) -> Result<Line, Code> {
    let path = Line::new("path", path).map_err(|_| "artifact_name")?;
    let artifact = Artifact { path, digest: zeros(), bytes: 0 };
    let alone = Submission { artifacts: vec![artifact.clone()], ..Submission::default() };
    alone.check().map_err(|_| "artifact_name")?;
    Ok(artifact.path)
}

fn zeros() -> Digest {
    Digest::new(&"0".repeat(64)).expect("zeros are digits")
}

/// What a descriptor is of, if it is of a plain file that has one name and is not too large. A second name
/// may be anywhere, and whoever has it can write.
fn plain(file: &File, bytes_max: u64) -> Result<Stat, Code> {
    let about = fstat(file).map_err(|error| code(&error.into()))?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err("artifact_not_a_file");
    }
    match about.st_nlink {
        1 => {}
        0 => return Err("artifact_missing"),
        _ => return Err("artifact_linked"),
    }
    if size(&about) > bytes_max {
        return Err("artifact_too_large");
    }
    Ok(about)
}

fn size(about: &Stat) -> u64 {
    u64::try_from(about.st_size).unwrap_or(u64::MAX)
}

fn same(one: &Stat, two: &Stat) -> bool {
    let moment =
        |of: &Stat| (of.st_size, of.st_mtime, of.st_mtime_nsec, of.st_ctime, of.st_ctime_nsec);
    moment(one) == moment(two)
}

/// Copies all bytes, and hashes them on the way. A file that grows is not followed for ever.
fn pour(from: &mut File, into: &mut impl Write, bytes_max: u64) -> Result<(Digest, u64), Code> {
    let (mut hash, mut total, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(code(&error)),
        };
        total += u64::try_from(count).unwrap_or(u64::MAX);
        if total > bytes_max {
            return Err("artifact_too_large");
        }
        hash.update(&chunk[..count]);
        into.write_all(&chunk[..count]).map_err(|_| "artifact_unreadable")?;
    }
    into.flush().map_err(|_| "artifact_unreadable")?;
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((Digest::new(&digits).expect("a hash is 64 hex digits"), total))
}

/// What a failed look means for the line.
fn code(error: &io::Error) -> Code {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR) => "artifact_missing",
        Some(Errno::LOOP) => "artifact_link",
        Some(Errno::XDEV) => "artifact_outside",
        // A socket, or a device that nobody serves.
        Some(Errno::NXIO | Errno::NODEV) => "artifact_not_a_file",
        Some(Errno::AGAIN) => "artifact_changing",
        _ if error.kind() == io::ErrorKind::InvalidInput => "artifact_outside",
        _ => "artifact_unreadable",
    }
}

#[cfg(test)]
mod tests;
