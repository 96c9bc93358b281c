//! Facts about blobs in a directory.

use std::fs;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::{
    Blob, Blobs, Collect, Collected, Digest, DirectoryBlobs, Error, FreeSpace, Opened, Put, Quota,
    Settings, Stored, Urgency,
};

mod collecting;
mod limits;
mod model;
mod opening;
mod putting;
mod racing;
mod reading;
mod sharing;

const AMPLE: Quota = Quota { blobs_max: 1_000_000, bytes_max: 1 << 40 };

/// Limits that no test meets by accident.
const SETTINGS: Settings = Settings {
    tenant_quota: AMPLE,
    total_quota: AMPLE,
    free_bytes_low: 1_000,
    free_bytes_min: 100,
    entries_max: 1_000_000,
};

/// A directory of blobs that vanishes with the test, on a disk as full as the test likes.
struct Bench {
    folder: TempDir,
    settings: Settings,
    free_bytes: Arc<AtomicU64>,
    blobs: Option<DirectoryBlobs>,
    opened: Opened,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let free_bytes = Arc::new(AtomicU64::new(u64::MAX));
        let (blobs, opened) = open(&folder.path().join("blobs"), settings, &free_bytes);
        Self { folder, settings, free_bytes, blobs: Some(blobs), opened }
    }

    fn ample() -> Self {
        Self::new(SETTINGS)
    }

    fn blobs(&self) -> &DirectoryBlobs {
        self.blobs.as_ref().expect("the directory is open")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("blobs")
    }

    /// Where a blob of the tenant `local` lies.
    fn path(&self, digest: &Digest) -> PathBuf {
        self.path_of("local", digest)
    }

    fn path_of(&self, tenant: &str, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root().join("tenants").join(tenant).join(&name[..2]).join(&name[2..4]).join(name)
    }

    fn put(&self, content: &[u8], now: u64) -> Result<Stored, Error> {
        put(self.blobs(), "local", content, now)
    }

    fn collect(&self, live: &[Digest], older_than: u64, now: u64) -> Collected {
        let is_live = |digest: &Digest| live.contains(digest);
        self.blobs().collect("local", &is_live, &collect(older_than, now)).expect("collected")
    }

    /// Damages the last byte of a blob.
    fn flip_a_byte(&self, tenant: &str, digest: &Digest) {
        let path = self.path_of(tenant, digest);
        let mut content = fs::read(&path).expect("the blob is there");
        *content.last_mut().expect("the blob is not empty") ^= 1;
        let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        fs::write(&path, content).expect("ours");
        let file = fs::File::options().write(true).open(&path).expect("ours");
        file.set_modified(modified.expect("dated")).expect("ours");
        file.set_permissions(fs::Permissions::from_mode(0o400)).expect("ours");
    }

    fn reopen(&mut self) {
        self.blobs = None;
        let (blobs, opened) = open(&self.root(), self.settings, &self.free_bytes);
        self.blobs = Some(blobs);
        self.opened = opened;
    }
}

fn free_space(free_bytes: &Arc<AtomicU64>) -> FreeSpace {
    let free_bytes = Arc::clone(free_bytes);
    Box::new(move || Ok(free_bytes.load(Ordering::SeqCst)))
}

fn open(path: &Path, settings: Settings, free_bytes: &Arc<AtomicU64>) -> (DirectoryBlobs, Opened) {
    DirectoryBlobs::open(path, settings, free_space(free_bytes)).expect("the directory opens")
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn order(now: u64) -> Put {
    Put { expected: None, size_max: 1 << 30, urgency: Urgency::Ordinary, now: at(now) }
}

fn put(blobs: &DirectoryBlobs, tenant: &str, content: &[u8], now: u64) -> Result<Stored, Error> {
    blobs.put(tenant, &mut &content[..], &order(now))
}

fn collect(older_than: u64, now: u64) -> Collect {
    let budget = NonZeroU32::MAX;
    Collect { older_than: Duration::from_secs(older_than), now: at(now), budget }
}

fn read(blob: Blob) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut bytes = blob.bytes;
    bytes.read_to_end(&mut content)?;
    Ok(content)
}

fn code<T>(result: Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.code(),
    }
}

/// Content that needs several chunks, different for each seed.
fn long_content(seed: u8) -> Vec<u8> {
    (0..700_000_u32).map(|index| index.to_le_bytes()[usize::from(index % 7 == 0)] ^ seed).collect()
}

/// A reader that lets a test act whenever it is asked for bytes.
struct Watched<'a> {
    content: &'a [u8],
    on_read: &'a mut dyn FnMut(),
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.on_read)();
        self.content.read(buffer)
    }
}

/// How many files are in a folder and below it.
fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| if path.is_dir() { files_below(&path) } else { 1 })
        .sum()
}

/// Copies a folder as it is at this moment: what a crash would leave behind.
fn copy_tree(from: &Path, to: &Path) {
    fs::DirBuilder::new().mode(0o700).create(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
