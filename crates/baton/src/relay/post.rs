//! One connection of a worker: who it is, and what is known of its attempts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_domain::command::{Command, Proof, Supervisor};
use baton_domain::ids::{Account, AttemptId, Capability};
use baton_domain::run::{Death, Outcome, Phase, Purpose};
use baton_domain::task::Flow;
use baton_domain::text::Text;
use baton_store::{Actor, Aim, Committed, Error, Order};
use tokio::sync::watch;

use crate::identity::Caller;
use crate::protocol::{Down, Offered, SLOTS_MAX, Standing, Verdict};
use crate::tokens::Pass;

use super::{Mouth, Relay};
use crate::roster::{Card, Place};

/// Attempts that one connection remembers: those that it may hold, and as many again three times over
/// that are over and not settled yet.
const MINE_MAX: usize = 4 * SLOTS_MAX;

/// Checks, and merges, that one worker may have at once.
const CHORES_MAX: u16 = 32;

/// One connection of a worker.
pub(super) struct Post {
    pub(super) relay: Arc<Relay>,
    pub(super) caller: Caller,
    pub(super) actor: Actor,
    pub(super) place: Place,
    pub(super) number: u64,
    pub(super) capabilities: std::collections::BTreeSet<Capability>,
    pub(super) accounts: Vec<Account>,
    pub(super) agents: Vec<Offered>,
    pub(super) slots: u16,
    pub(super) credits: Credits,
    pub(super) gone: watch::Receiver<bool>,
    /// Resolves for whoever works for the connection once it has ended.
    pub(super) left: watch::Sender<bool>,
    pub(super) mouth: Mouth,
    pub(super) mine: Mutex<BTreeMap<AttemptId, Mine>>,
}

/// Room that a worker has, by what for.
#[derive(Debug, Default)]
pub(super) struct Credits {
    work: watch::Sender<u16>,
    checks: watch::Sender<u16>,
    merges: watch::Sender<u16>,
}

impl Credits {
    /// Room for this; a probe is a check.
    pub(super) fn of(&self, purpose: Purpose) -> &watch::Sender<u16> {
        match purpose {
            Purpose::Work => &self.work,
            Purpose::Verify | Purpose::Probe => &self.checks,
            Purpose::Merge => &self.merges,
        }
    }
}

/// A worker that is there. When this is gone, it has gone, however that came about.
pub(super) struct Present(pub(super) Arc<Post>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What a connection knows of an attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Mine {
    /// What proves it, also once it is over.
    pub(super) pass: Option<Pass>,
    /// The question that its agent waits on.
    pub(super) question: Option<Text<64>>,
    /// What the worker was told already.
    pub(super) told: ToldSoFar,
}

/// What a worker was told of an attempt over this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldSoFar {
    /// That it must stop.
    pub(super) stop: bool,
    /// That it holds the run no longer.
    pub(super) fenced: bool,
    /// How its run stands.
    pub(super) stands: Option<Standing>,
    /// The answer that was given at this version of its task.
    pub(super) answer: Option<u64>,
    /// How many checkpoints its task had when that was last looked at.
    pub(super) checkpoints: Option<u32>,
}

/// Too much waits to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full;

impl Post {
    /// Says something, unless the worker has left too much.
    pub(super) fn say(&self, frame: impl Into<Down>) -> Result<(), Full> {
        self.mouth.says.try_send(frame.into()).map_err(|_| Full)
    }

    /// Resolves once a later connection has the place of this one.
    pub(super) async fn displaced(&self) {
        let mut gone = self.gone.clone();
        // A sender that is gone went with the place.
        drop(gone.wait_for(|gone| *gone).await);
    }

    /// Resolves once nobody is there to be handed anything.
    pub(super) async fn over(&self) {
        let mut left = self.left.subscribe();
        tokio::select! {
            () = self.displaced() => {}
            _ = left.wait_for(|left| *left) => {}
        }
    }

    /// The worker has gone. Its leases go on, and what it was not heard of stays noted.
    fn leave(&self) {
        self.left.send_replace(true);
        let mut posts = self.relay.lock();
        let own = posts.get_mut(&self.place).filter(|seated| seated.number == self.number);
        let Some(seated) = own else { return };
        seated.process = None;
        self.relay.engine().roster().remove(&self.place);
        if seated.unheard.is_empty() {
            posts.remove(&self.place);
        }
    }

    /// What is told of it to whoever asks who works here.
    pub(super) fn card(&self, version: Text<64>) -> Card {
        let now = self.relay.engine().now();
        Card {
            version,
            slots: self.slots,
            agents: self.agents.iter().map(|agent| agent.name.clone()).collect(),
            capabilities: self.capabilities.clone(),
            accounts: self.accounts.clone(),
            came_at: now,
            heard_at: now,
        }
    }

    /// More runs may be handed over.
    pub(super) fn add_credit(&self, n: u16, purpose: Purpose) {
        let most = match purpose {
            Purpose::Work => self.slots,
            // They have no agents, so they take none of the places.
            Purpose::Verify | Purpose::Probe | Purpose::Merge => CHORES_MAX,
        };
        let add = |credits: &mut u16| *credits = credits.saturating_add(n).min(most);
        self.credits.of(purpose).send_modify(add);
    }

    /// Whether the worker has the token of an attempt. Others may have keys of the same principal.
    pub(super) fn has_token(&self, attempt: AttemptId) -> bool {
        self.lock().get(&attempt).is_some_and(|mine| mine.pass.is_some())
    }

    /// What proves that the worker speaks for an attempt: its token, if it ever showed it here.
    pub(super) fn proof(&self, attempt: AttemptId) -> Proof {
        match self.lock().get(&attempt).and_then(|mine| mine.pass.clone()) {
            Some(pass) => pass.proof(),
            None => {
                Proof::Caller { attempt: attempt.number, principal: self.caller.principal.clone() }
            }
        }
    }

    /// Carries out what the worker says of an attempt.
    pub(super) async fn submit(
        &self,
        attempt: AttemptId,
        says: Vec<Command>,
    ) -> Result<Committed, Error> {
        self.relay.engine().submit(self.order(Aim::Task(attempt.task, says))).await
    }

    pub(super) fn order(&self, aim: Aim) -> Order {
        Order { tenant: self.caller.tenant.clone(), actor: self.actor.clone(), aim, request: None }
    }

    /// Gives a run back that the worker never had in its hands, so that nothing of it was started.
    pub(super) async fn give_back(&self, attempt: AttemptId) {
        let reason = Text::new("reason", "the worker could not be reached");
        let reason = reason.expect("a plain sentence is a text");
        let says = [
            Supervisor::Release { reason, until: None },
            Supervisor::Stopped { death: Death::NotStarted, survivor: false },
        ];
        let proof = self.proof(attempt);
        let says = says.map(|says| Command::Supervisor(proof.clone(), says));
        // If this fails, the lease ends by itself.
        if let Err(error) = self.submit(attempt, says.into()).await {
            tracing::warn!(%attempt, %error, "a run could not be given back");
        }
    }

    /// Remembers an attempt; if there are too many, one that is over is forgotten first.
    pub(super) fn remember(&self, attempt: AttemptId, mine: Mine) {
        let mut all = self.lock();
        if all.len() >= MINE_MAX && !all.contains_key(&attempt) {
            let over = all.iter().find(|(_, mine)| mine.told.fenced).map(|(over, _)| *over);
            match over {
                Some(over) => drop(all.remove(&over)),
                None => drop(all.pop_first()),
            }
        }
        all.insert(attempt, mine);
    }

    /// The worker has spoken of an attempt, so it has it.
    pub(super) fn heard_of(&self, attempt: AttemptId) {
        if let Some(seated) = self.relay.lock().get_mut(&self.place) {
            seated.unheard.remove(&attempt);
        }
    }

    /// Whoever panicked while it held the lock left the map whole: every change is one step.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptId, Mine>> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What will count once the attempt is dead, if it is being stopped.
pub(super) fn stopping(flow: &Flow, attempt: AttemptId) -> Option<Verdict> {
    let held = flow.run.as_ref()?.held().filter(|held| held.attempt == attempt.number)?;
    let Phase::Stopping { verdict, .. } = &held.phase else { return None };
    Some(match verdict {
        Outcome::Completed { .. } => Verdict::Completed,
        Outcome::Failed { .. } => Verdict::Failed,
        Outcome::Blocked { .. } => Verdict::Blocked,
        Outcome::Released { .. } => Verdict::Released,
        Outcome::TimedOut { .. } => Verdict::TimedOut,
        Outcome::Lost => Verdict::Lost,
        Outcome::Cancelled => Verdict::Cancelled,
        Outcome::EndedWithoutResult => Verdict::EndedWithoutResult,
    })
}

/// How the run of an attempt stands that goes on.
pub(super) fn standing(flow: &Flow, attempt: AttemptId) -> Option<Standing> {
    let held = flow.run.as_ref()?.held().filter(|held| held.attempt == attempt.number)?;
    match held.phase {
        Phase::Leased | Phase::Working
            if held.purpose == Purpose::Merge && !flow.holds.are_none() =>
        {
            Some(Standing::Held)
        }
        Phase::Leased | Phase::Working => Some(Standing::Working),
        Phase::WaitingInput(_) => Some(Standing::Waiting),
        Phase::Verifying { .. } => Some(Standing::Verifying),
        Phase::Stopping { .. } => None,
    }
}

/// Whether the attempt holds the run.
pub(super) fn holds(flow: &Flow, attempt: AttemptId) -> bool {
    let held = flow.run.as_ref().and_then(|run| run.held());
    flow.id == attempt.task && held.is_some_and(|held| held.attempt == attempt.number)
}
