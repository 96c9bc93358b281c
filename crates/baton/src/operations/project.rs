//! Projects.

use baton_domain::ids::{ProjectId, StageName};
use baton_domain::project::{PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::text::Line;

use crate::call::Call;
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::{Span, record};

record! {
    /// A project to be, or as it shall be.
    pub struct Add {
        /// What it is called.
        project: ProjectId,
        /// The folder that it is about.
        root: Option<Line>,
        /// Its working stages in order; without any, one stage `coding` that agents work.
        stages: Option<Vec<StageWish>>,
        /// How long after their end tasks are put away.
        archive_after: Option<Span>,
        /// Whether tasks with dependencies start by themselves once all are met.
        promote: Option<bool>,
    }

    /// One working stage.
    pub struct StageWish {
        /// What it is called.
        name: StageName,
        /// Who works it.
        worked_by: Option<WorkedBy>,
        /// Who lets a task that passed it go on.
        passed_by: Option<PassedBy>,
    }

    /// A repository root, or any folder, with its pipeline.
    pub struct ProjectView {
        /// What it is called.
        id: ProjectId,
        /// The folder that it is about.
        root: Option<Line>,
        /// Its working stages in order.
        stages: Vec<StageWish>,
        /// How long after their end tasks are put away.
        archive_after: Option<Span>,
        /// Whether tasks with dependencies start by themselves once all are met.
        promote: bool,
    }
}

impl Operation for Add {
    const ABOUT: About = About {
        noun: "project",
        verb: "add",
        summary: "Add a project, or change the one of that name",
        method: Method::Put,
        path: "/v1/projects/{project}",
        level: Level::Write,
        speaker: Speaker::Person,
        hints: Hints::SETS,
        columns: &["id", "root", "stages"],
    };

    type Answer = ProjectView;

    async fn perform(self, call: &Call) -> Result<Answered<ProjectView>, Problem> {
        let project = self.project();
        let view = ProjectView::of(&project);
        let committed = call.on_record(RecordCommand::PutProject(project), None).await?;
        Ok(call.done(view, &committed))
    }
}

impl Add {
    fn project(self) -> Project {
        let coding = || StageSpec {
            name: StageName::new("coding").expect("a plain word is a name"),
            worked_by: WorkedBy::Agent,
            passed_by: PassedBy::Server,
        };
        let pipeline = self.stages.map_or_else(
            || vec![coding()],
            |stages| {
                let spec = |wish: StageWish| StageSpec {
                    name: wish.name,
                    worked_by: wish.worked_by.unwrap_or_default(),
                    passed_by: wish.passed_by.unwrap_or_default(),
                };
                stages.into_iter().map(spec).collect()
            },
        );
        Project {
            id: self.project,
            root: self.root,
            pipeline,
            archive_after: self.archive_after.map(|span| span.0),
            promote: self.promote.unwrap_or(false),
        }
    }
}

impl ProjectView {
    /// A project as callers see it.
    #[must_use]
    pub fn of(project: &Project) -> Self {
        let stage = |spec: &StageSpec| StageWish {
            name: spec.name.clone(),
            worked_by: Some(spec.worked_by),
            passed_by: Some(spec.passed_by),
        };
        Self {
            id: project.id.clone(),
            root: project.root.clone(),
            stages: project.pipeline.iter().map(stage).collect(),
            archive_after: project.archive_after.map(Span),
            promote: project.promote,
        }
    }
}
