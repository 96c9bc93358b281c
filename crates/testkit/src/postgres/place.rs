//! Where things are kept: what may be used again under the build folder, what vanishes under the
//! folder for temporary files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What Cargo marks its build folder with.
const MARK: &str = "CACHEDIR.TAG";

/// The build folder that this very program is in, or, if it is in none, the folder for temporary
/// files.
pub(super) fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a running program has a file");
    let mut folders = own.ancestors();
    let marked = folders.find(|folder| folder.join(MARK).exists());
    marked.map_or_else(std::env::temp_dir, Path::to_owned)
}

/// The folder for what many runs share.
pub(super) fn shelf() -> PathBuf {
    let shelf = target().join("postgres");
    fs::create_dir_all(&shelf).expect("the build folder can be written");
    shelf
}

/// A name for a new folder for temporary files, short enough for a socket in it.
pub(super) fn fresh() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("baton-postgres-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        match fs::create_dir(&path) {
            Ok(()) => return path,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

/// Copies a folder with everything in it; `each` is told of every copy.
pub(super) fn copy(from: &Path, to: &Path, each: &impl Fn(&Path)) {
    let told = |error: std::io::Error| panic!("copying {}: {error}", from.display());
    fs::create_dir(to).unwrap_or_else(told);
    let mode = fs::metadata(from).unwrap_or_else(|error| panic!("{error}")).permissions();
    fs::set_permissions(to, mode).unwrap_or_else(told);
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{error}")) {
        let entry = entry.expect("a folder can be read");
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if old.is_dir() {
            copy(&old, &new, each);
        } else {
            fs::copy(&old, &new).map(drop).unwrap_or_else(told);
            each(&new);
        }
    }
    each(to);
}
