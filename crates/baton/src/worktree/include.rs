//! Files that git ignores and work needs, such as `.env`: copied from the checkout of the project when a
//! worktree is made, as `.worktreeinclude` says. It is read from the base commit, where people have seen it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::beneath::Root;
use super::{Depot, Error, Oid, Repository};

/// The file that lists them, in the language of `.gitignore`.
const LIST: &str = ".worktreeinclude";
/// Bytes of the list.
const LIST_BYTES_MAX: usize = 64 << 10;
/// How many files are copied: settings and keys, not what can be built again.
const FILES_MAX: usize = 1_000;
/// Bytes of one of them.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of all of them.
const ALL_BYTES_MAX: u64 = 256 << 20;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Included {
    pub copied: Vec<String>,
    /// What was not, and why.
    pub refused: Vec<(String, String)>,
}

/// Copies what the list names into a worktree that is being made.
pub(super) fn include(
    repository: &Repository,
    depot: &Depot,
    base: &Oid,
    folder: &Path,
    tree: &Root,
) -> Result<Included, Error> {
    let list = depot.call("cat-file").arg("blob").arg(format!("{base}:{LIST}"));
    let list = list.at_most(LIST_BYTES_MAX).ends()?;
    if list.code != Some(0) || list.out.is_empty() {
        return Ok(Included::default());
    }
    let named = named(repository, depot, base, folder, &list.out)?;
    let from = Root::open(repository.root()).map_err(Error::file(repository.root()))?;
    let mut included = Included::default();
    let mut left = ALL_BYTES_MAX;
    for name in named {
        let shown = String::from_utf8_lossy(&name).into_owned();
        if included.copied.len() == FILES_MAX {
            let why = format!("{FILES_MAX} files are copied already");
            included.refused.push((shown, why));
            break;
        }
        match copy(&from, tree, Path::new(OsStr::from_bytes(&name)), left) {
            Ok(bytes) => {
                left -= bytes;
                included.copied.push(shown);
            }
            Err(error) => included.refused.push((shown, error.to_string())),
        }
    }
    Ok(included)
}

/// Files in the checkout that the list names and that git ignores. What git does not ignore is in
/// commits or is somebody's unfinished work, and stays where it is.
fn named(
    repository: &Repository,
    depot: &Depot,
    base: &Oid,
    folder: &Path,
    list: &[u8],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let (patterns, index) = (folder.join("include.list"), folder.join("include.index"));
    fs::write(&patterns, list).map_err(Error::file(&patterns))?;
    depot.call("read-tree").index(&index).arg(base.as_str()).run()?;
    let files = |excludes: &[OsString]| -> Result<BTreeSet<Vec<u8>>, Error> {
        let call = depot.call("ls-files").tree(repository.root()).index(&index);
        let said = call.args(["-z", "--others"]).args(excludes).run()?;
        let names = said.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        // A folder with a repository of its own ends with a slash.
        Ok(names.filter(|name| !name.ends_with(b"/")).map(<[u8]>::to_vec).collect())
    };
    let listed = files(&["--ignored".into(), exclude_from(&patterns)])?;
    let exclude = repository.exclude();
    let mut standard = vec!["--exclude-standard".into()];
    standard.extend(exclude.is_file().then(|| exclude_from(&exclude)));
    let unignored = files(&standard)?;
    for path in [&patterns, &index] {
        fs::remove_file(path).map_err(Error::file(path))?;
    }
    Ok(listed.difference(&unignored).cloned().collect())
}

/// The option that has patterns read from a file.
pub(super) fn exclude_from(path: &Path) -> OsString {
    let mut option = OsString::from("--exclude-from=");
    option.push(path);
    option
}

fn copy(from: &Root, to: &Root, path: &Path, left: u64) -> io::Result<u64> {
    let file = from.file(path)?;
    let mode = file.metadata()?.permissions().mode();
    let bytes_max = FILE_BYTES_MAX.min(left);
    let mut bytes = vec![];
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if count > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large to be copied"));
    }
    let mut copy = to.make(path, mode & 0o700)?;
    copy.write_all(&bytes)?;
    copy.set_permissions(fs::Permissions::from_mode(mode & 0o700))?;
    Ok(count)
}
