//! Drives one attempt: feeds its course with everything that happens, and carries out what the course says.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::run::Death;
use baton_domain::time::Timestamp;
use baton_store::Clock as _;
use baton_store::clock::SystemClock;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::adapters::{Follower, Program, Reply};
use crate::clock::{awake_ms, boot_ms};
use crate::points::{self, Point};
use crate::protocol::{Ask, Caps, Conversation, Standing};
use crate::shim::spool::Reader;
use crate::shim::{self, Change, Found, Handle, Place, Proof, Status};
use crate::worktree;

use super::card::Card;
use super::check::Checking;
use super::courier::Courier;
use super::course::{At, BUSY_EVERY_MS, Course, Input, Said, Terms, Told, Why};
use super::ground::Ground;
use super::link::Link;
use super::log::Log;
use super::parcel::Kept;
use super::prepare::Premises;

pub use begin::reason;
pub use words::{Word, renewed, word_of, words_of};

mod acts;
mod begin;
mod checks;
mod follow;
mod words;

/// Words of the server for one attempt that wait; it says few.
pub const WORDS_MAX: usize = 64;
/// How often a shim is looked for that does not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many times: then it is ended by force, because nobody else guards its agent any more.
const LOOKS_MAX: u32 = 60;

/// How an attempt begins here.
pub enum Start {
    /// It was dispatched now.
    Fresh,
    /// A worker before this one began it, and left this.
    Back(Box<io::Result<Found>>),
}

/// One attempt.
pub struct Driver {
    premises: Arc<Premises>,
    link: Link,
    card: Card,
    words: mpsc::Receiver<Word>,
    course: Course,
    follower: Follower,
    log: Log,
    place: Place,
    ground: Option<Ground>,
    courier: Courier,
    /// A snapshot that is being taken, and why.
    keeping: Option<(Why, JoinHandle<Result<Kept, worktree::Error>>)>,
    /// Whether the last of its work is on its way to the server, which the end waits for.
    delivering: bool,
    /// The conversation that was told last, as it is kept.
    talked: Option<String>,
    handle: Option<Handle>,
    reader: Option<Reader>,
    /// Whether a process may have come to be.
    started: bool,
    /// Whether its end was fed.
    ended: bool,
    /// Whether that end proves nothing: something of it may still run.
    unproved: bool,
    /// Whether what it is told was fed as written.
    prompted: bool,
    /// What its agent was to be told and could not be: the oldest first.
    unsaid: VecDeque<Reply>,
    /// What was last written because the program waits for it, until that is in the spool.
    owed: Option<Vec<u8>>,
    slept: u64,
    /// Until when the agent may live, by the last renewal; what is launched begins with it, and nothing is
    /// before there was one.
    fence: At,
    /// When it was last looked what its processes use.
    looked: At,
    /// Whether it is not acknowledged what its project asks for: then nothing is started.
    is_unbound: bool,
    /// What is to be run on what was submitted, and whether the work is being kept for it.
    asked: Option<(Vec<Ask>, bool)>,
    /// What was submitted, while it is being checked.
    checking: Option<Checking>,
    over: bool,
}

impl Driver {
    /// An attempt that is to be driven.
    #[must_use]
    pub fn new(
        premises: Arc<Premises>,
        (link, courier): (Link, Courier),
        card: Card,
        words: mpsc::Receiver<Word>,
        told: Option<Told>,
    ) -> Self {
        let (attempt, came) = (card.dispatch.attempt, At(card.came_boot_ms));
        let terms = terms(&card, &premises);
        let course = match told {
            None => Course::new(attempt, terms, came),
            Some(told) => Course::returning(attempt, terms, told, came),
        };
        // Some programs are given their tools in the conversation, not at their start.
        let tools = premises.tools(&card);
        let follower = card.program().follow(&card.turn(Some(&tools)));
        let secrets = premises.secrets_of(&card);
        let log = Log::new(card.program(), secrets.iter().map(String::as_str));
        let place = Place::at(premises.attempt(attempt));
        Self {
            premises,
            link,
            card,
            words,
            course,
            follower,
            log,
            place,
            ground: None,
            courier,
            keeping: None,
            delivering: false,
            talked: None,
            handle: None,
            reader: None,
            started: false,
            ended: false,
            unproved: false,
            prompted: false,
            unsaid: VecDeque::new(),
            owed: None,
            slept: slept(),
            fence: At(0),
            looked: now(),
            is_unbound: false,
            asked: None,
            checking: None,
            over: false,
        }
    }

    /// Drives it to its end.
    pub async fn drive(mut self, start: Start) -> Card {
        match start {
            Start::Fresh => self.begin().await,
            Start::Back(found) => self.come_back(*found).await,
        }
        while !self.over {
            self.go_on().await;
        }
        if self.ended && self.started {
            self.keep_late().await;
        }
        // Whoever has its folder now has its home, too, and what signs it in. An agent that may live keeps
        // both, and its shim the right to the folder.
        let is_gone = !self.started || (self.ended && !self.unproved);
        if is_gone && self.ground.as_mut().is_some_and(Ground::hold) {
            let (premises, card) = (Arc::clone(&self.premises), self.card.clone());
            if spawn_blocking(move || premises.clear(&card)).await.is_err() {
                tracing::warn!(attempt = %self.card.dispatch.attempt, "its home was not cleared");
            }
        }
        self.card
    }

    /// How long until the course wants to be asked.
    fn due(&self) -> Duration {
        let look = self.handle.as_ref().map(|_| self.looked.plus(BUSY_EVERY_MS));
        let due = [self.course.due(), look].into_iter().flatten().min();
        due.map_or(Duration::MAX, |due| Duration::from_millis(due.since(now())))
    }

    /// Looks now and then what its processes use: one that computes is not hung, however silent it is.
    async fn look(&mut self) {
        let at = now();
        if let Some(handle) = &self.handle
            && at.since(self.looked) >= BUSY_EVERY_MS
        {
            self.looked = at;
            let cpu_ms = handle.spent_ms();
            self.feed(Input::Busy { cpu_ms }, at).await;
        }
    }

    /// Feeds what the worker before knew, and then what became of it.
    async fn come_back(&mut self, found: io::Result<Found>) {
        self.find_ground().await;
        self.feed(Input::Prepared, At(self.card.came_boot_ms)).await;
        self.started = true;
        self.catch_up().await;
        self.feed(Input::Back, now()).await;
        self.take(found).await;
    }

    /// Finds the folder of an attempt again.
    async fn find_ground(&mut self) {
        let (premises, card) = (Arc::clone(&self.premises), self.card.clone());
        match spawn_blocking(move || premises.ground(&card)).await {
            Ok(Ok(ground)) => self.ground = Some(ground),
            Ok(Err(error)) => {
                tracing::warn!(attempt = %self.card.dispatch.attempt, %error, "its folder is not to be had");
            }
            Err(error) => tracing::warn!(%error, "its folder was not looked for"),
        }
    }

    /// Somebody looked what became of the shim.
    async fn take(&mut self, found: io::Result<Found>) {
        match found {
            Ok(Found::Alive(handle)) => {
                self.attach(handle).await;
                // The oldest of a long spool is gone, and with it the note of the beginning.
                self.feed(Input::Launched, now()).await;
            }
            Ok(Found::Over(status)) => {
                self.catch_up().await;
                self.end(&status).await;
            }
            Ok(Found::Vanished(launch)) => {
                self.catch_up().await;
                let proof = shim::prove(&launch).await.unwrap_or(UNPROVED);
                self.shim_gone(proof).await;
            }
            Err(error) => {
                tracing::warn!(attempt = %self.card.dispatch.attempt, %error, "the shim does not answer");
            }
        }
    }

    async fn end(&mut self, status: &Status) {
        match status {
            Status::Stopped { proof, .. } => self.end_with(*proof, Input::Stopped).await,
            Status::NotStarted { .. } => {
                let death = Death::NotStarted;
                self.end_with(Proof { death, survivor: false }, Input::Stopped).await;
            }
            Status::Running | Status::Exited { .. } | Status::Stopping { .. } => {
                self.shim_gone(UNPROVED).await;
            }
        }
    }

    /// Its shim is gone, and this is what is proved. What outlived it is no end: it is proved again, until
    /// nothing is left.
    async fn shim_gone(&mut self, proof: Proof) {
        if proof.survivor {
            self.handle = None;
            return self.feed(Input::ShimGone(proof), now()).await;
        }
        self.end_with(proof, Input::ShimGone).await;
    }

    /// Feeds the end, once.
    async fn end_with(&mut self, proof: Proof, input: fn(Proof) -> Input) {
        self.handle = None;
        if !self.ended {
            points::pass(Point::ProofHeard);
            self.ended = true;
            self.unproved = proof.death == Death::None;
            // Where somebody may still work, the right stays with whoever was lent it.
            if let Some(ground) = &mut self.ground
                && !self.unproved
            {
                ground.hold();
            }
            self.feed(input(proof), now()).await;
        }
    }

    async fn attach(&mut self, handle: Handle) {
        self.handle = Some(handle);
        self.catch_up().await;
        self.say_again().await;
    }

    /// Waits for the next thing that happens, and feeds it.
    async fn go_on(&mut self) {
        if self.started && !self.ended && self.handle.is_none() {
            return self.find_again().await;
        }
        let due = self.due();
        let kept = async {
            match &mut self.keeping {
                Some((_, keeping)) => keeping.await,
                None => std::future::pending().await,
            }
        };
        let delivered = async {
            match self.delivering {
                true => self.courier.settled(self.card.dispatch.attempt).await,
                false => std::future::pending().await,
            }
        };
        let changed = async {
            match &mut self.handle {
                Some(handle) => handle.changes().recv().await,
                None => std::future::pending().await,
            }
        };
        let checked = async {
            match &mut self.checking {
                Some(checking) => checking.done().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            found = checked => self.checked(found).await,
            change = changed => match change {
                Some(Change::Spool(_) | Change::Exited(_)) => self.catch_up().await,
                Some(Change::Stopped(proof)) => self.stopped(proof).await,
                None => self.handle = None,
            },
            taken = kept => self.kept(taken).await,
            () = delivered => {
                self.delivering = false;
                self.feed(Input::Kept, now()).await;
            }
            word = self.words.recv() => match word {
                Some(word) => self.hear(word).await,
                // The worker goes; the shim stays, and its fence with it.
                None => self.over = true,
            },
            () = sleep(due) => {
                self.catch_up().await;
                self.say_again().await;
                self.look().await;
                self.feed(Input::Tick, now()).await;
            }
        }
    }

    /// The connection to the shim is lost, or the shim is. One that stands still is ended by force: at once
    /// when the agent may live no longer, because its fence cannot fall then.
    async fn find_again(&mut self) {
        for look in 1..=LOOKS_MAX {
            let found = shim::adopt(&self.place).await;
            let unknown = found.is_err();
            self.take(found).await;
            // A worker that has just come back does not know the fence before the server renews it.
            let is_fence_past = self.fence > At(0) && now() >= self.fence;
            if unknown && (is_fence_past || look == LOOKS_MAX) {
                let proof = shim::overpower(&self.place).await.unwrap_or(UNPROVED);
                self.shim_gone(proof).await;
            }
            if self.handle.is_some() || self.ended || self.over {
                return;
            }
            tokio::select! {
                () = sleep(LOOK_AGAIN) => {}
                word = self.words.recv() => match word {
                    Some(word) => self.hear(word).await,
                    None => {
                        self.over = true;
                        return;
                    }
                },
            }
        }
    }

    async fn stopped(&mut self, proof: Proof) {
        self.catch_up().await;
        if proof.survivor {
            return self.feed(Input::Stopped(proof), now()).await;
        }
        self.end_with(proof, Input::Stopped).await;
    }

    async fn hear(&mut self, word: Word) {
        // The word that it is acknowledged may have been lost with a connection.
        if matches!(word, Word::Said(Said::Stands(Standing::Working)))
            && self.link.waiting(self.card.dispatch.attempt) == 0
        {
            self.is_unbound = false;
        }
        let input = match word {
            Word::Listen { after } => {
                self.catch_up().await;
                let attempt = self.card.dispatch.attempt;
                return self.link.overheard(attempt, self.log.after(after));
            }
            Word::Said(said) => Input::Said(said),
            Word::Renewed { until } => {
                self.fence = self.fence.max(until);
                Input::Renewed { until }
            }
            Word::Cut => Input::Cut,
            Word::Drain => Input::Drain,
            Word::Bound => {
                self.is_unbound = false;
                return;
            }
            Word::Check(asks) => {
                self.asked = Some((asks, false));
                Input::Said(Said::Stands(Standing::Verifying))
            }
        };
        self.mind(&input);
        // What the agent did before is known before what is said about it.
        self.catch_up().await;
        self.feed(input, now()).await;
        self.check_now();
    }
}

/// What is known of a tree of which nothing is known.
const UNPROVED: Proof = Proof { death: Death::None, survivor: false };

fn terms(card: &Card, premises: &Premises) -> Terms {
    let dispatch = &card.dispatch;
    let usual = || Caps::of(&baton_domain::policy::Policy::default());
    let snapshot_every = premises.settings.snapshot_every.as_millis();
    Terms {
        deadlines: dispatch.deadlines.clone(),
        caps: dispatch.caps.clone().unwrap_or_else(usual),
        grace_ms: dispatch.deadlines.cleanup,
        consent: card.consent.into(),
        snapshot_every_ms: u64::try_from(snapshot_every).unwrap_or(u64::MAX),
        purpose: dispatch.purpose,
        // Whoever meets a limit meets that of its own account.
        account: card.account.clone().or_else(|| dispatch.account.clone()),
        program: goes_on(card.program()).then(|| card.program().word()),
        conversation: conversation(card),
    }
}

/// The conversation that an attempt goes on with.
fn conversation(card: &Card) -> Option<Conversation> {
    card.dispatch.session.clone().filter(|_| card.talk.resumed)
}

/// Whether the conversations of a program can be gone on with.
fn goes_on(program: Program) -> bool {
    match program {
        Program::Command | Program::Script => false,
        Program::Claude
        | Program::Codex
        | Program::CodexExec
        | Program::Gemini
        | Program::Opencode
        | Program::Acp => true,
    }
}

fn now() -> At {
    At(boot_ms())
}

fn slept() -> u64 {
    boot_ms().saturating_sub(awake_ms())
}

/// What the clock on the wall shows.
#[must_use]
pub fn wall() -> Timestamp {
    SystemClock::starting_at(Timestamp(0)).now()
}
