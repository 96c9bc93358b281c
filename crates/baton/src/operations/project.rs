//! Projects.

use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::ids::{PrincipalId, ProjectId, StageName};
use baton_domain::limits::STAGES_MAX;
use baton_domain::pool::{PoolName, Pools};
use baton_domain::project::{Landing, PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::text::{Line, Reason};
use baton_domain::time::Timestamp;
use baton_store::read::PAGE_MAX;
use baton_store::{Committed, Told};

use crate::call::Call;
use crate::operation::{Answered, Declaration, Hints, Method, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, Span, When, record};
use crate::views::{PauseView, ProjectView, StageView};

use super::pool;

/// The most pages that are looked at for one project: more than a tenant may have.
const PAGES_MAX: usize = 8;

record! {
    /// A project to be, or as it shall be.
    pub struct Add {
        /// What it is called.
        project: ProjectId,
        /// The folder that it is about.
        #[is_line(true)]
        root: Option<Line>,
        /// Its working stages in order; without any, one stage `coding` that agents work.
        #[at_most(STAGES_MAX)]
        stages: Option<Vec<StageView>>,
        /// How long after their end tasks are put away.
        archive_after: Option<Span>,
        /// Whether tasks with dependencies start by themselves once all are met.
        promote: Option<bool>,
        /// Who alone moves its branches; the worker of the server's own machine, if nobody is named.
        home: Option<PrincipalId>,
        /// The branch that its work lands on; the one that is checked out, if none is named.
        #[is_line(true)]
        target: Option<Line>,
        /// Where that branch is pushed to once it has moved: the name of a remote.
        #[is_line(true)]
        push: Option<Line>,
    }

    /// Which projects.
    pub struct List {
        /// After this one.
        after: Option<ProjectId>,
        /// At most so many.
        limit: Option<PageSize>,
    }

    /// Part of a list of projects.
    pub struct Projects {
        /// In the order of their names.
        items: Vec<ProjectView>,
        /// Where to go on: give it as `after`. Absent at the end.
        next: Option<ProjectId>,
    }

    /// Which project.
    pub struct Show {
        /// Which project.
        project: ProjectId,
    }

    /// A project to pause.
    pub struct Pause {
        /// Which project.
        project: ProjectId,
        /// Why.
        reason: Reason,
        /// When it ends by itself.
        until: Option<When>,
    }

    /// A project to go on with.
    pub struct Resume {
        /// Which project.
        project: ProjectId,
    }

    /// A project to forget.
    pub struct Remove {
        /// Which project.
        project: ProjectId,
    }

    /// A project that is gone.
    pub struct Removed {
        /// What it was called.
        id: ProjectId,
    }
}

impl Operation for Add {
    const ABOUT: Declaration = Declaration::of_person(
        ("project", "add"),
        (Method::Put, "/v1/projects/{project}"),
        Hints::ENDS,
        &["id", "root", "stages", "paused"],
        "Add a project, or change the one of that name",
    );

    type Answer = ProjectView;

    async fn perform(self, call: &Call) -> Result<Answered<ProjectView>, Problem> {
        let project = self.project();
        let put = RecordCommand::PutProject(project.clone());
        let committed = call.on_record(put, None).await?;
        changed(call, &committed, &project).await
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("project", "list"),
        "/v1/projects",
        &["id", "root", "stages", "paused"],
        "List projects",
    );

    type Answer = Projects;

    async fn perform(self, call: &Call) -> Result<Answered<Projects>, Problem> {
        let count_max = PageSize::or_usual(self.limit);
        let tenant = &call.caller().tenant;
        let page = call.engine().projects(tenant, self.after, count_max).await?;
        let pools = pool::all(call).await?.what;
        let now = call.engine().now();
        let items = page.rows.iter().map(|project| view(project, &pools, now)).collect();
        Ok(Answered::read(Projects { items, next: page.next }, call.cursor(page.as_of)))
    }
}

impl Operation for Show {
    const ABOUT: Declaration = Declaration::look(
        ("project", "show"),
        "/v1/projects/{project}",
        &["id", "root", "stages", "paused"],
        "Show a project",
    );

    type Answer = ProjectView;

    async fn perform(self, call: &Call) -> Result<Answered<ProjectView>, Problem> {
        let Told { what: project, as_of } = find(call, &self.project).await?;
        let pools = pool::all(call).await?.what;
        Ok(Answered::read(view(&project, &pools, call.engine().now()), call.cursor(as_of)))
    }
}

impl Operation for Pause {
    const ABOUT: Declaration = Declaration::of_person(
        ("project", "pause"),
        (Method::Post, "/v1/projects/{project}/pause"),
        Hints::SETS,
        &["id", "root", "stages", "paused"],
        "Pause a project: none of its runs is claimed",
    );

    type Answer = ProjectView;

    async fn perform(self, call: &Call) -> Result<Answered<ProjectView>, Problem> {
        let pool = PoolName::Project(self.project.clone());
        let committed = pool::pause(call, pool, self.reason, self.until).await?;
        let project = known(call, self.project).await?;
        changed(call, &committed, &project).await
    }
}

impl Operation for Resume {
    const ABOUT: Declaration = Declaration::of_person(
        ("project", "resume"),
        (Method::Post, "/v1/projects/{project}/resume"),
        Hints::SETS,
        &["id", "root", "stages", "paused"],
        "Let a paused project go on",
    );

    type Answer = ProjectView;

    async fn perform(self, call: &Call) -> Result<Answered<ProjectView>, Problem> {
        let committed = pool::resume(call, PoolName::Project(self.project.clone())).await?;
        let project = known(call, self.project).await?;
        changed(call, &committed, &project).await
    }
}

impl Operation for Remove {
    const ABOUT: Declaration = Declaration::of_person(
        ("project", "remove"),
        (Method::Delete, "/v1/projects/{project}"),
        Hints::ENDS,
        &["id"],
        "Forget a project that has no live tasks",
    );

    type Answer = Removed;

    async fn perform(self, call: &Call) -> Result<Answered<Removed>, Problem> {
        let id = self.project;
        let committed = call.on_record(RecordCommand::RemoveProject, Some(id.clone())).await?;
        Ok(call.done(Removed { id }, &committed))
    }
}

impl Add {
    fn project(self) -> Project {
        let coding = StageSpec {
            name: StageName::new("coding").expect("a plain word is a name"),
            worked_by: WorkedBy::Agent,
            passed_by: PassedBy::Server,
        };
        let stages = self.stages.map(|list| list.into_iter().map(StageView::spec).collect());
        Project {
            id: self.project,
            root: self.root,
            pipeline: stages.unwrap_or_else(|| vec![coding]),
            archive_after: self.archive_after.map(|span| span.0),
            promote: self.promote.unwrap_or(false),
            landing: Landing { home: self.home, target: self.target, push: self.push },
        }
    }
}

/// A project of the caller's tenant.
pub async fn find(call: &Call, id: &ProjectId) -> Result<Told<Arc<Project>>, Problem> {
    let (tenant, mut after) = (&call.caller().tenant, None);
    for _ in 0..PAGES_MAX {
        let page = call.engine().projects(tenant, after, PAGE_MAX).await?;
        if let Some(project) = page.rows.iter().find(|project| project.id == *id) {
            return Ok(Told { what: Arc::clone(project), as_of: page.as_of });
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Err(Refusal::NotFound.into())
}

/// The project that something was done to. Whoever repeats its request may find that it has been
/// forgotten since.
async fn known(call: &Call, id: ProjectId) -> Result<Arc<Project>, Problem> {
    match find(call, &id).await {
        Ok(told) => Ok(told.what),
        Err(problem) if problem.code() == "not_found" => Ok(Arc::new(Project::gone(id))),
        Err(problem) => Err(problem),
    }
}

fn view(project: &Project, pools: &Pools, now: Timestamp) -> ProjectView {
    let pool = pools.get(&PoolName::Project(project.id.clone()));
    ProjectView::of(project, pool.and_then(|pool| PauseView::of(pool, now)))
}

/// A project after something was done to it or to its pool.
async fn changed(
    call: &Call,
    committed: &Committed,
    project: &Project,
) -> Result<Answered<ProjectView>, Problem> {
    let Told { what: pools, as_of } = pool::all(call).await?;
    let answered = call.done(view(project, &pools, call.engine().now()), committed);
    Ok(Answered { as_of: Some(call.cursor(as_of)), ..answered })
}
