//! A task with everything below it.

use std::collections::BTreeMap;

use baton_domain::ids::{StageName, TaskId};
use baton_domain::task::Kind;
use baton_domain::text::Title;
use baton_domain::view::Badge;
use baton_store::read::PAGE_MAX;
use baton_store::{Filter, TaskRow};

use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::record;
use crate::views::stage_word;

/// The most pages that are counted beyond what is shown: a tree of five thousand is told exactly,
/// a larger one as more than that.
const COUNTED_PAGES_MAX: usize = 9;

record! {
    /// Which tree.
    pub struct Tree {
        /// The task at its root.
        task: TaskId,
    }

    /// A task with everything below it, as far as it fits.
    pub struct TreeView {
        /// Each task before those below it, children by number.
        items: Vec<TreeItem>,
        /// How many tasks are not shown.
        dropped: u64,
        /// Whether even more were not counted.
        more: bool,
    }

    /// One task of a tree.
    pub struct TreeItem {
        /// Which task.
        id: TaskId,
        /// How many steps it is below the root.
        depth: u64,
        /// The task that it is part of.
        parent: Option<TaskId>,
        /// The one word for how it is.
        badge: Badge,
        /// backlog, a working stage, done, closed or archived.
        stage: StageName,
        /// What sort of work it is.
        kind: Kind,
        /// A line that names it.
        title: Title,
    }
}

impl Operation for Tree {
    const ABOUT: Declaration = Declaration::look(
        ("task", "tree"),
        "/v1/tasks/{task}/tree",
        &["id", "depth", "badge", "stage", "title"],
        "Show a task with everything below it",
    );

    type Answer = TreeView;

    async fn perform(self, call: &Call) -> Result<Answered<TreeView>, Problem> {
        let tenant = &call.caller().tenant;
        let filter = |after| Filter {
            tree: Some(self.task),
            ended: true,
            after,
            count_max: PAGE_MAX,
            ..Filter::default()
        };
        // Parents are older than their children, so the first page holds the way to each of its
        // tasks.
        let first = call.engine().tasks(tenant, filter(None)).await?;
        let root = first.rows.first().filter(|row| row.flow.id == self.task);
        let depth = root.ok_or_else(Problem::not_found)?.flow.ancestors.len();
        let (mut dropped, mut next) = (0, first.next);
        for _ in 0..COUNTED_PAGES_MAX {
            let Some(after) = next else { break };
            let page = call.engine().tasks(tenant, filter(Some(after))).await?;
            dropped += page.rows.len() as u64;
            next = page.next;
        }
        let items = items(call, &first.rows, depth);
        let view = TreeView { items, dropped, more: next.is_some() };
        Ok(Answered::read(view, call.cursor(first.as_of)))
    }
}

/// Each task before those below it: the way down from the root, as a text of numbers, sorts so.
fn items(call: &Call, rows: &[TaskRow], depth: usize) -> Vec<TreeItem> {
    let now = call.engine().now();
    let way = |row: &TaskRow| {
        let mut way = row.flow.ancestors.clone();
        way.push(row.flow.id);
        way
    };
    let sorted: BTreeMap<_, _> = rows.iter().map(|row| (way(row), row)).collect();
    let item = |row: &TaskRow| TreeItem {
        id: row.flow.id,
        depth: (row.flow.ancestors.len() - depth) as u64,
        parent: row.flow.parent(),
        badge: row.flow.badge(now),
        stage: stage_word(&row.flow.stage),
        kind: row.flow.kind,
        title: row.brief.title.clone(),
    };
    sorted.into_values().map(item).collect()
}
