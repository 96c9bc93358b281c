//! What the work on a run changed, from the bundles that the server has.

use std::path::PathBuf;

use baton_domain::ids::{AttemptId, RunId};
use baton_domain::text::Line;

use super::kept;
use crate::call::Call;
use crate::diffs::Asked;
use crate::operation::{Answered, Declaration, Operation};
use crate::operations::project;
use crate::problem::Problem;
use crate::protocol::Work;
use crate::shape::{RunRef, Violation, record};
use crate::views::{DiffView, FileChange};

record! {
    /// Whose work.
    pub struct Diff {
        /// Which run; of a task the live one, or else the one that finished last.
        run: RunRef,
        /// Of this attempt; otherwise of whoever brought work last.
        attempt: Option<AttemptId>,
        /// Only this file.
        path: Option<Line>,
        /// Only which files and how many lines, without the patch.
        stat: Option<bool>,
    }
}

impl Operation for Diff {
    const ABOUT: Declaration = Declaration::look(
        ("run", "diff"),
        "/v1/runs/{run}/diff",
        &["path", "added", "removed"],
        "Show what the work on a run changed over what it began from",
    );

    type Answer = DiffView;

    async fn perform(self, call: &Call) -> Result<Answered<DiffView>, Problem> {
        let (row, as_of) = call.told(call.task_of(self.run)?).await?;
        if self.attempt.is_some_and(|attempt| attempt.task != row.flow.id) {
            let rule = format!("must be an attempt of {}, like the run", row.flow.id);
            return Err(Problem::invalid(vec![Violation { field: "attempt".into(), rule }]));
        }
        let id = call.run_of(self.run, &row.flow)?;
        let work = match self.attempt {
            Some(attempt) => {
                let checkpoints = call.run(id).await?.checkpoints;
                let own = checkpoints.iter().filter(|one| one.attempt == attempt.number);
                own.filter_map(kept::work_of).max_by_key(Work::age)
            }
            None => kept::newest_work(call, row.flow.checkpoints, id).await?,
        };
        let view = match work {
            Some(work) => self.compared(call, id, &row.flow.project, &work).await?,
            None => nothing(id),
        };
        Ok(Answered::read(view, as_of))
    }
}

impl Diff {
    async fn compared(
        self,
        call: &Call,
        run: RunId,
        project: &baton_domain::ids::ProjectId,
        work: &Work,
    ) -> Result<DiffView, Problem> {
        let (Some(blobs), Some(diffs)) = (call.engine().blobs(), call.engine().diffs()) else {
            return Err(Problem::new("not_yet", "this server keeps no work"));
        };
        let root = match project::find(call, project).await {
            Ok(found) => found.what.root.as_ref().map(|root| PathBuf::from(root.as_str())),
            // A task that ended may outlive its project.
            Err(problem) if problem.code() == "not_found" => None,
            Err(problem) => return Err(problem),
        };
        let patch = !self.stat.unwrap_or(false);
        let asked = Asked {
            tenant: call.caller().tenant.clone(),
            base: work.base.as_str().to_owned(),
            snapshot: work.snapshot.as_str().to_owned(),
            path: self.path.map(|path| path.as_str().to_owned()),
            patch,
        };
        let found = diffs.of(asked, work, root, blobs).await.map_err(|error| {
            tracing::warn!(%error, "what a run changed cannot be told");
            Problem::new("not_kept", error.to_string())
        })?;
        let file = |file: &crate::worktree::Changed| FileChange {
            path: file.path.clone(),
            from: file.from.clone(),
            added: file.lines.map(|(added, _)| added),
            removed: file.lines.map(|(_, removed)| removed),
        };
        Ok(DiffView {
            attempt: Some(AttemptId { task: run.task, number: work.attempt }),
            base: Some(work.base.clone()),
            snapshot: Some(work.snapshot.clone()),
            items: found.files.iter().map(file).collect(),
            dropped: found.dropped,
            added: found.added,
            removed: found.removed,
            patch: (patch && !found.patch.is_empty()).then(|| found.patch.clone()),
            unshown: found.unshown,
            ..nothing(run)
        })
    }
}

fn nothing(run: RunId) -> DiffView {
    DiffView {
        run,
        attempt: None,
        base: None,
        snapshot: None,
        items: vec![],
        dropped: 0,
        added: 0,
        removed: 0,
        patch: None,
        unshown: 0,
    }
}
