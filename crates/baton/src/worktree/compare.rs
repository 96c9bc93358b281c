//! What one commit changed over another, read from bundles alone: in a repository that is made for the look and goes
//! with it, so that nothing that an agent wrote is ever a setting of ours.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::bundle::take_in;
use super::{Depot, Error, Git, Oid, Repository};

/// Attributes of the repository that is looked into: bytes stay the bytes that they are, and what is text is found by
/// looking at it.
const ATTRIBUTES: &str = "* -text -eol -ident -filter -working-tree-encoding !diff -merge\n";
/// Bytes that the list of changed files may have: a hundred thousand long names.
const LIST_BYTES_MAX: usize = 16 << 20;

/// How much of a comparison is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Files that are listed; the others are counted.
    pub files_max: usize,
    /// Changed lines of the files whose patches are shown.
    pub lines_max: u64,
    /// Bytes of all patches together.
    pub bytes_max: usize,
}

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub base: &'a Oid,
    pub head: &'a Oid,
    /// Bundles that build on each other, in order: first those of the base.
    pub bundles: &'a [&'a Path],
    /// Where the base may be found if no bundle holds it.
    pub repository: Option<&'a Path>,
    /// Only this file.
    pub path: Option<&'a str>,
    /// Whether patches are wanted.
    pub patch: bool,
}

/// A file that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    /// What it was called before, if it was called otherwise.
    pub from: Option<String>,
    /// Lines; none of a file that is no text.
    pub lines: Option<(u64, u64)>,
}

/// What has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// In the order of their names.
    pub files: Vec<Changed>,
    /// Files beyond those.
    pub dropped: u64,
    /// Lines of all files.
    pub added: u64,
    pub removed: u64,
    /// The patches of as many files as there is room for.
    pub patch: String,
    /// Files whose patches are not shown.
    pub unshown: u64,
}

/// Compares two commits in a scratch folder.
///
/// # Errors
/// If they cannot be made from what is there.
pub fn compare(git: &Git, scratch: &Path, look: &Look<'_>, room: Room) -> Result<Compared, Error> {
    let folder = scratch.join("compare.git");
    let depot = Depot::open(git, &folder, look.base)?;
    let attributes = folder.join("info/attributes");
    fs::write(&attributes, ATTRIBUTES).map_err(Error::file(&attributes))?;
    if let Some(root) = look.repository
        && let Ok(repository) = Repository::at(git, root)
    {
        borrow(&folder, &repository.objects())?;
    }
    for bundle in look.bundles {
        take_in(&depot, bundle)?;
    }
    if let Some(missing) = depot.missing(&[look.base.clone(), look.head.clone()])?.first() {
        return Err(Error::MissingBase(missing.to_string()));
    }
    let all = listed(&depot, look)?;
    let mut compared = Compared::default();
    for (added, removed) in all.iter().filter_map(|file| file.lines) {
        compared.added += added;
        compared.removed += removed;
    }
    let shown = if look.patch { fitting(&all, room) } else { 0 };
    compared.patch = match shown {
        0 => String::new(),
        _ => match patches(&depot, look, &all[..shown], room.bytes_max) {
            // Its lines are longer than any that people write.
            Err(Error::TooMuch { .. }) => String::new(),
            other => other?,
        },
    };
    let told = if compared.patch.is_empty() { 0 } else { shown };
    compared.unshown = if look.patch { count(all.len() - told) } else { 0 };
    compared.dropped = count(all.len().saturating_sub(room.files_max));
    compared.files = all;
    compared.files.truncate(room.files_max);
    Ok(compared)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Lets a repository of ours find the objects of another one.
fn borrow(folder: &Path, objects: &Path) -> Result<(), Error> {
    let list = folder.join("objects/info/alternates");
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(folder.join("objects/info"))?;
        let mut file = fs::File::create(&list)?;
        file.write_all(objects.as_os_str().as_bytes())?;
        file.write_all(b"\n")
    };
    written().map_err(Error::file(&list))
}

/// How many files, the first ones, have patches that fit.
fn fitting(all: &[Changed], room: Room) -> usize {
    let mut lines = 0;
    let fits = |file: &&Changed| {
        let (added, removed) = file.lines.unwrap_or((0, 0));
        lines += added + removed;
        lines <= room.lines_max
    };
    all.iter().take(room.files_max).take_while(fits).count()
}

fn listed(depot: &Depot, look: &Look<'_>) -> Result<Vec<Changed>, Error> {
    let call = depot.call("diff-tree").args(["-r", "-z", "-M", "--numstat"]).long();
    let call = call.args([look.base.as_str(), look.head.as_str(), "--"]).args(look.path);
    Ok(read(&call.at_most(LIST_BYTES_MAX).run()?))
}

/// Reads the list: `added TAB removed TAB path NUL`, and for what was renamed `added TAB removed TAB NUL from NUL to NUL`.
fn read(said: &[u8]) -> Vec<Changed> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut parts = said.split(|byte| *byte == 0);
    let mut all = vec![];
    while let Some(part) = parts.next().filter(|part| !part.is_empty()) {
        let mut words = part.splitn(3, |byte| *byte == b'\t');
        let mut number =
            || words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
        let lines = number().zip(number());
        let path = words.next().unwrap_or_default();
        let (path, from) = match path.is_empty() {
            false => (text(path), None),
            true => {
                let from = parts.next().map(text);
                (parts.next().map(text).unwrap_or_default(), from)
            }
        };
        all.push(Changed { path, from, lines });
    }
    all
}

fn patches(
    depot: &Depot,
    look: &Look<'_>,
    files: &[Changed],
    bytes_max: usize,
) -> Result<String, Error> {
    let call = depot.call("diff-tree").args(["-r", "-p", "-M", "--no-color", "--no-ext-diff"]);
    let call =
        call.args(["--no-textconv", "--full-index", "--src-prefix=a/", "--dst-prefix=b/"]).long();
    let named = files.iter().flat_map(|file| file.from.iter().chain([&file.path]));
    let call = call.args([look.base.as_str(), look.head.as_str(), "--"]).args(named);
    Ok(String::from_utf8_lossy(&call.at_most(bytes_max).run()?).into_owned())
}
