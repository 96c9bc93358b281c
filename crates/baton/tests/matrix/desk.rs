//! A desktop on which people are told: a command that takes down what it is to show.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::serving::folder;

/// The folder of the command.
pub struct Desk(TempDir);

impl Desk {
    pub fn new() -> Self {
        let desk = Self(folder());
        let (program, said) = (desk.0.path().join("notify-send"), desk.0.path().join("said"));
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {}\n", said.display());
        fs::write(&program, script).expect("there is room");
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
        desk
    }

    /// Where programs are looked for.
    pub fn programs(&self) -> Vec<PathBuf> {
        vec![self.0.path().to_owned()]
    }

    /// The same before everything else that is found.
    #[expect(clippy::disallowed_methods, reason = "where the programs of this machine are")]
    pub fn path(&self) -> OsString {
        let found = std::env::var_os("PATH").unwrap_or_default();
        let all = self.programs().into_iter().chain(std::env::split_paths(&found));
        std::env::join_paths(all).expect("they were joined before")
    }

    /// What was shown.
    pub fn said(&self) -> String {
        fs::read_to_string(self.0.path().join("said")).unwrap_or_default()
    }
}
