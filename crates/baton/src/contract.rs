//! What a project asks for before a run counts as complete, as `baton.toml` says it.
//!
//! The bytes are those of a commit, the one that the work begins from: what an agent writes into its own copy of
//! the file changes nothing of what is asked of it. A stage and a task may ask for more than the project does,
//! never for less, so one name never means two things. Pure: whoever calls brings the bytes.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::Refusal;
use baton_domain::contract::{Contract, Term, check_path, check_pattern};
use baton_domain::ids::{Digest, LineId, StageName};
use baton_domain::limits::{GATE_MAX, LINES_MAX, STAGES_MAX};
use baton_domain::pattern;
use baton_domain::text::Line;
use baton_domain::time::Millis;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::shape::Span;
use crate::worktree::SETUP_MAX;

pub use pipeline::Pipeline;
use written::{Lines, Written};

mod pipeline;
mod written;

/// Where a project says it.
pub const FILE: &str = "baton.toml";
/// Bytes of the file: hundreds of lines.
pub const FILE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a schema: larger ones are programs.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;
/// Patterns of paths whose change somebody must look at.
pub const PROTECTED_MAX: usize = 64;
/// How long a gate may take if its line does not say: a whole test suite, not a hung one.
pub const GATE_TIMEOUT: Millis = Millis::minutes(10);

/// Everything that the file of one commit asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    everywhere: Part,
    stages: BTreeMap<StageName, Part>,
    /// Schemas that lines name, by their digests: whoever binds the contract hands them in as blobs.
    pub schemas: BTreeMap<Digest, Vec<u8>>,
    /// The stages in their order, and how work lands; none if the file leaves that to the project's record.
    pub pipeline: Option<Pipeline>,
}

/// What one place of the file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    lines: BTreeMap<LineId, Term>,
    protected: BTreeSet<Line>,
}

/// All that is asked of one run, and the hash that submissions and receipts carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    pub contract: Contract,
    /// Paths whose change somebody must look at, as patterns.
    pub protected: BTreeSet<Line>,
    pub hash: Digest,
}

/// Why the file asks for nothing that could be kept to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody wrote so much by hand.
    #[error("{FILE} has more than {} KiB", FILE_BYTES_MAX >> 10)]
    TooLarge,
    /// It is no text.
    #[error("{FILE} is not text in UTF-8")]
    NotText,
    /// It is no TOML, or has what nobody knows: a gate that is spelled wrongly must not be no gate.
    #[error("{FILE}: {}{why}", at(.field))]
    Syntax { field: String, why: String },
    /// Something in it breaks a rule.
    #[error("{FILE}: `{field}` {rule}")]
    Invalid { field: String, rule: String },
}

fn at(field: &str) -> String {
    if field.is_empty() || field == "." { String::new() } else { format!("`{field}`: ") }
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn next(&self) -> String {
        let check = "then baton contract check";
        match self {
            Self::TooLarge => format!("put long commands into scripts and name those; {check}"),
            Self::NotText => format!("save {FILE} as UTF-8 and commit it; {check}"),
            Self::Syntax { .. } | Self::Invalid { .. } => {
                format!("put {FILE} right and commit it; {check}")
            }
        }
    }

    fn of(field: &str, refusal: Refusal) -> Self {
        let words = refusal.to_string();
        let rule = if let Refusal::Invalid { rule, .. } = refusal { rule } else { words };
        Self::Invalid { field: field.to_owned(), rule }
    }
}

/// The hash of everything that is asked of a run: the same whenever the same is asked for, however it
/// was written.
#[must_use]
pub fn hash(contract: &Contract, protected: &BTreeSet<Line>) -> Digest {
    let lines = serde_json::to_value(&contract.lines).expect("lines have names and plain terms");
    let all = match protected.is_empty() {
        true => lines,
        false => json!({ "lines": lines, "protected": protected }),
    };
    digest(all.to_string().as_bytes())
}

/// The SHA-256 of some bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Digest::new(&digits).expect("a hash is 64 hex digits")
}

/// The commands that set a new worktree up, by the file of the commit that it begins from.
///
/// # Errors
/// If the file is not understood, or they are too many, too long or blank.
pub fn setup(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::NotText)?;
    let commands = Written::parse(text)?.worktree.setup;
    let good = |command: &String| {
        !command.contains(['\n', '\0']) && Line::new("setup", command.as_str()).is_ok()
    };
    if commands.len() > SETUP_MAX || !commands.iter().all(good) {
        let rule = format!("must be at most {SETUP_MAX} commands, each one line");
        return Err(Error::Invalid { field: "worktree.setup".to_owned(), rule });
    }
    Ok(commands)
}

impl Asked {
    /// Reads the file of a commit. Schemas are named by paths, and `file` finds those in the same commit.
    ///
    /// # Errors
    /// The first thing in it that cannot be kept to.
    pub fn read(bytes: &[u8], file: &dyn Fn(&str) -> Option<Vec<u8>>) -> Result<Self, Error> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Error::NotText)?;
        let written = Written::parse(text)?;
        if written.stages.len() > STAGES_MAX {
            let rule = format!("must not be more than {STAGES_MAX}");
            return Err(Error::Invalid { field: "stages".to_owned(), rule });
        }
        let pipeline = Pipeline::read(&written)?;
        let mut asked = Self { pipeline, ..Self::default() };
        asked.everywhere = asked.part("contract", written.contract, file)?;
        for (name, stage) in written.stages {
            let field = format!("stages.{name}");
            let named = StageName::new(&name).map_err(|refusal| Error::of(&field, refusal))?;
            let part = asked.part(&format!("{field}.contract"), stage.contract, file)?;
            asked.stages.insert(named.clone(), part);
            // What a stage adds must go with what the project asks for, whatever a task adds later.
            asked.merged(Some(&named), &Contract::default())?;
        }
        asked.merged(None, &Contract::default())?;
        Ok(asked)
    }

    /// What is asked of a run of a task in a stage: all that the project, the stage and the task ask for.
    ///
    /// # Errors
    /// If two of them mean different things by one name, or if it is too much.
    pub fn merged(&self, stage: Option<&StageName>, task: &Contract) -> Result<Whole, Error> {
        let mut lines = self.everywhere.lines.clone();
        let mut protected = self.everywhere.protected.clone();
        protected.insert(Line::new("protected", FILE).expect("a plain name is a line"));
        let of_stage = stage.and_then(|stage| Some((stage, self.stages.get(stage)?)));
        if let Some((stage, part)) = of_stage {
            add(&mut lines, &part.lines, &format!("stages.{stage}.contract"))?;
            protected.extend(part.protected.iter().cloned());
        }
        add(&mut lines, &task.lines, "the task's contract")?;
        if protected.len() > PROTECTED_MAX {
            let rule =
                format!("must not be more than {PROTECTED_MAX}, those of the stage included");
            return Err(Error::Invalid { field: "contract.protected".to_owned(), rule });
        }
        let contract = Contract { lines };
        if contract.lines.len() > LINES_MAX {
            let rule =
                format!("must not be more than {LINES_MAX}, those of stage and task included");
            return Err(Error::Invalid { field: "contract".to_owned(), rule });
        }
        contract.check().map_err(|refusal| {
            let line = if let Refusal::Invalid { field, .. } = &refusal {
                format!("contract, line {field}")
            } else {
                "contract".to_owned()
            };
            Error::of(&line, refusal)
        })?;
        let hash = hash(&contract, &protected);
        Ok(Whole { contract, protected, hash })
    }

    fn part(
        &mut self,
        field: &str,
        lines: Lines,
        file: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> Result<Part, Error> {
        let mut part = Part::default();
        for (name, artifact) in lines.artifacts {
            let field = format!("{field}.artifacts.{name}");
            let path = line(&format!("{field}.path"), artifact.path)?;
            let found = artifact.schema.map(|path| schema(&format!("{field}.schema"), path, file));
            let schema = found.transpose()?.map(|(digest, bytes)| {
                self.schemas.insert(digest.clone(), bytes);
                digest
            });
            let bytes_min = artifact.bytes_min.unwrap_or(0);
            part.add(&field, &name, Term::Artifact { path, bytes_min, schema })?;
        }
        for (name, gate) in lines.gates {
            let field = format!("{field}.gates.{name}");
            let command = line(&format!("{field}.command"), gate.command)?;
            let timeout = gate.timeout.map(|text| timeout(&format!("{field}.timeout"), &text));
            let timeout = timeout.transpose()?.unwrap_or(GATE_TIMEOUT);
            part.add(&field, &name, Term::Gate { command, timeout })?;
        }
        for (name, criterion) in lines.criteria {
            let field = format!("{field}.criteria.{name}");
            let text = line(&format!("{field}.text"), criterion.text)?;
            let check = criterion.check.map(|check| line(&format!("{field}.check"), check));
            part.add(&field, &name, Term::Criterion { text, check: check.transpose()? })?;
        }
        for (index, path) in lines.protected.into_iter().enumerate() {
            let field = format!("{field}.protected[{index}]");
            let path = line(&field, path)?;
            let sound = check_path("", &path).and_then(|()| check_pattern("", &path));
            sound.map_err(|refusal| Error::of(&field, refusal))?;
            part.protected.insert(path);
        }
        Ok(part)
    }
}

impl Whole {
    /// Which of these paths somebody must look at before their change counts.
    pub fn guarded<'a>(&'a self, changed: &'a [String]) -> impl Iterator<Item = &'a str> {
        let is_protected = |path: &&str| {
            self.protected.iter().any(|protected| pattern::matches(protected.as_str(), path))
        };
        changed.iter().map(String::as_str).filter(is_protected)
    }
}

impl Part {
    fn add(&mut self, field: &str, name: &str, term: Term) -> Result<(), Error> {
        let id = LineId::new(name).map_err(|refusal| Error::of(field, refusal))?;
        if self.lines.insert(id, term).is_some() {
            let rule = "has the name of another line: every line needs its own".to_owned();
            return Err(Error::Invalid { field: field.to_owned(), rule });
        }
        Ok(())
    }
}

/// Adds lines that must not take the place of others.
fn add(
    lines: &mut BTreeMap<LineId, Term>,
    more: &BTreeMap<LineId, Term>,
    place: &str,
) -> Result<(), Error> {
    for (name, term) in more {
        let before = lines.entry(name.clone()).or_insert_with(|| term.clone());
        if before != term {
            let rule = "asks for something else under a name that is taken: lines are added, never \
                        replaced";
            let field = format!("{place}, line {name}");
            return Err(Error::Invalid { field, rule: rule.to_owned() });
        }
    }
    Ok(())
}

fn line(field: &str, text: String) -> Result<Line, Error> {
    Line::new(field, text).map_err(|refusal| Error::of(field, refusal))
}

fn timeout(field: &str, text: &str) -> Result<Millis, Error> {
    let Span(length) = text.parse().map_err(|refusal| Error::of(field, refusal))?;
    if (Millis::seconds(1)..=GATE_MAX).contains(&length) {
        return Ok(length);
    }
    Err(Error::Invalid { field: field.to_owned(), rule: "must be 1 s to 24 h".to_owned() })
}

/// A schema of the same commit, by its digest.
fn schema(
    field: &str,
    path: String,
    file: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Result<(Digest, Vec<u8>), Error> {
    let wrong = |rule: String| Error::Invalid { field: field.to_owned(), rule };
    let path = line(field, path)?;
    check_path("", &path).map_err(|refusal| Error::of(field, refusal))?;
    let bytes = file(path.as_str())
        .ok_or_else(|| wrong(format!("names `{path}`, which is not a file of the same commit")))?;
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(wrong(format!("must have at most {} KiB", SCHEMA_BYTES_MAX >> 10)));
    }
    if !serde_json::from_slice(&bytes).is_ok_and(|value: serde_json::Value| value.is_object()) {
        return Err(wrong(format!("names `{path}`, which is not a JSON object")));
    }
    Ok((digest(&bytes), bytes))
}

#[cfg(test)]
mod tests;
