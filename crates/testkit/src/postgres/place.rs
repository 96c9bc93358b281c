//! Where things are kept: what may be used again under the build folder, what vanishes under the
//! folder for temporary files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Disk;

/// What Cargo marks its build folder with.
const MARK: &str = "CACHEDIR.TAG";

/// A disk in memory, where a machine has one.
const MEMORY: &str = "/dev/shm";

/// A disk in memory is taken only if it is this large: containers often get a tiny one.
const MEMORY_MIN: u64 = 2 << 30;

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

/// A new folder that is to vanish, with a name short enough for a socket in it.
pub(super) fn fresh(disk: Disk) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let parent = match disk {
        Disk::Careful | Disk::Careless if is_roomy(Path::new(MEMORY)) => PathBuf::from(MEMORY),
        Disk::Careful | Disk::Careless | Disk::Real => std::env::temp_dir(),
    };
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("baton-postgres-{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => return path,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

fn is_roomy(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= MEMORY_MIN)
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
