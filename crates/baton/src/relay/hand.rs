//! Work for a worker: as long as it has room, somebody waits for a run on its behalf.

use std::sync::Arc;
use std::time::Duration;

use baton_domain::Refusal;
use baton_domain::ids::{Account, Label, RunId};
use baton_domain::lane::{Claimant, Offer, Wants};
use baton_domain::pool::PoolName;
use baton_domain::project::Project;
use baton_domain::run::{Mode, Purpose, Run};
use baton_domain::task::Priority;
use baton_domain::text::Line;
use baton_store::read::LeaseRow;
use baton_store::{Error, TaskRow};
use tokio::time::sleep;

use crate::call::Call;
use crate::engine::{Claimed, Target, Tokens, Wish};
use crate::operations::{all_pools, find_project, newest_work, packet};
use crate::points::{self, Point};
use crate::problem::Problem;
use crate::protocol::{
    Caps, Conversation, Deadlines, Dispatch, Down, Offered, Packet, Secret, Ticket, Turn, write,
};
use crate::train::subject;
use crate::views::HandoffView;

use super::post::{Mine, Post, ToldSoFar};
use super::proof::asked;

/// How long one wait for work lasts: then the worker's accounts are looked at again.
const WAIT: Duration = Duration::from_secs(60);
/// The same while all of them are shut.
const WAIT_SHUT: Duration = Duration::from_secs(2);
/// How long to wait after a claim that the store could not carry out, or a run that could not be handed over.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

impl Post {
    /// Claims for the worker until it goes. Nothing is given up half-way: what was granted is handed
    /// over or given back.
    pub(super) async fn claim_for(self: Arc<Self>, purpose: Purpose) {
        let mut credits = self.credits.of(purpose).subscribe();
        loop {
            tokio::select! {
                biased;
                () = self.over() => return,
                waited = credits.wait_for(|credits| *credits > 0) => if waited.is_err() { return },
            }
            match self.next(purpose).await {
                Ok((claimed, account)) => {
                    let less = |credits: &mut u16| *credits = credits.saturating_sub(1);
                    self.credits.of(purpose).send_modify(less);
                    self.hand_over(&claimed, account, purpose).await;
                }
                Err(Error::Refused(refusal)) if refusal.may_pass() => {}
                // Nothing more is handed out here.
                Err(Error::Stopped(_)) => return,
                Err(error) => {
                    tracing::warn!(%error, "no run can be claimed for a worker");
                    sleep(AFTER_TROUBLE).await;
                }
            }
        }
    }

    /// The next run for the worker, and the first of its accounts that is open, under which it was claimed.
    async fn next(&self, purpose: Purpose) -> Result<(Claimed, Option<Account>), Error> {
        let engine = self.relay.engine();
        let wants = match purpose {
            Purpose::Work => Wants::Ready,
            Purpose::Verify | Purpose::Probe => Wants::Submitted,
            Purpose::Merge => Wants::Merges,
        };
        if wants != Wants::Ready {
            let claimed = engine.claim_until(self.wish(None, wants), self.until(WAIT)).await;
            return claimed.map(|claimed| (claimed, None));
        }
        let (first, others) = match self.accounts.split_first() {
            None => (None, &[][..]),
            Some((first, others)) => (Some(first), others),
        };
        let own_bar = |refusal: &Refusal| {
            matches!(refusal, Refusal::HolderFull { .. } | Refusal::Paused { .. })
        };
        let mut wait = WAIT;
        if !others.is_empty() {
            for account in self.accounts.iter().map(Some) {
                match engine.claim(self.wish(account, wants)).await {
                    Err(Error::Refused(refusal)) if own_bar(&refusal) => {}
                    Err(Error::Refused(refusal)) if refusal.may_pass() => {
                        let claimed =
                            engine.claim_until(self.wish(account, wants), self.until(WAIT)).await;
                        return claimed.map(|claimed| (claimed, account.cloned()));
                    }
                    other => return other.map(|claimed| (claimed, account.cloned())),
                }
            }
            wait = WAIT_SHUT;
        }
        let first = if wait == WAIT_SHUT { self.soonest().await } else { first.cloned() };
        let claimed = engine.claim_until(self.wish(first.as_ref(), wants), self.until(wait)).await;
        claimed.map(|claimed| (claimed, first))
    }

    /// The account that opens first, of those that are all shut: whoever asks why nothing moves is told of it.
    async fn soonest(&self) -> Option<Account> {
        let call = self.relay.call(&self.caller, &self.actor);
        let told = all_pools(&call).await.map(|told| told.what).unwrap_or_default();
        let opens = |account: &&Account| {
            let pool = told.get(&PoolName::Account((*account).clone()));
            let until = pool.and_then(|pool| pool.shut.as_ref()?.until);
            until.map_or(i64::MAX, |until| until.0)
        };
        self.accounts.iter().min_by_key(opens).cloned()
    }

    async fn until(&self, longest: Duration) {
        tokio::select! {
            () = self.over() => {}
            () = sleep(longest) => {}
        }
    }

    fn wish(&self, account: Option<&Account>, wants: Wants) -> Wish {
        Wish {
            tenant: self.caller.tenant.clone(),
            actor: self.actor.clone(),
            claimant: Claimant {
                principal: self.caller.principal.clone(),
                person: false,
                mode: Mode::Supervised,
                capabilities: self.capabilities.clone(),
                account: account.cloned(),
                agents: self.offers(account),
                project: None,
                stage: None,
                priority_min: Priority::lowest(),
                wants,
            },
            target: Target::Next { wait: None },
            lease: None,
            request: None,
        }
    }

    /// The agents that the worker would run under this account: those that use it come first.
    fn offers(&self, account: Option<&Account>) -> Vec<Offer> {
        let (own, others): (Vec<_>, Vec<_>) = self
            .agents
            .iter()
            .partition(|agent| account.is_some() && agent.account.as_ref() == account);
        let offer = |agent: &Offered| Offer {
            role: agent.name.clone(),
            capabilities: agent.capabilities.clone().unwrap_or_default(),
        };
        own.into_iter().chain(others).map(offer).collect()
    }

    /// Hands a run over, or gives it back.
    async fn hand_over(&self, claimed: &Claimed, account: Option<Account>, purpose: Purpose) {
        points::pass(Point::RunClaimed);
        let attempt = claimed.attempt;
        let dispatch = match self.dispatch(claimed, account).await {
            Ok(dispatch) => dispatch,
            Err(problem) => {
                tracing::warn!(%attempt, detail = problem.detail(), "a run cannot be handed over");
                self.give_back(attempt).await;
                // The worker never hears of it, and has its room still; the same run is tried again soon.
                self.add_credit(1, purpose);
                return self.until(AFTER_TROUBLE).await;
            }
        };
        let keyring = self.relay.engine().keyring();
        let pass = keyring.verify(dispatch.token.reveal(), &self.caller.tenant).ok();
        let checkpoints = Some(claimed.flow.checkpoints);
        let told = ToldSoFar { checkpoints, ..ToldSoFar::default() };
        self.remember(attempt, Mine { pass, told, ..Mine::default() });
        if !self.note_unheard(claimed) {
            return self.give_back(attempt).await;
        }
        // Frames of a worker that has gone are dropped with its connection: it comes again without
        // having heard of this attempt, or its lease ends.
        if self.mouth.hands.send(dispatch.into()).await.is_err() {
            self.heard_of(attempt);
            return self.give_back(attempt).await;
        }
        points::pass(Point::RunHanded);
    }

    /// Notes that a run is on its way; false if nobody is there to get it.
    fn note_unheard(&self, claimed: &Claimed) -> bool {
        let mut posts = self.relay.lock();
        let own = |number: u64| number == self.number && !*self.left.borrow();
        match posts.get_mut(&self.place) {
            Some(seated) if own(seated.number) => {
                seated.unheard.insert(claimed.attempt);
                true
            }
            Some(_) | None => false,
        }
    }

    async fn dispatch(
        &self,
        claimed: &Claimed,
        account: Option<Account>,
    ) -> Result<Dispatch, Problem> {
        let call = self.relay.call(&self.caller, &self.actor);
        let flow = &claimed.flow;
        let row = match &claimed.brief {
            Some(brief) => TaskRow {
                flow: Arc::clone(flow),
                brief: brief.clone(),
                lease: Some(LeaseRow {
                    attempt: claimed.attempt.number,
                    holder: self.caller.principal.clone(),
                    expires_at: claimed.expires_at,
                }),
            },
            None => call.task(flow.id).await?,
        };
        let run = flow.run.as_ref().ok_or_else(Problem::not_found)?;
        let held = run.held().ok_or_else(Problem::not_found)?;
        let Tokens::Supervised { supervisor, agent } = &claimed.tokens else {
            return Err(Problem::new("internal", "a worker was given the token of a solo agent"));
        };
        let project = find_project(&call, &flow.project).await?.what;
        let id = RunId { task: flow.id, number: run.number };
        let fresh = run.tally.tries == 0 && run.previous.is_none();
        let stage = project.stage(&run.stage);
        let name = Line::new("project", flow.project.as_str())?;
        let dispatch = Dispatch {
            attempt: claimed.attempt,
            run: id,
            project: flow.project.clone(),
            root: project.root.clone(),
            stage: run.stage.clone(),
            worked_by: stage.map(|stage| stage.worked_by).unwrap_or_default(),
            needs: Some(flow.capabilities.clone()),
            purpose: held.purpose,
            turn: if fresh { Turn::Fresh } else { Turn::Continue },
            lease_ms: claimed.lease.0,
            deadlines: Deadlines::of(&flow.policy),
            caps: Some(Caps::of(&flow.policy)),
            account,
            session: conversation(&call, run, id).await?,
            work: newest_work(&call, flow.checkpoints, id).await?,
            head: flow.head.clone(),
            landing: ticket(&project, &row, held.purpose),
            asks: (held.purpose == Purpose::Verify).then(|| asked(&row.brief)),
            token: Secret::new(supervisor.reveal()),
            agent_token: Secret::new(agent.reveal()),
            env: Some([("BATON_PROJECT".to_owned(), name)].into()),
            packet: Packet(packet(&call, &row, id).await?),
        };
        Ok(fitting(dispatch))
    }
}

/// How a car of the train lands.
fn ticket(project: &Project, row: &TaskRow, purpose: Purpose) -> Option<Ticket> {
    let subject = subject(row.flow.kind, row.brief.title.as_str(), row.flow.id);
    let subject = Line::new("subject", subject).ok().filter(|_| purpose == Purpose::Merge)?;
    let (target, push) = (project.landing.target.clone(), project.landing.push.clone());
    Some(Ticket { target, subject, push })
}

/// The conversation of the attempt before, as its worker kept it last.
async fn conversation(call: &Call, run: &Run, id: RunId) -> Result<Option<Conversation>, Problem> {
    if run.checkpoints == 0 {
        return Ok(None);
    }
    let notes = call.run(id).await?.checkpoints;
    let is_kept = |name: &&Label| name.as_str() == Conversation::KEPT_AS;
    let kept = notes.iter().rev().find_map(|one| {
        let name = one.note.git.keys().find(is_kept)?;
        one.note.git.get(name)
    });
    Ok(kept.and_then(|line| Conversation::read(line.as_str())))
}

/// The same within the bounds of a message: the text says everything that the sections say.
fn fitting(dispatch: Dispatch) -> Dispatch {
    let whole = Down::from(dispatch.clone());
    if write(&whole).is_ok() {
        return dispatch;
    }
    let Packet(HandoffView { task, run, dropped, text, .. }) = dispatch.packet;
    let packet = Packet(HandoffView { task, run, sections: vec![], dropped, text });
    Dispatch { packet, ..dispatch }
}
