//! How an attempt begins: its place is made, its work is looked at, its lease is renewed, and then its agent is
//! started.

use std::io;
use std::sync::Arc;

use baton_domain::text::{Code, Reason, Text};
use baton_domain::time::Millis;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::client::Failure;
use crate::protocol::Bind;
use crate::shim::{self, Found, Spec, Status};

use super::super::bind::Terms;
use super::super::course::{Broken, Input, Why};
use super::super::ground::Ground;
use super::super::prepare::{Error, Furnished};
use super::{Driver, conversation, now, wall};

/// What a reason may say.
const REASON_BYTES_MAX: usize = 1_000;
/// How long a run rests whose project is not on this machine: another worker may take it then.
const ELSEWHERE: Millis = Millis::minutes(5);

/// What became of a preparation.
type Prepared = Result<Result<Furnished, Error>, JoinError>;
/// One that is under way.
type Preparing = JoinHandle<Result<Furnished, Error>>;

impl Driver {
    /// Prepares and launches. Before that, the work is looked at as it is, and the lease is renewed; what the
    /// server says meanwhile is heard.
    pub(super) async fn begin(&mut self) {
        let mut preparing = self.prepare();
        let mut prepared = None;
        while prepared.is_none() || self.keeping.is_some() || self.fence <= now() || self.is_unbound
        {
            let due = self.due();
            let kept = async {
                match &mut self.keeping {
                    Some((_, keeping)) => keeping.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                done = &mut preparing, if prepared.is_none() => {
                    prepared = self.furnished(done).await;
                    if prepared.is_none() {
                        return;
                    }
                }
                taken = kept => self.kept(taken).await,
                word = self.words.recv() => match word {
                    Some(word) => self.hear(word).await,
                    None => self.over = true,
                },
                () = sleep(due) => self.feed(Input::Tick, now()).await,
            }
            if self.over || self.ended {
                return if prepared.is_none() {
                    self.leave(preparing)
                };
            }
        }
        let Some(spec) = prepared else { return };
        self.feed(Input::Prepared, now()).await;
        if self.over || self.ended {
            return;
        }
        self.started = true;
        // Leases are renewed while an attempt is prepared, too.
        let spec = Spec { fence_boot_ms: self.fence.0, ..spec };
        let Err(error) = self.launch(&spec).await else { return };
        // Whatever went wrong, the agent may have begun by then: only its folder tells.
        match shim::adopt(&self.place).await {
            Ok(Found::Over(Status::NotStarted { .. })) => {
                self.started = false;
                let why = format!("its process cannot be started: {error}");
                self.feed(Input::Refused(lost("launch_failed", &why)), now()).await;
            }
            found => self.take(found).await,
        }
    }

    async fn launch(&mut self, spec: &Spec) -> io::Result<()> {
        let right = self.ground.as_mut().map(Ground::lend).transpose()?;
        let handle = shim::launch(&self.place, spec, right).await?;
        self.attach(handle).await;
        Ok(())
    }

    fn prepare(&self) -> Preparing {
        let (premises, card) = (Arc::clone(&self.premises), self.card.clone());
        spawn_blocking(move || premises.furnish(card))
    }

    /// Everything is there that its agent needs, or it is told what is not.
    async fn furnished(&mut self, prepared: Prepared) -> Option<Spec> {
        let broken = match prepared {
            Ok(Ok(Furnished { card, spec, ground, terms })) => {
                (self.card, self.ground) = (card, Some(ground));
                if let Some(terms) = terms
                    && let Err(why) = self.bind(&terms).await
                {
                    self.feed(Input::Refused(lost("not_bound", &why)), now()).await;
                    return None;
                }
                // It may have another home than it was thought to have, and no conversation in it. Some
                // programs are given their tools in the conversation, so this follower needs them as well.
                let tools = self.premises.tools(&self.card);
                self.follower = self.card.program().follow(&self.card.turn(Some(&tools)));
                self.course.goes_on_with(conversation(&self.card));
                // What is there before the agent is what its work is compared with.
                self.keep(Why::Timer);
                return Some(spec);
            }
            // Nothing is started, and the server says what becomes of it.
            Ok(Err(Error::Contract(why))) => {
                self.unbound(&why);
                return None;
            }
            Ok(Err(error)) => broken(&error),
            Err(error) => lost("not_prepared", &error.to_string()),
        };
        self.feed(Input::Refused(broken), now()).await;
        None
    }

    /// Tells what the project asks for; the server has the schemas before that.
    async fn bind(&mut self, terms: &Terms) -> Result<(), String> {
        let attempt = self.card.dispatch.attempt;
        if !terms.schemas.is_empty() {
            let told = |failure: Failure| failure.body["detail"].to_string();
            let client = self.premises.client().map_err(told)?;
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            for (digest, bytes) in &terms.schemas {
                let file = folder.path().join(digest.as_str());
                std::fs::write(&file, bytes).map_err(|error| error.to_string())?;
                let name = digest.as_str().parse().map_err(|_| "no digest".to_owned())?;
                client.put_blob(&file, &name).await.map_err(told)?;
            }
        }
        self.is_unbound = true;
        let told = self.link.tell(terms.frame(attempt));
        told.map(drop).map_err(|error| error.to_string())
    }

    /// Tells that nobody can tell what the project asks for.
    fn unbound(&mut self, why: &str) {
        let attempt = self.card.dispatch.attempt;
        let (lines, wrong) = (vec![], Some(reason(why)));
        let frame = Bind { attempt, seq: 0, base: None, lines, protected: None, wrong };
        if let Err(error) = self.link.tell(frame) {
            tracing::error!(%attempt, %error, "a report is lost: too many wait");
        }
    }

    /// What is being prepared is not needed: its folder stays for the next attempt, and what would have signed
    /// the agent in goes.
    fn leave(&self, preparing: Preparing) {
        let premises = Arc::clone(&self.premises);
        tokio::spawn(async move {
            if let Ok(Ok(Furnished { card, ground, .. })) = preparing.await {
                let cleared = spawn_blocking(move || {
                    premises.clear(&card);
                    drop(ground);
                });
                drop(cleared.await);
            }
        });
    }
}

fn broken(error: &Error) -> Broken {
    match error {
        Error::NoAgent(_) | Error::File { .. } => lost("not_prepared", &error.to_string()),
        Error::Setup { .. } | Error::Settings { .. } => lost("setup_failed", &error.to_string()),
        Error::Worktree { .. } => lost("no_worktree", &error.to_string()),
        Error::Elsewhere(_) => {
            let until = Some(wall() + ELSEWHERE);
            Broken::Back { reason: reason(&error.to_string()), until }
        }
        Error::Contract(why) => lost("not_bound", why),
        Error::Unseen { .. } => lost("unseen_code", &error.to_string()),
        Error::NoHandoff(..) => lost("no_handoff", &error.to_string()),
        Error::Misfit(_) => lost("misused", &error.to_string()),
    }
}

fn lost(code: &str, why: &str) -> Broken {
    let code = Code::new("code", code).expect("a code is a short word");
    Broken::Lost { code, reason: reason(why) }
}

/// A sentence, as much of it as a reason may say.
#[must_use]
pub fn reason(why: &str) -> Reason {
    let cut = &why[..why.floor_char_boundary(REASON_BYTES_MAX)];
    let usual = || Text::new("reason", "it cannot be begun").expect("a plain sentence");
    Text::new("reason", cut).unwrap_or_else(|_| usual())
}
