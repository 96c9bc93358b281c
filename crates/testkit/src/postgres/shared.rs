//! One cluster for all tests of a run, each of which may be a process of its own: whoever comes
//! first starts it, everybody holds a lock while using it, and its guardian takes it away when
//! nobody has held the lock for some seconds.

use std::fs::{self, File, OpenOptions};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::guardian::Sharing;
use super::place::{fresh, shelf};
use super::programs::Programs;
use super::{Disk, options, socket, template};

/// More tries than any race needs: the cluster is taken away only after seconds of disuse.
const TRIES_MAX: u32 = 5;

/// A place in the shared cluster, for as long as this process lives.
struct Place {
    home: PathBuf,
    _lock: File,
}

/// The folder of the shared cluster, which stays for as long as this process lives.
pub(super) fn home() -> &'static Path {
    static PLACE: OnceLock<Place> = OnceLock::new();
    &PLACE.get_or_init(join).home
}

fn join() -> Place {
    let path = shelf().join("shared.lock");
    let mut open = OpenOptions::new();
    let lock = open.read(true).write(true).create(true).truncate(false).open(&path);
    let lock = lock.expect("the build folder is ours");
    let note = shelf().join("shared");
    for _ in 0..TRIES_MAX {
        lock.lock_shared().expect("a file can be locked");
        if let Some(home) = running(&note) {
            return Place { home, _lock: lock };
        }
        lock.unlock().expect("what was locked can be unlocked");
        lock.lock().expect("a file can be locked");
        if running(&note).is_none() {
            start(&note, &path);
        }
        lock.unlock().expect("what was locked can be unlocked");
    }
    panic!("the shared cluster of the tests vanishes as soon as it is started");
}

/// The cluster that the note is about, if it answers.
fn running(note: &Path) -> Option<PathBuf> {
    let home = PathBuf::from(fs::read_to_string(note).ok()?);
    UnixStream::connect(socket(&home)).ok().map(|_| home)
}

fn start(note: &Path, lock: &Path) {
    let programs = Programs::find();
    let home = fresh(Disk::Careless);
    programs.hand_over(&home);
    let options = options(&home, Disk::Careless);
    // A file of its own: a lock belongs to the opening, not to the file.
    let lock = File::open(lock).expect("it was opened before");
    let guardian = Sharing::watch(&programs, &home, &options, lock);
    template::pour(&programs, &home.join("data"));
    File::create(home.join("copied")).expect("the folder is ours or we are root");
    let started = guardian.started();
    assert!(started, "Postgres did not start; it says why in {}/log", home.display());
    fs::write(note, home.as_os_str().as_encoded_bytes()).expect("the build folder is ours");
}
