//! A project as callers see it.

use baton_domain::ids::{PrincipalId, ProjectId, StageName};
use baton_domain::limits::STAGES_MAX;
use baton_domain::project::{PassedBy, Project, StageSpec, WorkedBy};
use baton_domain::text::Line;

use crate::shape::{Span, record};

use super::PauseView;

record! {
    /// A repository root, or any folder, with its pipeline.
    pub struct ProjectView {
        /// What it is called.
        id: ProjectId,
        /// The folder that it is about.
        root: Option<Line>,
        /// Its working stages in order.
        #[at_most(STAGES_MAX)]
        stages: Vec<StageView>,
        /// How long after their end tasks are put away.
        archive_after: Option<Span>,
        /// Whether tasks with dependencies start by themselves once all are met.
        promote: bool,
        /// Who alone moves its branches; the worker of the server's own machine, if nobody is named.
        home: Option<PrincipalId>,
        /// The branch that its work lands on; the one that is checked out, if none is named.
        #[is_line(true)]
        target: Option<Line>,
        /// Where that branch is pushed to once it has moved.
        #[is_line(true)]
        push: Option<Line>,
        /// Why none of its runs may be claimed now.
        paused: Option<PauseView>,
    }

    /// One working stage.
    pub struct StageView {
        /// What it is called.
        name: StageName,
        /// Who works it; agents if nothing is said.
        worked_by: Option<WorkedBy>,
        /// Who lets a task that passed it go on; nobody need if nothing is said.
        passed_by: Option<PassedBy>,
    }
}

impl ProjectView {
    /// A project as callers see it.
    #[must_use]
    pub fn of(project: &Project, paused: Option<PauseView>) -> Self {
        Self {
            id: project.id.clone(),
            root: project.root.clone(),
            stages: project.pipeline.iter().map(StageView::of).collect(),
            archive_after: project.archive_after.map(Span),
            promote: project.promote,
            home: project.landing.home.clone(),
            target: project.landing.target.clone(),
            push: project.landing.push.clone(),
            paused,
        }
    }
}

impl StageView {
    fn of(spec: &StageSpec) -> Self {
        Self {
            name: spec.name.clone(),
            worked_by: Some(spec.worked_by),
            passed_by: Some(spec.passed_by),
        }
    }

    /// The stage that a caller describes.
    #[must_use]
    pub fn spec(self) -> StageSpec {
        StageSpec {
            name: self.name,
            worked_by: self.worked_by.unwrap_or_default(),
            passed_by: self.passed_by.unwrap_or_default(),
        }
    }
}
