//! The lines of a contract as callers write and see them.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{Digest, LineId};
use baton_domain::text::Line;

use crate::contract::{self, GATE_TIMEOUT};
use crate::shape::choices::Word as _;
use crate::shape::{Span, Violation, record, words};

words! {
    /// What sort of line it is.
    pub enum LineKind {
        /// A file must be there.
        Artifact = "artifact",
        /// A command must succeed.
        Gate = "gate",
        /// Something must be true.
        Criterion = "criterion",
        /// Somebody else must agree.
        Review = "review",
    }
}

record! {
    /// One line of a contract.
    pub struct ContractLine {
        /// Its name.
        id: LineId,
        /// An artifact has path, bytes_min and schema, a gate command and timeout, a criterion text and check.
        kind: LineKind,
        /// A file that must be there, made or changed by this attempt, relative to the root; `*` stands for any
        /// name, `**` for any folders, and then at least one file must be.
        path: Option<Line>,
        /// How many bytes it must have.
        bytes_min: Option<u64>,
        /// The JSON schema that it must fit, as a blob.
        schema: Option<Digest>,
        /// A command that must succeed.
        command: Option<Line>,
        /// How long the command may take; ten minutes if it does not say.
        timeout: Option<Span>,
        /// Something that must be true.
        text: Option<Line>,
        /// A command that tells whether it is.
        check: Option<Line>,
    }
}

impl ContractLine {
    /// The lines of a contract as callers see them.
    #[must_use]
    pub fn all(contract: &Contract) -> Vec<Self> {
        contract.lines.iter().map(|(id, term)| Self::of(id, term)).collect()
    }

    fn of(id: &LineId, term: &Term) -> Self {
        let line = |kind| Self {
            id: id.clone(),
            kind,
            path: None,
            bytes_min: None,
            schema: None,
            command: None,
            timeout: None,
            text: None,
            check: None,
        };
        match term {
            Term::Artifact { path, bytes_min, schema } => Self {
                path: Some(path.clone()),
                bytes_min: Some(*bytes_min),
                schema: schema.clone(),
                ..line(LineKind::Artifact)
            },
            Term::Gate { command, timeout } => Self {
                command: Some(command.clone()),
                timeout: Some(Span(*timeout)),
                ..line(LineKind::Gate)
            },
            Term::Criterion { text, check } => {
                Self { text: Some(text.clone()), check: check.clone(), ..line(LineKind::Criterion) }
            }
            Term::Review => line(LineKind::Review),
        }
    }

    /// A contract of these lines, with the hash of its text: two contracts that ask for the same
    /// have the same hash, however they were written.
    pub fn contract(lines: Vec<Self>) -> Result<(Contract, Digest), Violation> {
        let mut terms = BTreeMap::new();
        for (index, line) in lines.into_iter().enumerate() {
            let id = line.id.clone();
            let term = line.term(index)?;
            if terms.insert(id.clone(), term).is_some() {
                let rule = format!("must not name `{id}` a second time");
                return Err(Violation { field: format!("contract[{index}].id"), rule });
            }
        }
        let contract = Contract { lines: terms };
        let hash = contract::hash(&contract, &BTreeSet::new());
        Ok((contract, hash))
    }

    fn term(self, index: usize) -> Result<Term, Violation> {
        let (id, kind) = (self.id.clone(), self.kind);
        let wrong = |field: &str, rule: String| Violation {
            field: format!("contract[{index}].{field}"),
            rule,
        };
        let word = kind.word();
        let given = [
            ("path", self.path.is_some(), LineKind::Artifact),
            ("bytes_min", self.bytes_min.is_some(), LineKind::Artifact),
            ("schema", self.schema.is_some(), LineKind::Artifact),
            ("command", self.command.is_some(), LineKind::Gate),
            ("timeout", self.timeout.is_some(), LineKind::Gate),
            ("text", self.text.is_some(), LineKind::Criterion),
            ("check", self.check.is_some(), LineKind::Criterion),
        ];
        if let Some((field, ..)) = given.iter().find(|(_, is, of)| *is && *of != kind) {
            return Err(wrong(field, format!("must not be given: line `{id}` is of kind {word}")));
        }
        let missing =
            |field: &str| wrong(field, format!("is missing: line `{id}` is of kind {word}"));
        Ok(match kind {
            LineKind::Artifact => Term::Artifact {
                path: self.path.ok_or_else(|| missing("path"))?,
                bytes_min: self.bytes_min.unwrap_or(0),
                schema: self.schema,
            },
            LineKind::Gate => Term::Gate {
                command: self.command.ok_or_else(|| missing("command"))?,
                timeout: self.timeout.map_or(GATE_TIMEOUT, |timeout| timeout.0),
            },
            LineKind::Criterion => Term::Criterion {
                text: self.text.ok_or_else(|| missing("text"))?,
                check: self.check,
            },
            LineKind::Review => Term::Review,
        })
    }
}
