//! The files that a pattern stands for, found by us from a descriptor: no link is followed, and the search ends.

use std::path::Path;

use baton_domain::limits::ARTIFACTS_MAX;
use baton_domain::pattern;
use rustix::fs::FileType;

use crate::worktree::beneath::Root;

use super::{Code, code};

/// Names that one search looks at: a large repository, not a disk.
const NAMES_MAX: usize = 100_000;
/// How deep it goes.
const DEPTH_MAX: usize = 64;
/// What git keeps is nobody's artifact.
const GIT: &str = ".git";

/// A search for one pattern.
pub(super) struct Search<'a> {
    parts: Vec<&'a str>,
    looked: usize,
    found: Vec<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(pattern: &'a str) -> Self {
        Self { parts: pattern.split('/').collect(), looked: 0, found: vec![] }
    }

    /// All files, in the order of their names.
    pub(super) fn within(mut self, root: &Root) -> Result<Vec<String>, Code> {
        let parts = std::mem::take(&mut self.parts);
        self.go(root, "", &parts, 0)?;
        self.found.sort();
        self.found.dedup();
        if self.found.is_empty() {
            return Err("artifact_missing");
        }
        Ok(self.found)
    }

    fn go(&mut self, at: &Root, way: &str, parts: &[&str], depth: usize) -> Result<(), Code> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        if depth > DEPTH_MAX {
            return Err("artifact_too_many");
        }
        let deep = *part == "**";
        if deep && !rest.is_empty() {
            self.go(at, way, rest, depth)?;
        }
        let left = NAMES_MAX.saturating_sub(self.looked);
        let names = at.names(left).map_err(|error| match error.raw_os_error() {
            Some(_) => code(&error),
            None => "artifact_too_many",
        })?;
        self.looked += names.len();
        for name in &names {
            let Some(name) = name.to_str().filter(|name| *name != GIT) else { continue };
            if !deep && !pattern::matches(part, name) {
                continue;
            }
            let Ok(about) = at.look(Path::new(name)) else { continue };
            let own = if way.is_empty() { name.to_owned() } else { format!("{way}/{name}") };
            if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
                // It may have become something else meanwhile: then there is nothing in it for us.
                let Ok(inner) = at.folder(Path::new(name)) else { continue };
                self.go(&inner, &own, if deep { parts } else { rest }, depth + 1)?;
            } else if rest.is_empty() {
                if self.found.len() >= ARTIFACTS_MAX {
                    return Err("artifact_too_many");
                }
                self.found.push(own);
            }
        }
        Ok(())
    }
}
