//! A worker comes, for the first time or again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use baton_domain::Refusal;
use baton_domain::command::{Command, Supervisor};
use baton_domain::ids::AttemptId;
use baton_domain::run::Purpose;
use baton_domain::text::{Code, Text};
use baton_store::{Actor, Committed, Error};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::identity::Caller;
use crate::points::{self, Point};
use crate::problem::Problem;
use crate::protocol::{
    Alive, Fenced, Hello, Renewal, Renewed, Resume, SLOTS_MAX, Standing, VERSION, Welcome,
};
use crate::tokens::{Pass, Speaker};

use super::post::{Credits, Mine, Post, Present, standing, stopping};
use super::{Mouth, Relay, Seated, hello_problem, too_slow};
use crate::roster::Place;

/// How often a worker shows that it lives, in milliseconds: often enough for the shortest lease that
/// is of use, and for a person who wonders.
const HEARTBEAT_MS: u64 = 20_000;
/// Places that are remembered for what was not heard of; the rest is settled by the end of its lease.
const PLACES_MAX: usize = 4_096;

/// The number of a connection, how it learns that its place is taken, and what its worker was not heard of.
type Taken = (u64, watch::Receiver<bool>, BTreeSet<AttemptId>);

impl Relay {
    /// Takes a worker in: its place, its attempts as they stand, and whoever claims for it.
    pub(super) async fn seat(
        self: &Arc<Self>,
        caller: Caller,
        hello: Hello,
        mouth: Mouth,
    ) -> Result<Present, Problem> {
        if hello.protocol != VERSION {
            let rule = format!("must be {VERSION}: one of the two is too old");
            return Err(hello_problem("protocol", &rule));
        }
        let ours = self.engine().deployment();
        if hello.deployment.as_ref().is_some_and(|theirs| *theirs != ours) {
            let detail =
                format!("this is the installation {ours}, and the worker has attempts of another");
            return Err(Problem::new("wrong_place", detail));
        }
        let place = Place {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            machine: hello.machine,
        };
        let (number, gone, unheard) = self.take_place(&place, hello.process)?;
        let origin = Text::new("origin", format!("worker {}", place.machine));
        let origin = origin.expect("the name of a machine leaves room for a word");
        let actor =
            Actor { principal: caller.principal.clone(), kind: caller.kind, origin, trace: None };
        let present = Present(Arc::new(Post {
            relay: Arc::clone(self),
            caller,
            actor,
            place,
            number,
            capabilities: hello.capabilities.unwrap_or_default(),
            accounts: hello.accounts.unwrap_or_default(),
            agents: hello.agents.unwrap_or_default(),
            slots: hello.slots,
            credits: Credits::default(),
            gone,
            left: watch::Sender::new(false),
            mouth,
            mine: Mutex::default(),
        }));
        let post = &present.0;
        self.engine().roster().put(post.place.clone(), post.card(hello.version));
        points::pass(Point::WorkerSeated);
        let alive = hello.attempts.unwrap_or_default();
        let lost = unheard.into_iter().filter(|one| !alive.iter().any(|it| it.attempt == *one));
        let lost: BTreeSet<_> = lost.chain(post.strays(&alive).await?).collect();
        for attempt in lost {
            post.give_back(attempt).await;
        }
        let resume = post.resume(alive).await?;
        let welcome = Welcome {
            protocol: VERSION,
            server: Text::new("version", env!("CARGO_PKG_VERSION")).expect("a version is a text"),
            deployment: ours,
            tenant: Some(post.caller.tenant.clone()),
            incarnation: Text::new("incarnation", format!("{:x}", self.engine().incarnation()))
                .expect("sixteen digits are enough"),
            heartbeat_ms: HEARTBEAT_MS,
            resume,
        };
        post.say(welcome).map_err(|_| too_slow())?;
        tracing::info!(worker = %post.place.machine, tenant = %post.place.tenant, "a worker came");
        points::pass(Point::WorkerWelcomed);
        for purpose in [Purpose::Work, Purpose::Verify, Purpose::Merge] {
            tokio::spawn(Arc::clone(post).claim_for(purpose));
        }
        Ok(present)
    }

    /// Takes the place of whoever was there before, and what that one was not heard of. Two workers of one
    /// name would take each other's place for ever, and each would be told of the other's runs.
    fn take_place(&self, place: &Place, process: Option<Text<64>>) -> Result<Taken, Problem> {
        let mut posts = self.lock();
        let other = posts.get(place).and_then(|seated| seated.process.as_ref());
        if other.is_some() && process.is_some() && other != process.as_ref() {
            let name = &place.machine;
            let detail = format!(
                "another worker called {name} is connected: end it with `baton down`, or, if the data folder \
                 of one is a copy of the other's, remove the file worker/machine from it"
            );
            return Err(Problem::new("name_taken", detail).next("baton down"));
        }
        if posts.len() >= PLACES_MAX && !posts.contains_key(place) {
            posts.retain(|_, seated| seated.gone.receiver_count() > 0);
        }
        let before = posts.remove(place);
        let number = before.as_ref().map_or(0, |before| before.number + 1);
        let unheard = before.map(|before| {
            before.gone.send_replace(true);
            before.unheard
        });
        let (sender, gone) = watch::channel(false);
        let seated = Seated { number, process, gone: sender, unheard: BTreeSet::new() };
        posts.insert(place.clone(), seated);
        Ok((number, gone, unheard.unwrap_or_default()))
    }

    /// The token of an attempt, if it is one of ours and the worker's.
    fn pass(&self, caller: &Caller, alive: &Alive) -> Option<Pass> {
        let token = alive.token.as_ref()?;
        let pass = self.engine().keyring().verify(token.reveal(), &caller.tenant).ok()?;
        let own = pass.task == alive.attempt.task
            && pass.proof().attempt() == alive.attempt.number
            && pass.speaker == Speaker::Supervisor;
        own.then_some(pass)
    }
}

impl Post {
    /// How the attempts stand that the worker says it has. Their leases are renewed: it lives.
    async fn resume(self: &Arc<Self>, alive: Vec<Alive>) -> Result<Vec<Resume>, Problem> {
        let order: Vec<_> = alive.iter().map(|alive| alive.attempt).collect();
        for alive in alive {
            let pass = self.relay.pass(&self.caller, &alive);
            let mine = Mine { pass, question: alive.question, ..Mine::default() };
            self.remember(alive.attempt, mine);
        }
        let mut renewed = self.renew_all(&order).await?;
        let mut resume = vec![];
        for attempt in order {
            let Some(answer) = renewed.remove(&attempt) else { continue };
            let stands = match answer {
                Ok(committed) => stands(attempt, &committed),
                // One answer for an attempt that is over, that never was, and of somebody else.
                Err(_) => Resume {
                    attempt,
                    applied_seq: 0,
                    lease_ms: None,
                    stop: None,
                    fenced: Some(lost()),
                    stands: None,
                },
            };
            if let Some(mine) = self.lock().get_mut(&attempt) {
                mine.told.stop = stands.stop.is_some();
                mine.told.fenced = stands.fenced.is_some();
                // What is to be checked is told by itself.
                mine.told.stands = stands.stands.filter(|how| *how != Standing::Verifying);
            }
            resume.push(stands);
        }
        Ok(resume)
    }

    /// Renews the leases of the attempts that live.
    pub(super) async fn renew(self: &Arc<Self>, attempts: Vec<AttemptId>) -> Result<(), Problem> {
        let mut leases = vec![];
        for (attempt, answer) in self.renew_all(&attempts).await? {
            self.heard_of(attempt);
            match answer {
                Ok(committed) => {
                    leases
                        .extend(lease_ms(&committed).map(|lease_ms| Renewal { attempt, lease_ms }));
                    if let Some(flow) = &committed.task {
                        self.tell(flow).await?;
                    }
                }
                Err(_) => {
                    self.say(Fenced { attempt, code: lost() }).map_err(|_| too_slow())?;
                }
            }
        }
        self.say(Renewed { leases }).map_err(|_| too_slow())
    }

    /// Renews leases side by side: they share the commits of the store. That one is lost is an answer; if the
    /// store is in trouble, nothing is known, and the worker asks again.
    async fn renew_all(
        self: &Arc<Self>,
        attempts: &[AttemptId],
    ) -> Result<BTreeMap<AttemptId, Result<Committed, ()>>, Problem> {
        let attempts: BTreeSet<_> = attempts.iter().take(SLOTS_MAX).copied().collect();
        let mut renewing = JoinSet::new();
        for attempt in attempts {
            let post = Arc::clone(self);
            renewing.spawn(async move {
                let renew = Supervisor::Renew { lease: None };
                let renew = Command::Supervisor(post.proof(attempt), renew);
                (attempt, post.submit(attempt, vec![renew]).await)
            });
        }
        let mut renewed = BTreeMap::new();
        while let Some(done) = renewing.join_next().await {
            let Ok((attempt, answer)) = done else { continue };
            let answer = match answer {
                Ok(committed) => Ok(committed),
                Err(Error::Refused(Refusal::LeaseLost | Refusal::NotFound)) => Err(()),
                // Whatever else is wrong is no reason to stop an agent.
                Err(error) => return Err(error.into()),
            };
            renewed.insert(attempt, answer);
        }
        if !renewed.is_empty() {
            points::pass(Point::LeasesRenewed);
        }
        Ok(renewed)
    }
}

fn stands(attempt: AttemptId, committed: &Committed) -> Resume {
    Resume {
        attempt,
        applied_seq: committed.lease.as_ref().map_or(0, |lease| lease.heard),
        lease_ms: lease_ms(committed),
        stop: committed.task.as_ref().and_then(|flow| stopping(flow, attempt)),
        fenced: None,
        stands: committed.task.as_ref().and_then(|flow| standing(flow, attempt)),
    }
}

/// How long a lease lives that was renewed with this. One that was not is not told: whoever owns the agent
/// would count on it.
fn lease_ms(committed: &Committed) -> Option<u64> {
    let lease = committed.lease.as_ref()?;
    (lease.expires_at >= committed.at + lease.length).then_some(lease.length.0)
}

/// Why an attempt is told to stop that does not hold its run: always in the same words.
pub(super) fn lost() -> Code {
    Text::new("code", "lease_lost").expect("a code is a short word")
}
