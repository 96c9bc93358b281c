//! Receipts: what was found of the lines of a contract.

use baton_domain::event::Event;
use baton_domain::ids::{Digest, Label, LineId, TaskId};
use baton_store::Entry;
use baton_store::read::{About, Happened, PAGE_MAX};

use super::history::PAGES_MAX;
use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::problem::Problem;
use crate::receipts::Signer;
use crate::shape::{PageSize, record};
use crate::views::ReceiptView;

record! {
    /// Which receipts.
    pub struct List {
        /// Of which task.
        task: TaskId,
        /// Only of this line.
        line: Option<LineId>,
        /// After this version of the task.
        after: Option<u64>,
        /// At most so many; what was found at once stays together.
        limit: Option<PageSize>,
    }

    /// Part of the receipts of a task.
    pub struct Receipts {
        /// Oldest first.
        items: Vec<ReceiptView>,
        /// Name it as `after` to go on; absent at the end.
        next: Option<u64>,
    }

    /// By which keys receipts are checked.
    pub struct Keys {}

    /// The keys that receipts of this server are signed with.
    pub struct ReceiptKeys {
        /// The public halves.
        items: Vec<ReceiptKey>,
    }

    /// A key that receipts are signed with.
    pub struct ReceiptKey {
        /// A short name.
        id: Label,
        /// The public half, as `receipt verify --key` takes it.
        key: Digest,
    }

    /// Which receipt.
    pub struct Show {
        /// Of which task.
        task: TaskId,
        /// The last one of this line.
        line: LineId,
    }
}

impl Operation for List {
    const ABOUT: Declaration = Declaration::look(
        ("receipt", "list"),
        "/v1/tasks/{task}/receipts",
        &["line", "found", "at", "reason"],
        "List what was found of the lines of a contract",
    );

    type Answer = Receipts;

    async fn perform(self, call: &Call) -> Result<Answered<Receipts>, Problem> {
        let (_, as_of) = call.told(self.task).await?;
        let count_max = PageSize::or_usual(self.limit);
        let (mut items, mut next): (Vec<ReceiptView>, _) = (vec![], Some(self.after.unwrap_or(0)));
        for _ in 0..PAGES_MAX {
            let Some(after) = next else { break };
            let (found, more) = page(call, self.task, self.line.as_ref(), after + 1).await?;
            next = more.map(|from| from - 1);
            for together in found.chunk_by(|one, two| one.version == two.version) {
                if !items.is_empty() && items.len() + together.len() > count_max {
                    next = items.last().map(|last| last.version);
                    return Ok(Answered::read(Receipts { items, next }, as_of));
                }
                items.extend_from_slice(together);
            }
        }
        Ok(Answered::read(Receipts { items, next }, as_of))
    }
}

impl Operation for Show {
    const ABOUT: Declaration = Declaration::look(
        ("receipt", "show"),
        "/v1/tasks/{task}/receipts/{line}",
        &["line", "found", "at", "reason"],
        "Show the last that was found of a line of a contract",
    );

    type Answer = ReceiptView;

    async fn perform(self, call: &Call) -> Result<Answered<ReceiptView>, Problem> {
        let (_, as_of) = call.told(self.task).await?;
        let tenant = &call.caller().tenant;
        let entry = call.engine().receipt(tenant, self.task, &self.line).await?;
        let last = entry.and_then(|entry| of_entry(self.task, &entry, Some(&self.line)).pop());
        last.map_or_else(|| Err(Problem::not_found()), |last| Ok(Answered::read(last, as_of)))
    }
}

impl Operation for Keys {
    const ABOUT: Declaration = Declaration::look(
        ("receipt", "keys"),
        "/v1/receipt-keys",
        &["id", "key"],
        "List the public keys that receipts are checked by",
    );

    type Answer = ReceiptKeys;

    async fn perform(self, call: &Call) -> Result<Answered<ReceiptKeys>, Problem> {
        let public = Signer::new(&call.engine().keyring().proving()).public();
        let key = Digest::new(&public.digits()).expect("a key is 64 hex digits");
        let id = Label::new(&public.id()).expect("hex digits are a name");
        let items = vec![ReceiptKey { id, key }];
        Ok(Answered::read(ReceiptKeys { items }, call.as_of().await?))
    }
}

/// The receipts in an entry.
fn of_entry(task: TaskId, entry: &Entry, line: Option<&LineId>) -> Vec<ReceiptView> {
    let (About::Task(_, version), Happened::ToTask(events)) = (entry.about, &entry.happened) else {
        return vec![];
    };
    let receipts = events.iter().filter_map(Event::receipts);
    let wanted = receipts.flatten().filter(|one| line.is_none_or(|line| one.line == *line));
    wanted.map(|one| ReceiptView::of(task, version, one)).collect()
}

/// The receipts in a page of entries, and the version to go on from.
async fn page(
    call: &Call,
    task: TaskId,
    line: Option<&LineId>,
    from: u64,
) -> Result<(Vec<ReceiptView>, Option<u64>), Problem> {
    let list = call.engine().entries_of(&call.caller().tenant, task, from, PAGE_MAX).await?;
    let found = list.rows.iter().flat_map(|entry| of_entry(task, entry, line)).collect();
    Ok((found, list.next))
}
