//! Runs: what holders ask for.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::{Agent, Evidence, Note};
use baton_domain::ids::{Account, AttemptId, Capability, Label, ProjectId, StageName, TaskId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::run::Mode;
use baton_domain::task::Priority;
use baton_domain::text::{Cursor, Line, Summary};
use baton_store::order::Kind;

use crate::call::Call;
use crate::engine::{Claimed, Target, Tokens, Wish};
use crate::operation::{About, Answered, Hints, Level, Method, Operation, Speaker};
use crate::problem::Problem;
use crate::shape::{RunRef, Span, When, record};
use crate::views::{LeaseView, RunView, TaskView};

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
        capabilities: Option<BTreeSet<Capability>>,
        /// The account whose rate limit it will use.
        account: Option<Account>,
        /// Nothing less urgent.
        priority_min: Option<Priority>,
        /// Parked work that it may pick up, too.
        blocked: Option<bool>,
        /// How long to wait if there is nothing; a minute at most.
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
    }

    /// A note for the next holder to go on from.
    pub struct Checkpoint {
        /// Which run.
        run: RunRef,
        /// The attempt that speaks, if no claim token is shown.
        attempt: Option<u32>,
        /// How far it is.
        summary: Summary,
        /// Where to go on.
        cursor: Option<Cursor>,
        /// What shows it.
        evidence: Option<Vec<EvidenceWish>>,
        /// The state of the work tree: names such as base, head, bundle.
        git: Option<BTreeMap<Label, Line>>,
    }

    /// Something that shows how far a run is.
    pub struct EvidenceWish {
        /// What sort of thing.
        kind: Label,
        /// Where it is.
        reference: Line,
        /// What it shows.
        summary: Option<Line>,
    }
}

impl Operation for Claim {
    const ABOUT: About = About {
        noun: "run",
        verb: "claim",
        summary: "Take the next run that you may work on",
        method: Method::Post,
        path: "/v1/runs/claim",
        level: Level::Work,
        speaker: Speaker::Anyone,
        hints: Hints::ADDS,
        columns: &["task", "run", "attempt", "lease"],
    };

    type Answer = ClaimedView;

    async fn perform(self, call: &Call) -> Result<Answered<ClaimedView>, Problem> {
        let claimed = call.engine().claim(self.wish(call)).await?;
        let row = call.task(claimed.flow.id).await?;
        let task = TaskView::of(&row, call.engine().now());
        let run =
            RunView::live(&claimed.flow, row.lease.as_ref()).ok_or_else(Problem::not_found)?;
        let value = ClaimedView {
            task,
            run,
            attempt: claimed.attempt,
            lease: LeaseView { expires_at: When(claimed.expires_at) },
            renew_every: Span(baton_domain::time::Millis(claimed.lease.0 / 3)),
        };
        let as_of = claimed.position.map(|position| call.cursor(position));
        let (at, replayed) = (Some(claimed.at), claimed.replayed);
        Ok(Answered { value, as_of, at, replayed, secrets: secrets(&claimed) })
    }
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

impl Claim {
    fn wish(self, call: &Call) -> Wish {
        let caller = call.caller();
        let claimant = Claimant {
            principal: caller.principal.clone(),
            person: caller.kind == Kind::Person,
            mode: if caller.kind == Kind::Worker { Mode::Supervised } else { Mode::Solo },
            capabilities: self.capabilities.unwrap_or_default(),
            account: self.account,
            project: self.project,
            stage: self.stage,
            priority_min: self.priority_min.unwrap_or_else(Priority::lowest),
            wants: if self.blocked.unwrap_or(false) { Wants::ReadyOrBlocked } else { Wants::Ready },
        };
        let next = Target::Next { wait: self.wait.map(|wait| wait.0) };
        Wish {
            tenant: caller.tenant.clone(),
            actor: call.actor(),
            claimant,
            target: self.task.map_or(next, Target::Task),
            lease: self.lease.map(|lease| lease.0),
            request: call.request(),
        }
    }
}

impl Operation for Checkpoint {
    const ABOUT: About = About {
        noun: "run",
        verb: "checkpoint",
        summary: "Leave a note for the next holder to go on from",
        method: Method::Post,
        path: "/v1/runs/{run}/checkpoints",
        level: Level::Work,
        speaker: Speaker::Agent,
        hints: Hints::ADDS,
        columns: &["id", "state", "attempt"],
    };

    type Answer = RunView;

    async fn perform(self, call: &Call) -> Result<Answered<RunView>, Problem> {
        let evidence = |wish: EvidenceWish| Evidence {
            kind: wish.kind,
            reference: wish.reference,
            summary: wish.summary,
        };
        let note = Note {
            summary: self.summary,
            cursor: self.cursor,
            evidence: self.evidence.unwrap_or_default().into_iter().map(evidence).collect(),
            git: self.git.unwrap_or_default(),
        };
        let says = Agent::Checkpoint(Box::new(note));
        let done = call.as_agent(self.run, self.attempt, says).await?;
        call.run_view(&done)
    }
}
