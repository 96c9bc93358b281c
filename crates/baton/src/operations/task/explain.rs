//! Why a task is not moving.

use baton_domain::event::Event;
use baton_domain::explain::{Explained, Hindrance, Outlook, explain};
use baton_domain::ids::{Nonce, TaskId};
use baton_domain::pool::Pools;
use baton_domain::project::Project;
use baton_domain::scene::Lease;
use baton_domain::task::Hold;
use baton_domain::text::{Message, Reason};
use baton_domain::time::{Millis, Timestamp};
use baton_domain::view::Badge;
use baton_store::read::{Happened, LeaseRow};
use baton_store::{TaskRow, Told};

use crate::call::Call;
use crate::operation::{Answered, Declaration, Operation};
use crate::operations::heard::Heard;
use crate::operations::run::words;
use crate::operations::{pool, project};
use crate::problem::Problem;
use crate::shape::{When, record};
use crate::views::{CauseCode, CauseView, RunView};

/// Entries of a task that are looked through for when something was raised.
const LOOKED_BACK: u64 = 100;

record! {
    /// Which task.
    pub struct Explain {
        /// Which task.
        task: TaskId,
    }

    /// Why a task is not moving.
    pub struct Explanation {
        /// Which task.
        id: TaskId,
        /// The one word for how it is.
        badge: Badge,
        /// Every cause, the first one first: when it is gone, the next one counts.
        causes: Vec<CauseView>,
    }
}

impl Operation for Explain {
    const ABOUT: Declaration = Declaration::look(
        ("task", "explain"),
        "/v1/tasks/{task}/explain",
        &["code", "sentence", "words", "by", "since", "until", "command"],
        "Tell why a task is not moving, and what would help",
    );

    type Answer = Explanation;

    async fn perform(self, call: &Call) -> Result<Answered<Explanation>, Problem> {
        let Told { what: row, as_of } = call.look_at(self.task).await?;
        let project = match project::find(call, &row.flow.project).await {
            Ok(found) => found.what,
            // A task that ended may outlive its project.
            Err(problem) if problem.code() == "not_found" => {
                Project::gone(row.flow.project.clone()).into()
            }
            Err(problem) => return Err(problem),
        };
        let pools = pool::all(call).await?.what;
        let lease = row.lease.as_ref().map(lease);
        let outlook = Outlook {
            flow: &row.flow,
            lease: lease.as_ref(),
            project: &project,
            pools: &pools,
            // Grace after an outage is not told by reads; the lease ends then or a little later.
            amnesty: Timestamp(0),
            staff: &call.engine().waiters().staff(&call.caller().tenant),
        };
        let now = call.engine().now();
        let causes = explain(&outlook, now);
        let view = |cause| CauseView::of(self.task, cause);
        // What the server itself cannot do stands before everything, except for what is in hand or over.
        let begins = row.flow.ending().is_none()
            && row.flow.run.as_ref().is_none_or(|run| run.held().is_none());
        let of_server = match begins {
            true => CauseView::of_server(&call.engine().health().await),
            false => vec![],
        };
        let value = Explanation {
            id: self.task,
            badge: row.flow.badge(now),
            causes: of_server
                .into_iter()
                .chain(
                    causes
                        .iter()
                        .map(|cause| CauseView { words: paused(cause, &pools), ..view(cause) }),
                )
                .collect(),
        };
        let value = with_words(call, &row, value).await?;
        let value = with_history(call, &row, value).await?;
        Ok(Answered::read(value, call.cursor(as_of)))
    }
}

/// Why somebody paused what stands in the way.
fn paused(cause: &Explained, pools: &Pools) -> Option<Message> {
    let Hindrance::Paused { pool, .. } = &cause.hindrance else { return None };
    let shut = pools.get(pool)?.shut.as_ref()?;
    Some(as_words(&shut.reason))
}

fn as_words(reason: &Reason) -> Message {
    Message::new("words", reason.as_str()).expect("a reason is shorter")
}

/// Adds what an agent asked, or why it parked its run, to the causes that stem from it.
async fn with_words(
    call: &Call,
    row: &TaskRow,
    mut told: Explanation,
) -> Result<Explanation, Problem> {
    let of_agent = |cause: &&mut CauseView| {
        matches!(cause.code, CauseCode::Blocked | CauseCode::WaitingForInput)
    };
    let Some(cause) = told.causes.iter_mut().find(of_agent) else { return Ok(told) };
    let Some(mut run) = RunView::live(&row.flow, None) else { return Ok(told) };
    words::fill(call, &row.flow, &mut run).await?;
    let question = run.question.and_then(|question| question.text);
    let reason = run.block.and_then(|block| block.reason);
    cause.words = question.or_else(|| reason.as_ref().map(as_words));
    Ok(told)
}

/// Adds since when a hold or a dependency is there, who raised it, and who parked the run. What was raised
/// longer ago than is looked back has no time.
async fn with_history(
    call: &Call,
    row: &TaskRow,
    mut told: Explanation,
) -> Result<Explanation, Problem> {
    let raised = row.flow.run.as_ref().and_then(words::parked).map(|block| block.raised);
    if let Some(raised) = raised
        && let Some(cause) = told.causes.iter_mut().find(|one| one.code == CauseCode::Blocked)
    {
        let said = Heard::at(call, row.flow.id, vec![raised]).await?;
        cause.by = said.last(|entry, _| Some(entry.actor.principal.clone()));
    }
    let is_open = |cause: &CauseView| cause.since.is_none() && is_raised(cause.code);
    if !told.causes.iter().any(is_open) {
        return Ok(told);
    }
    let from = row.flow.version.saturating_sub(LOOKED_BACK - 1).max(1);
    let count_max = usize::try_from(LOOKED_BACK).unwrap_or(usize::MAX);
    let tenant = &call.caller().tenant;
    let entries = call.engine().entries_of(tenant, row.flow.id, from, count_max).await?.rows;
    for cause in told.causes.iter_mut().filter(|cause| is_open(cause)) {
        let found = entries.iter().rev().find_map(|entry| {
            let Happened::ToTask(events) = &entry.happened else { return None };
            let raises = |event: &&Event| raises(cause.code, event);
            events.iter().rev().find(raises).map(|event| (entry, event))
        });
        if let Some((entry, event)) = found {
            cause.since = Some(When(entry.at));
            cause.by = Some(entry.actor.principal.clone());
            if let Event::HoldSet { reason: Some(reason), .. } = event {
                cause.words = Some(as_words(reason));
            }
        }
    }
    Ok(told)
}

fn is_raised(code: CauseCode) -> bool {
    [
        CauseCode::Frozen,
        CauseCode::ReviewHold,
        CauseCode::DependencyOpen,
        CauseCode::DependencyFailed,
    ]
    .contains(&code)
}

/// Whether this is what raised it.
fn raises(code: CauseCode, event: &Event) -> bool {
    let is_hold =
        |own: Hold| matches!(event, Event::HoldSet { hold, on: true, .. } if *hold == own);
    let is_dependency =
        matches!(event, Event::DependencyAdded { met: false, .. } | Event::Created { .. });
    let is_failure = matches!(event, Event::DependencySettled { met: false, .. });
    (code == CauseCode::Frozen && is_hold(Hold::Frozen))
        || (code == CauseCode::ReviewHold && is_hold(Hold::Review))
        || (code == CauseCode::DependencyOpen && is_dependency)
        || (code == CauseCode::DependencyFailed && is_failure)
}

/// The lease as an explanation needs it: who and until when. Its nonce stays in the store.
fn lease(row: &LeaseRow) -> Lease {
    Lease {
        heard: 0,
        attempt: row.attempt,
        holder: row.holder.clone(),
        nonce: Nonce(0),
        expires_at: row.expires_at,
        length: Millis(0),
    }
}
