//! Who plays, and what they are given.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::Refusal;
use baton_domain::command::{NewTask, Note};
use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{Digest, LineId, PrincipalId, ProjectId, StageName, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::run::Mode;
use baton_domain::task::Priority;
use baton_domain::text::{Cursor, Line, Summary, Title};
use baton_domain::time::Millis;
use baton_store::order::Kind as Sort;

/// Everybody on the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Player {
    Ana,
    Fox,
    Owl,
    Checker,
    Clock,
}

impl Player {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ana => "ana",
            Self::Fox => "fox",
            Self::Owl => "owl",
            Self::Checker => "checker",
            Self::Clock => "clock",
        }
    }

    pub(super) fn sort(self) -> Sort {
        match self {
            Self::Ana => Sort::Person,
            Self::Fox | Self::Owl => Sort::Agent,
            Self::Checker => Sort::Worker,
            Self::Clock => Sort::System,
        }
    }

    pub(super) fn principal(self) -> PrincipalId {
        PrincipalId::new(self.name()).expect("a plain word is a name")
    }

    /// A checker supervises what it runs; the agents of this story have no worker.
    pub(super) fn claimant(self, wants: Wants) -> Claimant {
        let mode = if self == Self::Checker { Mode::Supervised } else { Mode::Solo };
        Claimant {
            principal: self.principal(),
            person: false,
            mode,
            capabilities: BTreeSet::new(),
            account: None,
            project: None,
            stage: None,
            priority_min: Priority::Low,
            wants,
        }
    }
}

/// The project of the story.
pub(super) fn project() -> ProjectId {
    ProjectId::new("demo").expect("a plain word is a name")
}

/// Its only stage.
pub(super) fn coding() -> StageName {
    StageName::new("coding").expect("a plain word is a name")
}

/// A task that starts at once.
pub(super) struct Plan(pub(super) NewTask);

pub(super) fn task(title: &str) -> Result<Plan, Refusal> {
    Ok(Plan(NewTask {
        start_in: Some(coding()),
        ..NewTask::new(project(), Player::Ana.principal(), Title::new("title", title)?)
    }))
}

impl Plan {
    /// It waits in the backlog until another task is done.
    pub(super) fn after(mut self, on: TaskId) -> Self {
        self.0.depends_on.insert(on);
        self.0.start_in = None;
        self
    }

    /// It is done only with a changelog and a passing gate.
    pub(super) fn proved_by(mut self, artifact: &str, gate: &str) -> Result<Self, Refusal> {
        let path = Line::new("path", "CHANGELOG.md")?;
        let command = Line::new("command", "cargo test")?;
        let lines = BTreeMap::from([
            (LineId::new(artifact)?, Term::Artifact { path, bytes_min: 1 }),
            (LineId::new(gate)?, Term::Gate { command, timeout: Millis::minutes(10) }),
        ]);
        let hash = Digest::new(&"5ea15000".repeat(8))?;
        self.0.contract = Some((Contract { lines }, hash));
        Ok(self)
    }
}

/// A checkpoint.
pub(super) fn note(summary: &str, cursor: &str) -> Result<Box<Note>, Refusal> {
    Ok(Box::new(Note {
        summary: Summary::new("summary", summary)?,
        cursor: Some(Cursor::new("cursor", cursor)?),
        evidence: vec![],
        git: BTreeMap::new(),
    }))
}
