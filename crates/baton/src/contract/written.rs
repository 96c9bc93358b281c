//! The file as people write it. What nobody knows is refused: a gate that is spelled wrongly must not be no gate.

use std::collections::BTreeMap;

use baton_domain::project::{PassedBy, WorkedBy};
use serde::Deserialize;

use super::Error;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    /// Read by whoever looks for the project's name.
    #[serde(rename = "project")]
    _project: Option<Project>,
    pub(super) contract: Lines,
    pub(super) stages: BTreeMap<String, Stage>,
    pub(super) pipeline: Option<Pipeline>,
    pub(super) worktree: Worktree,
}

/// In which order the stages are passed, and how work lands.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pipeline {
    pub(super) stages: Option<Vec<String>>,
    pub(super) merge: Option<String>,
    pub(super) target: Option<String>,
    pub(super) push: Option<Push>,
    pub(super) home: Option<String>,
    pub(super) promote: Option<bool>,
    pub(super) archive_after: Option<String>,
}

/// Whether the target branch is pushed, and where to.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Push {
    Choice(bool),
    Remote(String),
}

/// How worktrees are made.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Worktree {
    pub(super) setup: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    #[serde(rename = "name")]
    _name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Stage {
    pub(super) contract: Lines,
    pub(super) worked_by: Option<WorkedBy>,
    pub(super) passed_by: Option<PassedBy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Lines {
    pub(super) artifacts: BTreeMap<String, Artifact>,
    pub(super) gates: BTreeMap<String, Gate>,
    pub(super) criteria: BTreeMap<String, Criterion>,
    pub(super) protected: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Artifact {
    pub(super) path: String,
    pub(super) bytes_min: Option<u64>,
    pub(super) schema: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gate {
    pub(super) command: String,
    pub(super) timeout: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Criterion {
    pub(super) text: String,
    pub(super) check: Option<String>,
}

impl Written {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let parsed = toml::Deserializer::parse(text).map_err(|error| Error::Syntax {
            field: String::new(),
            why: error.message().to_owned(),
        })?;
        serde_path_to_error::deserialize(parsed).map_err(|error| Error::Syntax {
            field: error.path().to_string(),
            why: error.inner().message().to_owned(),
        })
    }
}
