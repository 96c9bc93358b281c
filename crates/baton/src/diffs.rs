//! What attempts changed, worked out from the bundles that their workers brought. One look at a time, in a folder that
//! goes with it; what was found is remembered for a while, because commits never change.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_domain::ids::TenantId;
use baton_store::blobs::{self, Blobs};
use tokio::sync::Mutex as Turn;
use tokio::task::spawn_blocking;

use crate::protocol::Work;
use crate::views::{DIFF_FILES_MAX, PATCH_BYTES_MAX};
use crate::worktree::{self, Compared, Git, Look, Oid, Room, compare};

/// Comparisons that are remembered: those that a few people have open, of a MiB at most each.
const KEPT_MAX: usize = 16;
/// Changed lines whose patches are shown: more than anybody reads.
const LINES_MAX: u64 = 20_000;
/// Bytes of all bundles of one look: a base as large as workers send, and work of several times that.
const BUNDLES_BYTES_MAX: u64 = 1 << 30;

/// Works out what attempts changed.
#[derive(Debug)]
pub struct Diffs {
    programs: Vec<PathBuf>,
    folder: PathBuf,
    turn: Turn<()>,
    kept: Mutex<VecDeque<(Asked, Arc<Compared>)>>,
}

/// What is to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whose.
    pub tenant: TenantId,
    /// The commits.
    pub base: String,
    /// The same.
    pub snapshot: String,
    /// Only this file.
    pub path: Option<String>,
    /// Whether patches are wanted.
    pub patch: bool,
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A bundle is not to be had.
    #[error("a part of the work cannot be read: {0}")]
    Blob(#[from] blobs::Error),
    /// There is no room to look.
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    /// Git refused.
    #[error("{0}")]
    Git(#[from] worktree::Error),
    /// More than is looked at.
    #[error("the work is larger than {} MiB", BUNDLES_BYTES_MAX >> 20)]
    TooLarge,
    /// It broke.
    #[error("a thread ended")]
    Broke,
}

impl Diffs {
    /// With git from these folders, and a folder of its own in the data folder.
    #[must_use]
    pub fn new(programs: Vec<PathBuf>, data: &Path) -> Self {
        let folder = data.join("diffs");
        // What a look left that was cut short is nobody's.
        drop(fs::remove_dir_all(&folder));
        Self { programs, folder, turn: Turn::default(), kept: Mutex::default() }
    }

    /// What the work changed over its base.
    ///
    /// # Errors
    /// If it cannot be told.
    pub async fn of(
        &self,
        asked: Asked,
        work: &Work,
        root: Option<PathBuf>,
        blobs: Arc<dyn Blobs>,
    ) -> Result<Arc<Compared>, Error> {
        if let Some(kept) = self.kept(&asked) {
            return Ok(kept);
        }
        let _turn = self.turn.lock().await;
        // Whoever was before may have asked the same.
        if let Some(kept) = self.kept(&asked) {
            return Ok(kept);
        }
        let (programs, folder) = (self.programs.clone(), self.folder.clone());
        let (wanted, work) = (asked.clone(), work.clone());
        let looked = spawn_blocking(move || {
            let site = Site { programs, folder, blobs };
            site.look(&wanted, &work, root.as_deref())
        });
        let found = Arc::new(looked.await.map_err(|_| Error::Broke)??);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((asked, Arc::clone(&found)));
        if kept.len() > KEPT_MAX {
            kept.pop_front();
        }
        Ok(found)
    }

    fn kept(&self, asked: &Asked) -> Option<Arc<Compared>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(own, _)| own == asked).map(|(_, found)| Arc::clone(found))
    }
}

struct Site {
    programs: Vec<PathBuf>,
    folder: PathBuf,
    blobs: Arc<dyn Blobs>,
}

impl Site {
    fn look(&self, asked: &Asked, work: &Work, root: Option<&Path>) -> Result<Compared, Error> {
        let git = Git::find(&self.programs)?;
        let failed = |error| Error::File { path: self.folder.clone(), error };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        let scratch = tempfile::tempdir_in(&self.folder).map_err(failed)?;
        let mut room = BUNDLES_BYTES_MAX;
        let mut files = vec![];
        for (number, digest) in work.base_bundles.iter().chain(&work.bundles).enumerate() {
            let path = scratch.path().join(format!("{number}.bundle"));
            room = self.fetch(asked.tenant.as_str(), digest.as_str(), &path, room)?;
            files.push(path);
        }
        let oid = |text: &str| -> Result<Oid, Error> {
            text.parse().map_err(|_| worktree::Error::NoCommit(text.to_owned()).into())
        };
        let (base, head) = (oid(&asked.base)?, oid(&asked.snapshot)?);
        let bundles: Vec<_> = files.iter().map(PathBuf::as_path).collect();
        let look = Look {
            base: &base,
            head: &head,
            bundles: &bundles,
            repository: root.filter(|_| work.base_bundles.is_empty()),
            path: asked.path.as_deref(),
            patch: asked.patch,
        };
        let room =
            Room { files_max: DIFF_FILES_MAX, lines_max: LINES_MAX, bytes_max: PATCH_BYTES_MAX };
        Ok(compare(&git, scratch.path(), &look, room)?)
    }

    /// Copies a blob into a file; answers how much room is left.
    fn fetch(&self, tenant: &str, digest: &str, to: &Path, room: u64) -> Result<u64, Error> {
        let mut blob = self.blobs.get_verified(tenant, &digest.parse()?)?;
        let left = room.checked_sub(blob.size).ok_or(Error::TooLarge)?;
        let copied = File::create(to).and_then(|mut file| io::copy(&mut blob.bytes, &mut file));
        copied.map_err(|error| Error::File { path: to.to_owned(), error })?;
        Ok(left)
    }
}
