//! What must be true before a run counts as complete, and the proof of it, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{Commit, Digest, LineId};
use crate::limits::{ARTIFACTS_MAX, GATE_MAX, LINES_MAX, STARS_MAX};
use crate::pattern;
use crate::refusal::{Missing, Refusal};
use crate::text::{Line, Reason, Signed};
use crate::time::{Millis, Timestamp};

/// Lines that must hold; an empty contract proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    #[serde(default, deserialize_with = "unique")]
    pub lines: BTreeMap<LineId, Term>,
}

/// One line of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Term {
    /// A file must be there, made or changed by this attempt; or at least one, if the path is a pattern.
    Artifact {
        path: Line,
        #[serde(default)]
        bytes_min: u64,
        /// The JSON schema that it must fit: a blob.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Digest>,
    },
    /// A command must succeed.
    Gate { command: Line, timeout: Millis },
    /// Something must be true, by a command or by a reviewer's word.
    Criterion {
        text: Line,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<Line>,
    },
    /// Somebody else must agree.
    Review,
}

/// What the flow remembers of the contract: that there is one, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractMark {
    pub hash: Digest,
    pub lines: u16,
    /// How many of them the project asks for, and not the task itself.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub bound: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none_of_them(count: &u16) -> bool {
    *count == 0
}

/// What a project asks of a run: read from the commit that its work begins from, whatever is done to the
/// file since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    #[serde(default)]
    pub contract: Contract,
    /// Paths whose change somebody must look at, as patterns.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub protected: BTreeSet<Line>,
    /// The commit; none of a plain folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Commit>,
    /// The hash of everything that is asked for then, the task's own lines included.
    pub hash: Digest,
}

/// What a completion pins; it never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Line>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Digest>,
}

/// One artifact of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Where it was, relative to the root.
    pub path: Line,
    pub digest: Digest,
    pub bytes: u64,
}

/// What the flow remembers of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionMark {
    /// The version of the task whose entry holds it.
    pub raised: u64,
    pub attempt: u32,
    /// Whether there is a tree that a worker can check.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
    /// Whether its commands passed, so that it waits for a reviewer's word alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub review: bool,
}

/// The proof of one line for one submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub line: LineId,
    pub finding: Finding,
    pub at: Timestamp,
    /// The same and what it is about, signed: whoever has the public key can check it without us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
}

/// Whether a line holds, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "found", deny_unknown_fields)]
pub enum Finding {
    /// It holds.
    Holds {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Digest>,
    },
    /// It does not.
    Fails {
        reason: Reason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Digest>,
    },
    /// A person vouches for it.
    Waived { reason: Reason },
}

impl Contract {
    /// Whether it is within bounds.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.lines.len() > LINES_MAX {
            return Err(Refusal::too_many("contract.lines", LINES_MAX));
        }
        let mut paths = BTreeSet::new();
        let span = Millis::seconds(1)..=GATE_MAX;
        for (name, term) in &self.lines {
            match term {
                Term::Artifact { path, .. } => {
                    check_path(name, path)?;
                    check_pattern(name, path)?;
                    check_once(name, path, &mut paths)?;
                }
                Term::Gate { timeout, .. } if !span.contains(timeout) => {
                    let rule = "must have a timeout of 1 s to 24 h".into();
                    return Err(Refusal::Invalid { field: name.to_string(), rule });
                }
                Term::Gate { .. } | Term::Criterion { .. } | Term::Review => {}
            }
        }
        Ok(())
    }

    /// Every line that the submission leaves open and that can be told without running anything.
    #[must_use]
    pub fn missing(&self, submission: &Submission) -> Vec<Missing> {
        let mut open = vec![];
        let add = |line: &LineId, code, path: &Line| Missing {
            line: line.clone(),
            code,
            path: path.to_string(),
        };
        for (line, term) in &self.lines {
            let Term::Artifact { path, bytes_min, .. } = term else { continue };
            let mut found = submission.answering(path).peekable();
            if found.peek().is_none() {
                open.push(add(line, "artifact_missing", path));
            }
            for artifact in found {
                match artifact.bytes {
                    0 => open.push(add(line, "artifact_empty", &artifact.path)),
                    bytes if bytes < *bytes_min => {
                        open.push(add(line, "artifact_too_small", &artifact.path));
                    }
                    _ => {}
                }
            }
        }
        open
    }

    /// Whether the receipts prove every line, and which do not hold.
    #[must_use]
    pub fn failing<'a>(&'a self, receipts: &'a [Receipt]) -> Vec<&'a LineId> {
        let holds = |line: &LineId| {
            let mut of_line = receipts.iter().filter(|receipt| receipt.line == *line).peekable();
            of_line.peek().is_some()
                && of_line.all(|receipt| match receipt.finding {
                    Finding::Holds { .. } | Finding::Waived { .. } => true,
                    Finding::Fails { .. } => false,
                })
        };
        self.lines.keys().filter(|line| !holds(line)).collect()
    }

    /// The lines that nothing but the word of a reviewer answers.
    pub fn reviewed(&self) -> impl Iterator<Item = &LineId> {
        let is_a_word = |term: &Term| match term {
            Term::Review | Term::Criterion { check: None, .. } => true,
            Term::Criterion { check: Some(_), .. } | Term::Artifact { .. } | Term::Gate { .. } => {
                false
            }
        };
        self.lines.iter().filter(move |(_, term)| is_a_word(term)).map(|(line, _)| line)
    }
}

impl Submission {
    /// The artifacts that a path of a contract asks for.
    pub fn answering<'a>(&'a self, path: &'a Line) -> impl Iterator<Item = &'a Artifact> {
        self.artifacts.iter().filter(|one| pattern::matches(path.as_str(), one.path.as_str()))
    }

    /// Whether it is within bounds and its paths stay inside the root.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.artifacts.len() > ARTIFACTS_MAX {
            return Err(Refusal::too_many("submission.artifacts", ARTIFACTS_MAX));
        }
        let mut paths = BTreeSet::new();
        self.artifacts.iter().try_for_each(|artifact| {
            check_path("artifacts.path", &artifact.path)?;
            check_once("artifacts.path", &artifact.path, &mut paths)
        })
    }
}

/// Reads lines by name. Of two with one name the latter would silently be all that is asked for.
fn unique<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<LineId, Term>, D::Error> {
    struct Lines;
    impl<'de> Visitor<'de> for Lines {
        type Value = BTreeMap<LineId, Term>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("lines by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut lines = BTreeMap::new();
            while let Some((name, term)) = map.next_entry::<LineId, Term>()? {
                if lines.contains_key(&name) {
                    return Err(A::Error::custom(format!("line `{name}` is there twice")));
                }
                lines.insert(name, term);
            }
            Ok(lines)
        }
    }
    from.deserialize_map(Lines)
}

/// Whether a path has not been named before, nor one that some disks take for it: not all of them
/// tell large letters from small ones.
fn check_once(
    field: impl ToString,
    path: &Line,
    seen: &mut BTreeSet<String>,
) -> Result<(), Refusal> {
    if seen.insert(path.as_str().to_lowercase()) {
        return Ok(());
    }
    let rule = format!("names `{path}`, which is named already, perhaps in other letters");
    Err(Refusal::Invalid { field: field.to_string(), rule })
}

/// A pattern that stands for what it says, and costs little to look for.
pub fn check_pattern(field: impl ToString, path: &Line) -> Result<(), Refusal> {
    if pattern::is_sound(path.as_str()) {
        return Ok(());
    }
    let rule = format!("must have at most {STARS_MAX} stars, and `**` only as a whole part");
    Err(Refusal::Invalid { field: field.to_string(), rule })
}

/// A path that cannot leave its root however it is joined to it, and that means one file on every
/// disk.
pub fn check_path(field: impl ToString, path: &Line) -> Result<(), Refusal> {
    let text = path.as_str();
    let is_name = |part: &str| {
        // Some disks drop dots and blanks at the end, so that two names are one file.
        !matches!(part, "" | "." | "..") && !part.ends_with(['.', ' ']) && part.len() <= 255
    };
    let inside = !text.contains('\\')
        && text.chars().all(|c| !c.is_control() && !is_loose(c))
        && text.split('/').all(is_name);
    if inside {
        return Ok(());
    }
    let rule = "must be a relative path without empty, `.` or `..` parts, without backslashes, \
                without a dot or a blank at the end of a part, and with letters and their marks \
                as one character";
    Err(Refusal::Invalid { field: field.to_string(), rule: rule.into() })
}

/// Whether a character is part of a letter that can also be written as one: marks of Latin, Greek
/// and Cyrillic, parts of Korean syllables, voicing in Japanese. Some disks take both for one name.
fn is_loose(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1100}'..='\u{11ff}' | '\u{3099}' | '\u{309a}')
}
