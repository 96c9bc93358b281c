//! The inbox: everything that waits for a person.

use baton_domain::event::Event;
use baton_domain::ids::{ProjectId, RunId, TaskId, TenantId};
use baton_domain::view::Need;
use baton_store::Filter;
use baton_store::read::{Happened, PAGE_MAX, RunNow};

use crate::call::Call;
use crate::engine::Engine;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::shape::{PageSize, When, record};
use crate::views::{ChannelView, ExhaustedView, InboxItem, Lookup};

use super::stats;

record! {
    /// Which part of the inbox.
    pub struct List {
        /// Of this project.
        project: Option<ProjectId>,
        /// Only what needs this.
        need: Option<Need>,
        /// After this task.
        after: Option<TaskId>,
        /// Of at most so many tasks.
        limit: Option<PageSize>,
    }

    /// Part of the inbox.
    pub struct Inbox {
        /// In the order of their tasks; a task may need several things.
        items: Vec<InboxItem>,
        /// Accounts that are all at their limits while work is queued: told with the first page of everything.
        exhausted: Option<ExhaustedView>,
        /// Where to go on: give it as `after`. Absent at the end; a page may be short and have it.
        next: Option<TaskId>,
        /// Channels by which nobody is told at present.
        channels: Option<Vec<ChannelView>>,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("inbox", "list"),
        "/v1/inbox",
        &["task", "need", "since", "title", "words", "command"],
        "List everything that waits for a person",
    );

    type Answer = Inbox;

    async fn perform(self, call: &Call) -> Result<Answered<Inbox>, Problem> {
        let tenant = &call.caller().tenant;
        let mut exhausted = None;
        if self.after.is_none() && self.need.is_none() {
            let stats = call.engine().stats(tenant, self.project.clone()).await?.what;
            exhausted = stats::out_of_accounts(call, &stats).await?.map(ExhaustedView::of);
        }
        let filter = Filter {
            project: self.project,
            inbox: true,
            need: self.need,
            after: self.after,
            count_max: PageSize::or_usual(self.limit),
            ..Filter::default()
        };
        let engine = call.engine();
        let channels = super::channel::broken(engine, tenant).await?;
        let (items, next, as_of) = look(engine, tenant, filter).await?;
        let channels = (!channels.is_empty()).then_some(channels);
        Ok(Answered::read(Inbox { items, exhausted, next, channels }, call.cursor(as_of)))
    }
}

/// What waits for a person, of a tenant; where to go on, and how far the events were.
///
/// # Errors
/// If it cannot be read.
pub async fn look(
    engine: &Engine,
    tenant: &TenantId,
    filter: Filter,
) -> Result<(Vec<InboxItem>, Option<TaskId>, u64), Problem> {
    let only = filter.need;
    let page = engine.tasks(tenant, filter).await?;
    let now = engine.now();
    let (mut items, mut next, mut last) = (vec![], page.next, None);
    for row in &page.rows {
        let mut needs = row.flow.needs(now);
        needs.retain(|need| only.is_none_or(|only| only == *need));
        // A task may need several things; a page has its bound all the same.
        if items.len() + needs.len() > PAGE_MAX {
            next = last;
            break;
        }
        for need in needs {
            let (item, lookup) = InboxItem::of(row, need);
            items.push(complete((engine, tenant), item, lookup).await?);
        }
        last = Some(row.flow.id);
    }
    Ok((items, next, page.as_of))
}

/// Adds what is not in the row of the task.
async fn complete(
    (engine, tenant): (&Engine, &TenantId),
    item: InboxItem,
    lookup: Lookup,
) -> Result<InboxItem, Problem> {
    Ok(match lookup {
        Lookup::Nothing => item,
        Lookup::Words(version) => {
            let entries = engine.entries_of(tenant, item.task, version, 1).await?.rows;
            InboxItem { words: entries.first().and_then(|entry| words(&entry.happened)), ..item }
        }
        Lookup::Finish(number) => {
            let id = RunId { task: item.task, number };
            let run = engine.run(tenant, id).await?.what;
            let since = run.and_then(|run| match run.row.run {
                RunNow::Finished(record) => Some(When(record.finished_at)),
                RunNow::Live(..) => None,
            });
            InboxItem { since, ..item }
        }
        Lookup::End(task) => {
            let row = engine.task(tenant, task).await?.what;
            InboxItem { since: row.and_then(|row| row.flow.ended_at).map(When), ..item }
        }
    })
}

/// What whoever raised it said.
fn words(happened: &Happened) -> Option<String> {
    let Happened::ToTask(events) = happened else { return None };
    events.iter().find_map(|event| {
        if let Event::Asked { question } = event {
            return Some(question.to_string());
        }
        let (Event::AttemptEnded { reason, .. } | Event::Stopping { reason, .. }) = event else {
            return None;
        };
        reason.as_ref().map(ToString::to_string)
    })
}
