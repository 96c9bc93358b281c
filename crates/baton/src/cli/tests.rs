//! The command line from what is typed to what is printed and what it exits with.

mod copies;
mod everyday;
mod rendering;
mod typing;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::tests::{Puppet, Says};
use crate::surroundings::{Hidden, Surroundings};

use super::{Streams, run_in};

/// What a command printed and exited with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) exit: u8,
}

/// A machine with a server that says what it is told to.
pub(super) struct Machine {
    folder: tempfile::TempDir,
    pub(super) around: Surroundings,
    puppet: Option<Arc<Puppet>>,
}

impl Machine {
    /// Nobody serves here.
    pub(super) fn silent() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let around = Surroundings {
            home: Some(folder.path().join("data")),
            socket: Some(folder.path().join("s")),
            ..Surroundings::default()
        };
        Self { folder, around, puppet: None }
    }

    /// Somebody does.
    pub(super) fn serving(says: Vec<Says>) -> Self {
        let mut machine = Self::silent();
        machine.puppet = Some(Puppet::at(&machine.folder.path().join("s"), says));
        machine
    }

    pub(super) fn with_token(mut self) -> Self {
        self.around.claim_token = Some(Hidden::new("batonc_1"));
        self
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn puppet(&self) -> &Puppet {
        self.puppet.as_deref().expect("somebody serves")
    }

    pub(super) async fn types(&self, words: &[&str]) -> Printed {
        let mut out = vec![];
        let printed = self.types_into(words, &mut out).await;
        let out = String::from_utf8(out).expect("a text");
        Printed { out: out.replace(&self.folder.path().display().to_string(), "…"), ..printed }
    }

    /// The same, where what is printed goes elsewhere.
    pub(super) async fn types_into(
        &self,
        words: &[&str],
        out: &mut (dyn std::io::Write + Send),
    ) -> Printed {
        let typed = std::iter::once("baton").chain(words.iter().copied()).map(OsString::from);
        let mut err = vec![];
        let streams = Streams { out, err: &mut err };
        let exit = run_in(typed, &self.around, streams).await;
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("a text");
            let machine = self.folder.path().display().to_string();
            text.replace(&machine, "…")
        };
        Printed { out: String::new(), err: text(err), exit }
    }
}

/// A path as it is typed.
pub(super) fn typed(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}
