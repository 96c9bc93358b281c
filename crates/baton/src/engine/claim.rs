//! Claiming: mint a nonce, ask for the next run, and wait for one if there is none.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::Refusal;
use baton_domain::command::{Claim, Command, NewTask};
use baton_domain::ids::{AttemptId, Nonce, TaskId, TenantId};
use baton_domain::lane::Claimant;
use baton_domain::run::Mode;
use baton_domain::scene::Lease;
use baton_domain::task::{Brief, Flow};
use baton_domain::time::{Millis, Timestamp};
use baton_store::{Actor, Aim, Committed, Error, Order, Request};
use tokio::time::sleep;
use tracing::field::{Empty, display};

use crate::chance::nonce;
use crate::metrics::Wake;
use crate::tokens::{Speaker, Token};

use super::Engine;

/// How long a waiting claimer goes without looking, should its bell be lost.
const POLL: Duration = Duration::from_secs(1);

/// With many waiters each looks less often, so that all of them together look at most two hundred
/// times a second.
const POLL_PER_WAITER: Duration = Duration::from_millis(5);

/// The longest that a claimer may wait: longer ones ask again, so that the dead do not queue.
pub const CLAIM_WAIT_MAX: Millis = Millis::minutes(1);

/// A wish for work.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whose data.
    pub tenant: TenantId,
    /// Who asks, as the server knows it.
    pub actor: Actor,
    /// Who wants work, and which.
    pub claimant: Claimant,
    /// What it wants to hold.
    pub target: Target,
    /// How long without renewal; the task's own choice if absent.
    pub lease: Option<Millis>,
    /// So that a repeated request is carried out once.
    pub request: Option<Request>,
}

/// What a claimer wants to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Whatever is next for it.
    Next {
        /// How long it waits for something if there is nothing; a minute at most.
        wait: Option<Millis>,
    },
    /// This task, now or not at all.
    Task(TaskId),
}

/// A run in somebody's hands.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// When.
    pub at: Timestamp,
    /// The position of its entry.
    pub position: Option<u64>,
    /// The task, held.
    pub flow: Arc<Flow>,
    /// The fence.
    pub attempt: AttemptId,
    /// When the lease ends without renewal.
    pub expires_at: Timestamp,
    /// How long the lease lives after each renewal.
    pub lease: Millis,
    /// What proves the attempt; shown once, here.
    pub tokens: Tokens,
    /// What the task is about, if the store had it at hand.
    pub brief: Option<Brief>,
    /// Whether the same request had been carried out before.
    pub replayed: bool,
}

/// What proves an attempt, for whoever may speak in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// One token for all that a solo agent says.
    Solo(Token),
    /// One for each speaker: only the agent's goes into the agent's environment.
    Supervised {
        /// For the worker.
        supervisor: Token,
        /// For the agent.
        agent: Token,
    },
}

impl Engine {
    /// Takes a run, or waits for one.
    ///
    /// A claim that is given up half-way may still be carried out, like any order; the same
    /// request key tells.
    #[tracing::instrument(
        level = "debug",
        skip_all,
        fields(tenant = %wish.tenant, holder = %wish.claimant.principal, task = Empty)
    )]
    pub async fn claim(&self, wish: Wish) -> Result<Claimed, Error> {
        let nonce = nonce(self.chance.as_ref());
        let claimed = match wish.target {
            Target::Next { wait: Some(wait) } => {
                let wait = Duration::from_millis(wait.min(CLAIM_WAIT_MAX).0);
                self.wait(&wish, nonce, sleep(wait)).await
            }
            Target::Next { wait: None } | Target::Task(_) if self.waiters.is_closed() => {
                Err(Error::Stopped("no more work is handed out".into()))
            }
            Target::Next { wait: None } | Target::Task(_) => self.look(&wish, nonce).await,
        }?;
        tracing::Span::current().record("task", display(claimed.flow.id));
        Ok(claimed)
    }

    /// Takes the next run, or waits for one until `end` resolves. Whoever has to stop waiting lets it
    /// resolve instead of giving the claim up: then what was granted is known.
    pub async fn claim_until(
        &self,
        wish: Wish,
        end: impl Future<Output = ()> + Send,
    ) -> Result<Claimed, Error> {
        self.wait(&wish, nonce(self.chance.as_ref()), end).await
    }

    /// Makes a task and takes its run in one step, for an agent that brings its own goal. What the
    /// wish is aimed at does not matter.
    #[tracing::instrument(
        level = "debug",
        skip_all,
        fields(tenant = %wish.tenant, holder = %wish.claimant.principal, task = Empty)
    )]
    pub async fn start(&self, wish: Wish, task: NewTask) -> Result<Claimed, Error> {
        if self.waiters.is_closed() {
            return Err(Error::Stopped("no more work is handed out".into()));
        }
        let claim = wish.claim(nonce(self.chance.as_ref()));
        let project = task.project.clone();
        let create = Command::Create(Box::new(task));
        let aim = Aim::Birth(project, vec![create, Command::Claim(claim)]);
        let claimed = self.claimed(&wish, self.submit(wish.order(aim)).await?)?;
        tracing::Span::current().record("task", display(claimed.flow.id));
        Ok(claimed)
    }

    /// Looks, waits until there is a reason to look again, and so on to the end of the wait.
    async fn wait(
        &self,
        wish: &Wish,
        nonce: Nonce,
        end: impl Future<Output = ()> + Send,
    ) -> Result<Claimed, Error> {
        let mut ticket = self.waiters.join(&wish.tenant, &wish.claimant)?;
        let mut end = pin!(end);
        let mut polled = false;
        loop {
            ticket.look();
            match self.look(wish, nonce).await {
                Ok(claimed) => {
                    ticket.found(&claimed.flow);
                    if polled {
                        self.waiters.wakes().woken(Wake::Poll);
                    }
                    return Ok(claimed);
                }
                Err(Error::Refused(refusal)) if refusal.may_pass() => {
                    ticket.found_nothing(&wish.claimant, &refusal);
                    tokio::select! {
                        biased;
                        () = &mut end => return Err(Error::Refused(refusal)),
                        woken = ticket.woken() => woken.map(|()| polled = false)?,
                        () = sleep(self.pause()) => polled = true,
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn pause(&self) -> Duration {
        let waiting = u32::try_from(self.waiters.len()).unwrap_or(u32::MAX);
        POLL.max(POLL_PER_WAITER.saturating_mul(waiting))
    }

    /// Asks once.
    async fn look(&self, wish: &Wish, nonce: Nonce) -> Result<Claimed, Error> {
        let claim = wish.claim(nonce);
        let aim = match wish.target {
            Target::Next { .. } => Aim::Next(claim),
            Target::Task(task) => Aim::Task(task, vec![Command::Claim(claim)]),
        };
        self.claimed(wish, self.submit(wish.order(aim)).await?)
    }

    /// What the claimer gets. A replay finds the task as it is now: if somebody else holds it, or
    /// nobody, then this attempt is over and has no tokens any more.
    fn claimed(&self, wish: &Wish, committed: Committed) -> Result<Claimed, Error> {
        let Committed { at, position, task, lease, brief, replayed, .. } = committed;
        let held = |flow: &Flow, lease: &Lease| {
            let held = flow.run.as_ref().and_then(|run| run.held());
            lease.holder == wish.claimant.principal
                && held.is_some_and(|held| held.attempt == lease.attempt)
        };
        let (Some(flow), Some(lease)) = (task, lease) else {
            return Err(Refusal::LeaseLost.into());
        };
        if !held(&flow, &lease) {
            return Err(Refusal::LeaseLost.into());
        }
        let token =
            |speaker| self.keyring.mint(&wish.tenant, flow.id, lease.attempt, lease.nonce, speaker);
        let tokens = match wish.claimant.mode {
            Mode::Solo => Tokens::Solo(token(Speaker::Solo)),
            Mode::Supervised => Tokens::Supervised {
                supervisor: token(Speaker::Supervisor),
                agent: token(Speaker::Agent),
            },
        };
        Ok(Claimed {
            at,
            position,
            attempt: AttemptId { task: flow.id, number: lease.attempt },
            flow,
            expires_at: lease.expires_at,
            lease: lease.length,
            tokens,
            brief,
            replayed,
        })
    }
}

impl Wish {
    fn claim(&self, nonce: Nonce) -> Claim {
        Claim { claimant: self.claimant.clone(), nonce, lease: self.lease }
    }

    fn order(&self, aim: Aim) -> Order {
        Order {
            tenant: self.tenant.clone(),
            actor: self.actor.clone(),
            aim,
            request: self.request.clone(),
        }
    }
}
