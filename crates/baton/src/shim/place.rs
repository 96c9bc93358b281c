//! The folder of an attempt, and how its files are read and replaced.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::{make_folder, replace};

use super::spec::{SPEC_BYTES_MAX, Spec};
use super::told::{Launch, Status};

/// Bytes of what a shim tells of itself.
const TOLD_BYTES_MAX: u64 = 256 << 10;
/// The program that runs, also after its file was replaced by a newer one.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Where an attempt's files are, and which program is its shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
    program: PathBuf,
}

impl Place {
    /// The folder of an attempt.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), program: OWN_PROGRAM.into() }
    }

    /// The same with another program as its shim.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..self }
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// What [`super::spool::Reader::open`] opens.
    #[must_use]
    pub fn spool(&self) -> PathBuf {
        self.folder.join("spool")
    }

    pub(super) fn socket_name() -> &'static str {
        "control.sock"
    }

    /// Whether no shim works in the folder.
    pub(super) fn is_left(&self) -> bool {
        self.locked().is_ok()
    }

    /// Works in the folder for as long as the file is open: one does at a time.
    pub(super) fn locked(&self) -> io::Result<File> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.folder.join("lock"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    /// What the shim was told to run.
    ///
    /// # Errors
    /// If there is none, or none that can be read.
    pub fn spec(&self) -> io::Result<Spec> {
        read(&self.folder.join("spec.json"), SPEC_BYTES_MAX)
    }

    /// What the shim told of itself before the agent began; none if it never came so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn launch(&self) -> io::Result<Option<Launch>> {
        there(read(&self.folder.join("launch.json"), TOLD_BYTES_MAX))
    }

    /// How far it is; none if it never came so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn status(&self) -> io::Result<Option<Status>> {
        there(read(&self.folder.join("status.json"), TOLD_BYTES_MAX))
    }

    /// Makes the folder and puts the spec into it, before anything starts. A folder is used once.
    pub(super) fn write_spec(&self, spec: &Spec) -> io::Result<()> {
        make_folder(&self.folder)?;
        if self.folder.join("spec.json").exists() {
            let why = "this attempt was launched before: adopt it, or take a new attempt";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        self.replace("spec.json", spec)
    }

    pub(super) fn write_launch(&self, launch: &Launch) -> io::Result<()> {
        self.replace("launch.json", launch)
    }

    pub(super) fn write_status(&self, status: &Status) -> io::Result<()> {
        self.replace("status.json", status)
    }

    fn replace(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        replace(&self.folder.join(name), &serde_json::to_vec(value)?)
    }
}

fn read<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> io::Result<T> {
    let mut bytes = vec![];
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    let name = path.file_name().unwrap_or_default().display();
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        let why = format!("{name} has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}")))
}

fn there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
