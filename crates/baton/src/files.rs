//! Files and folders that are ours alone: there whole or not at all, and for nobody else to read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What is added to the name of a file while it is being written.
const DRAFT: &str = "baton-new";

/// Makes a folder that nobody else may enter, and those on the way to it.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Puts a file there whole or not at all, and has it on the disk. A link that somebody left in its place is replaced,
/// not followed.
///
/// # Errors
/// If it cannot be written; then what was there is as it was.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let draft = path.with_extension(DRAFT);
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
