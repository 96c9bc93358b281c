//! Everything that a store tells, as text: two stores that differ in anything differ here.

use std::fmt::Write;

use baton_domain::ids::TaskId;
use baton_store::read::PAGE_MAX;
use baton_store::{Filter, KeyFound, RunFilter, Stats, TaskRow};

use crate::world::World;

impl World {
    /// Everything that the store tells this tenant.
    pub async fn dump(&self) -> String {
        let (store, tenant) = (self.store(), &self.tenant);
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes any text");
        let projects = store.projects(tenant, None, PAGE_MAX).await.expect("reading works").rows;
        projects.iter().for_each(|project| line(format!("{tenant} project {project:?}")));
        let pools = store.pools(tenant, None, PAGE_MAX).await.expect("reading works").rows;
        pools.iter().for_each(|row| line(format!("{tenant} pool {row:?}")));
        for row in self.all_keys(PAGE_MAX).await {
            let found = store.key(&row.key.id).await.expect("reading works");
            line(format!("{tenant} key {:?} {:?}", found, found.as_ref().map(secrets)));
        }
        for row in self.all_tasks().await {
            let id = row.flow.id;
            line(format!("{tenant} {id} {row:?}"));
            let history = self.history(id).await;
            history.iter().for_each(|record| line(format!("{tenant} {id} {record:?}")));
        }
        let runs = RunFilter { count_max: PAGE_MAX, ..RunFilter::default() };
        let runs = store.runs(tenant, runs).await.expect("reading works").rows;
        for row in runs {
            let full = store.run(tenant, row.id).await.expect("reading works").what;
            assert_eq!(full.as_ref().map(|full| &full.row), Some(&row), "a run is what it is");
            line(format!("{tenant} {} {full:?}", row.id));
        }
        let stats = store.stats(tenant, None).await.expect("reading works").what;
        if stats != Stats::default() {
            line(format!("{tenant} {stats:?}"));
        }
        let entries = self.entries().await;
        entries.iter().for_each(|entry| line(format!("{tenant} {entry:?}")));
        text
    }

    /// Every task, ended ones included, page by page.
    pub async fn all_tasks(&self) -> Vec<TaskRow> {
        let mut rows: Vec<TaskRow> = vec![];
        let mut after: Option<TaskId> = None;
        loop {
            let filter = Filter { ended: true, after, count_max: PAGE_MAX, ..Filter::default() };
            let page = self.store().tasks(&self.tenant, filter).await.expect("reading works");
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() {
                return rows;
            }
        }
    }
}

/// What opens a key, which hides itself from being shown.
fn secrets(found: &KeyFound) -> Option<([u8; 32], Option<[u8; 32]>)> {
    let verifiers = found.credential.verifiers.as_ref()?;
    Some((verifiers.current.0, verifiers.former.map(|(former, _)| former.0)))
}

/// Points at the first line in which two dumps differ.
pub fn assert_same(before: &str, after: &str, what: &str) {
    let mut lines = before.lines().zip(after.lines()).enumerate();
    if let Some((number, (one, other))) = lines.find(|(_, (one, other))| one != other) {
        panic!("{what}: line {number} differs\n  {one}\n  {other}");
    }
    let (one, other) = (before.lines().count(), after.lines().count());
    assert_eq!(one, other, "{what}: one dump goes on where the other ends");
}
