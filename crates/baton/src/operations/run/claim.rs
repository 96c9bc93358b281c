//! Taking a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_domain::ids::{Account, AttemptId, Capability, ProjectId, StageName, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::limits::CAPABILITIES_MAX;
use baton_domain::run::Mode;
use baton_domain::task::Priority;
use baton_domain::time::Millis;
use baton_store::TaskRow;
use baton_store::order::Kind;
use baton_store::read::LeaseRow;

use super::handoff;
use crate::call::Call;
use crate::engine::{CLAIM_WAIT_MAX, Claimed, Target, Tokens, Wish};
use crate::operation::{Answered, Audience, Declaration, Hints, Operation};
use crate::problem::Problem;
use crate::shape::{Span, When, record};
use crate::views::{HandoffView, LeaseView, RunView, TaskView};

record! {
    /// A wish for work.
    pub struct Claim {
        /// This task, now or not at all.
        task: Option<TaskId>,
        /// Only of this project.
        project: Option<ProjectId>,
        /// Only in this stage.
        stage: Option<StageName>,
        /// What the holder is able to do.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: Option<BTreeSet<Capability>>,
        /// The account whose rate limit it will use.
        account: Option<Account>,
        /// Nothing less urgent.
        priority_min: Option<Priority>,
        /// Parked work that it may pick up, too.
        blocked: Option<bool>,
        /// How long to wait if there is nothing; a minute at most, then ask again.
        #[at_most(CLAIM_WAIT_MAX.0)]
        wait: Option<Span>,
        /// How long the lease lives without renewal.
        lease: Option<Span>,
    }

    /// A run in somebody's hands.
    pub struct ClaimedView {
        /// The task.
        task: TaskView,
        /// The run.
        run: RunView,
        /// The fence: name it when you speak without a claim token.
        attempt: AttemptId,
        /// The right to act as the attempt.
        lease: LeaseView,
        /// Renew at least this often.
        renew_every: Span,
        /// What is known so far, for whoever goes on from here.
        handoff: HandoffView,
    }
}

impl Operation for Claim {
    const ABOUT: Declaration = Declaration::of_holder(
        Audience::Anyone,
        ("claim", "/v1/runs/claim"),
        Hints::ADDS,
        &["task", "run", "attempt", "lease"],
        "Take the next run that you may work on",
    );

    type Answer = ClaimedView;

    async fn perform(self, call: &Call) -> Result<Answered<ClaimedView>, Problem> {
        let wait = self.wait.map(|wait| Span(wait.0.min(CLAIM_WAIT_MAX)));
        let claimed = call.engine().claim(self.wish(call)).await;
        let claimed = claimed.map_err(|error| {
            let problem = Problem::from(error);
            // How long it was waited for is told: a longer wait than is allowed was cut.
            match wait {
                Some(wait) if problem.code() == "nothing_claimable" => {
                    problem.with("wait", wait.to_string())
                }
                Some(_) | None => problem,
            }
        })?;
        call.note_commit();
        answered(call, &claimed).await
    }
}

/// A run in the hands of whoever asked for it.
pub(super) async fn answered(
    call: &Call,
    claimed: &Claimed,
) -> Result<Answered<ClaimedView>, Problem> {
    let row = match &claimed.brief {
        Some(brief) => TaskRow {
            flow: Arc::clone(&claimed.flow),
            brief: brief.clone(),
            lease: Some(LeaseRow {
                attempt: claimed.attempt.number,
                holder: call.caller().principal.clone(),
                expires_at: claimed.expires_at,
            }),
        },
        None => call.task(claimed.flow.id).await?,
    };
    let task = TaskView::of(&row, call.engine().now());
    let run = RunView::live(&claimed.flow, row.lease.as_ref()).ok_or_else(Problem::not_found)?;
    let handoff = handoff::packet(call, &row, run.id).await?;
    let value = ClaimedView {
        task,
        run,
        attempt: claimed.attempt,
        lease: LeaseView { expires_at: When(claimed.expires_at) },
        renew_every: renew_every(claimed.lease),
        handoff,
    };
    let as_of = claimed.position.map(|position| call.cursor(position));
    let (at, replayed) = (Some(claimed.at), claimed.replayed);
    Ok(Answered { value, as_of, at, replayed, secrets: secrets(claimed) })
}

/// A holder that renews at a third may miss a renewal and still hold its run.
pub(super) fn renew_every(lease: Millis) -> Span {
    Span(Millis(lease.0 / 3))
}

fn secrets(claimed: &Claimed) -> Vec<(&'static str, String)> {
    match &claimed.tokens {
        Tokens::Solo(token) => vec![("claim_token", token.reveal().to_owned())],
        Tokens::Supervised { supervisor, agent } => vec![
            ("claim_token", supervisor.reveal().to_owned()),
            ("agent_token", agent.reveal().to_owned()),
        ],
    }
}

/// A wish of the caller, for whatever is next.
pub(super) fn wish(
    call: &Call,
    capabilities: Option<BTreeSet<Capability>>,
    account: Option<Account>,
    lease: Option<Span>,
) -> Wish {
    let caller = call.caller();
    let claimant = Claimant {
        principal: caller.principal.clone(),
        person: caller.kind == Kind::Person,
        mode: if caller.kind == Kind::Worker { Mode::Supervised } else { Mode::Solo },
        capabilities: capabilities.unwrap_or_default(),
        account,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::lowest(),
        wants: Wants::Ready,
    };
    Wish {
        tenant: caller.tenant.clone(),
        actor: call.actor(),
        claimant,
        target: Target::Next { wait: None },
        lease: lease.map(|lease| lease.0),
        request: call.request(),
    }
}

impl Claim {
    fn wish(self, call: &Call) -> Wish {
        let mut wish = wish(call, self.capabilities, self.account, self.lease);
        wish.claimant.project = self.project;
        wish.claimant.stage = self.stage;
        if let Some(least) = self.priority_min {
            wish.claimant.priority_min = least;
        }
        if self.blocked.unwrap_or(false) {
            wish.claimant.wants = Wants::ReadyOrBlocked;
        }
        let next = Target::Next { wait: self.wait.map(|wait| wait.0) };
        wish.target = self.task.map_or(next, Target::Task);
        wish
    }
}
