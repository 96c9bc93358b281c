//! Files, written whole or not at all.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

use super::Error;

/// Makes the folders that a file needs, and tells which were not there.
pub fn folders(root: &Path, file: &Path) -> Result<Vec<String>, Error> {
    let mut made = vec![];
    let parent = file.parent().unwrap_or(root);
    let missing: Vec<_> = parent.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        fs::create_dir(folder).map_err(|error| Error::File(folder.to_path_buf(), error))?;
        let inside = folder.strip_prefix(root).unwrap_or(folder);
        made.push(inside.to_string_lossy().into_owned());
    }
    Ok(made)
}

/// Writes a file beside its place and moves it there, with the rights that it had.
pub fn file(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error| Error::File(path.to_path_buf(), error);
    let written = || -> io::Result<()> {
        let mut draft = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        draft.write_all(text.as_bytes())?;
        let rights = match fs::metadata(path) {
            Ok(about) => about.permissions(),
            Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
        };
        draft.as_file().set_permissions(rights)?;
        draft.as_file().sync_all()?;
        draft.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    written().map_err(failed)
}

/// Takes a file away.
pub fn gone(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::File(path.to_path_buf(), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
