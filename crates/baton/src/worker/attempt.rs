//! Drives one attempt: feeds its course with everything that happens, and carries out what the course says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_domain::ids::AttemptId;
use baton_domain::run::Death;
use baton_domain::text::{Code, Reason, Text};
use baton_domain::time::Timestamp;
use baton_store::Clock as _;
use baton_store::clock::SystemClock;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::adapters::{self, Follower, Heard, Program};
use crate::clock::{awake_ms, boot_ms};
use crate::protocol::{Caps, Checkpoint, Down, Resume};
use crate::shim::spool::{Reader, Record, Stream};
use crate::shim::{self, Change, Exit, Found, Handle, Note, Place, Proof, Status};

use super::card::Card;
use super::course::{Act, At, Broken, Course, Input, Said, Terms, Told, Why};
use super::link::Link;
use super::prepare::{Error, Premises};

/// Words of the server for one attempt that wait; it says few.
pub const WORDS_MAX: usize = 64;
/// Records that are read before anything else is looked at.
const RECORDS_AT_ONCE: usize = 512;
/// How often a shim is looked for that does not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many times: then nothing is known of it, and its fence has fallen long ago.
const LOOKS_MAX: u32 = 600;
/// A shorter sleep of the machine is none: clocks are not read at the same instant.
const SLEPT_MS_MIN: u64 = 1_000;
/// What a reason may say.
const REASON_BYTES_MAX: usize = 1_000;
/// Inputs that a course may answer its own acts with before that is a mistake of ours.
const ECHOES_MAX: usize = 64;

/// What a driver is told.
#[derive(Clone, Debug)]
pub enum Word {
    /// By the server.
    Said(Said),
    /// Its lease lives so long.
    Renewed { lease_ms: u64 },
    /// The server is not there.
    Cut,
    /// The worker ends, and the attempt with it.
    Drain,
}

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
    place: Place,
    handle: Option<Handle>,
    reader: Option<Reader>,
    /// Whether a process may have come to be.
    started: bool,
    /// Whether its end was fed.
    ended: bool,
    /// Whether what it is told was fed as written.
    prompted: bool,
    /// What was last written because the program waits for it, until that is in the spool.
    owed: Option<Vec<u8>>,
    slept: u64,
    over: bool,
}

impl Driver {
    /// An attempt that is to be driven.
    #[must_use]
    pub fn new(
        premises: Arc<Premises>,
        link: Link,
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
        let follower = card.program().follow(&card.turn(None));
        let place = Place::at(premises.attempt(attempt));
        Self {
            premises,
            link,
            card,
            words,
            course,
            follower,
            place,
            handle: None,
            reader: None,
            started: false,
            ended: false,
            prompted: false,
            owed: None,
            slept: slept(),
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
        let (premises, card) = (Arc::clone(&self.premises), self.card.clone());
        let cleared = spawn_blocking(move || premises.clear(&card)).await;
        if cleared.is_err() {
            tracing::warn!(attempt = %self.card.dispatch.attempt, "its home was not cleared");
        }
        self.card
    }

    /// Prepares and launches. What the server says meanwhile is heard.
    async fn begin(&mut self) {
        let mut preparing = self.prepare();
        let prepared = loop {
            let due = self.due();
            tokio::select! {
                prepared = &mut preparing => break prepared,
                word = self.words.recv() => match word {
                    Some(word) => self.hear(word).await,
                    None => self.over = true,
                },
                () = sleep(due) => self.feed(Input::Tick, now()).await,
            }
            // Whatever is being prepared is left to itself: it is there for the next attempt.
            if self.over || self.ended {
                return;
            }
        };
        let spec = match prepared {
            Ok(Ok(spec)) => spec,
            Ok(Err(error)) => return self.feed(Input::Refused(broken(&error)), now()).await,
            Err(error) => {
                let broken = lost("not_prepared", &error.to_string());
                return self.feed(Input::Refused(broken), now()).await;
            }
        };
        self.feed(Input::Prepared, now()).await;
        if self.over || self.ended {
            return;
        }
        self.started = true;
        match shim::launch(&self.place, &spec).await {
            Ok(handle) => self.attach(handle).await,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let found = shim::adopt(&self.place).await;
                self.take(found).await;
            }
            Err(error) => {
                self.started = false;
                let why = format!("its process cannot be started: {error}");
                self.feed(Input::Refused(lost("launch_failed", &why)), now()).await;
            }
        }
    }

    fn prepare(&self) -> JoinHandle<Result<shim::Spec, Error>> {
        let (premises, card) = (Arc::clone(&self.premises), self.card.clone());
        let lease = self.card.dispatch.lease_ms;
        let fence = self.card.came_boot_ms.saturating_add(lease / 3 * 2);
        let folder = self.place.folder().to_owned();
        spawn_blocking(move || {
            let spec = premises.furnish(&card, fence)?;
            let written = card.write(&folder);
            written.map_err(|error| Error::File { path: folder, error })?;
            Ok(spec)
        })
    }

    /// How long until the course wants to be asked.
    fn due(&self) -> Duration {
        let due = self.course.due();
        due.map_or(Duration::MAX, |due| Duration::from_millis(due.since(now())))
    }

    /// Feeds what the worker before knew, and then what became of it.
    async fn come_back(&mut self, found: io::Result<Found>) {
        self.feed(Input::Prepared, At(self.card.came_boot_ms)).await;
        self.started = true;
        self.catch_up().await;
        self.feed(Input::Back, now()).await;
        self.take(found).await;
    }

    /// Somebody looked what became of the shim.
    async fn take(&mut self, found: io::Result<Found>) {
        match found {
            Ok(Found::Alive(handle)) => self.attach(handle).await,
            Ok(Found::Over(status)) => {
                self.catch_up().await;
                self.end(&status).await;
            }
            Ok(Found::Vanished(launch)) => {
                self.catch_up().await;
                let proof = shim::prove(&launch).await.unwrap_or(UNPROVED);
                self.end_with(Input::ShimGone(proof)).await;
            }
            Err(error) => {
                tracing::warn!(attempt = %self.card.dispatch.attempt, %error, "the shim does not answer");
            }
        }
    }

    async fn end(&mut self, status: &Status) {
        let input = match status {
            Status::Stopped { proof, .. } => Input::Stopped(*proof),
            Status::NotStarted { .. } => {
                let death = Death::NotStarted;
                Input::Stopped(Proof { death, survivor: false })
            }
            Status::Running | Status::Exited { .. } | Status::Stopping { .. } => {
                Input::ShimGone(UNPROVED)
            }
        };
        self.end_with(input).await;
    }

    /// Feeds the end, once.
    async fn end_with(&mut self, input: Input) {
        self.handle = None;
        if !self.ended {
            self.ended = true;
            self.feed(input, now()).await;
        }
    }

    async fn attach(&mut self, handle: Handle) {
        self.handle = Some(handle);
        self.catch_up().await;
    }

    /// Waits for the next thing that happens, and feeds it.
    async fn go_on(&mut self) {
        if self.started && !self.ended && self.handle.is_none() {
            return self.find_again().await;
        }
        let due = self.due();
        let changed = async {
            match &mut self.handle {
                Some(handle) => handle.changes().recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            change = changed => match change {
                Some(Change::Spool(_) | Change::Exited(_)) => self.catch_up().await,
                Some(Change::Stopped(proof)) => self.stopped(proof).await,
                None => self.handle = None,
            },
            word = self.words.recv() => match word {
                Some(word) => self.hear(word).await,
                // The worker goes; the shim stays, and its fence with it.
                None => self.over = true,
            },
            () = sleep(due) => {
                self.catch_up().await;
                self.feed(Input::Tick, now()).await;
            }
        }
    }

    /// The connection to the shim is lost, or the shim is.
    async fn find_again(&mut self) {
        for _ in 0..LOOKS_MAX {
            let found = shim::adopt(&self.place).await;
            let unknown = found.is_err();
            self.take(found).await;
            if !unknown {
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
        self.end_with(Input::ShimGone(UNPROVED)).await;
    }

    async fn stopped(&mut self, proof: Proof) {
        self.catch_up().await;
        if proof.survivor {
            return self.feed(Input::Stopped(proof), now()).await;
        }
        self.end_with(Input::Stopped(proof)).await;
    }

    async fn hear(&mut self, word: Word) {
        let input = match word {
            Word::Said(said) => Input::Said(said),
            Word::Renewed { lease_ms } => Input::Renewed { lease_ms },
            Word::Cut => Input::Cut,
            Word::Drain => Input::Drain,
        };
        // What the agent did before is known before what is said about it.
        self.catch_up().await;
        self.feed(input, now()).await;
    }

    /// Feeds everything that is in the spool and was not fed.
    async fn catch_up(&mut self) {
        loop {
            let records = match self.records() {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(attempt = %self.card.dispatch.attempt, %error, "the spool cannot be read");
                    return;
                }
            };
            if records.is_empty() {
                return;
            }
            for record in records {
                self.fold(&record).await;
            }
            tokio::task::yield_now().await;
        }
    }

    fn records(&mut self) -> io::Result<Vec<Record>> {
        if self.reader.is_none() {
            match Reader::open(&self.place.spool(), 0) {
                Ok(reader) => self.reader = Some(reader),
                // Nothing was ever started.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                Err(error) => return Err(error),
            }
        }
        let Some(reader) = &mut self.reader else { return Ok(vec![]) };
        reader.take(RECORDS_AT_ONCE).collect()
    }

    async fn fold(&mut self, record: &Record) {
        let at = At(record.at);
        let heard = match record.stream {
            Stream::Out => Heard::Out(&record.bytes),
            Stream::Err => Heard::Err(&record.bytes),
            Stream::In => {
                self.owed = None;
                self.prompt_written(at).await;
                Heard::In(&record.bytes)
            }
            Stream::Note => return self.note(&record.bytes, at).await,
        };
        for seen in self.follower.fold(heard) {
            self.feed(Input::Seen(seen), at).await;
        }
        self.pay(at).await;
    }

    /// What the shim itself has to say.
    async fn note(&mut self, bytes: &[u8], at: At) {
        match Note::read(bytes) {
            Some(Note::Started { .. }) => {
                self.feed(Input::Launched, at).await;
                // A program that is told nothing waits for nothing.
                if self.is_told_nothing() {
                    self.prompt_written(at).await;
                }
            }
            Some(Note::Exited(exit)) => {
                let gone = match exit {
                    Exit::Code(code) => adapters::Exit::Code(code),
                    Exit::Signal(signal) => adapters::Exit::Signal(signal),
                };
                for seen in self.follower.fold(Heard::Exited(gone)) {
                    self.feed(Input::Seen(seen), at).await;
                }
                self.feed(Input::Exited(exit), at).await;
            }
            Some(Note::Stopping { by }) => self.feed(Input::Ending(by), at).await,
            Some(Note::Stopped(proof)) if proof.survivor => {
                self.feed(Input::Stopped(proof), at).await;
            }
            Some(Note::Stopped(proof)) => self.end_with(Input::Stopped(proof)).await,
            Some(Note::Dropped { bytes }) => {
                tracing::warn!(attempt = %self.card.dispatch.attempt, bytes, "the oldest of its spool is gone");
            }
            Some(Note::Frozen { .. } | Note::Thawed) | None => {}
        }
    }

    fn is_told_nothing(&self) -> bool {
        let plan = self.card.program().plan(&self.card.turn(None));
        plan.is_ok_and(|plan| plan.stdin.is_empty())
    }

    async fn prompt_written(&mut self, at: At) {
        if !self.prompted {
            self.prompted = true;
            self.feed(Input::PromptWritten, at).await;
        }
    }

    /// Writes what the program waits for by its protocol, once.
    async fn pay(&mut self, _at: At) {
        let Some(bytes) = self.follower.owed().filter(|bytes| self.owed.as_ref() != Some(bytes))
        else {
            return;
        };
        if self.handle.is_some() && self.write(&bytes).await {
            self.owed = Some(bytes);
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(handle) = &self.handle else { return false };
        match handle.write(bytes).await {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(attempt = %self.card.dispatch.attempt, %error, "it cannot be told");
                false
            }
        }
    }

    /// Feeds the course, and does what it says, also what follows from that.
    async fn feed(&mut self, input: Input, at: At) {
        let mut inputs = std::collections::VecDeque::from([(input, at)]);
        let asleep = slept();
        if asleep.saturating_sub(self.slept) >= SLEPT_MS_MIN {
            let millis = asleep - self.slept;
            self.slept = asleep;
            inputs.push_front((Input::Slept { millis }, now()));
        }
        for _ in 0..ECHOES_MAX {
            let Some((input, at)) = inputs.pop_front() else { return };
            for act in self.course.step(input, at) {
                if let Some(echo) = self.act(act).await {
                    inputs.push_back((echo, now()));
                }
            }
        }
        tracing::error!(attempt = %self.card.dispatch.attempt, "its course goes in circles");
    }

    /// Does what the course says; answers with what came of it at once.
    async fn act(&mut self, act: Act) -> Option<Input> {
        let attempt = self.card.dispatch.attempt;
        match act {
            Act::Tell(report) => {
                let frame = report.frame(attempt, wall());
                if let Err(error) = self.link.tell(frame) {
                    tracing::error!(%attempt, %error, "a report is lost: it cannot be kept");
                }
                None
            }
            Act::Say(reply) => {
                if let Some(bytes) = self.follower.answer(&reply) {
                    self.write(&bytes).await;
                }
                None
            }
            Act::Prompt(text) => {
                let bytes = self.follower.prompt(&text);
                let written = match bytes {
                    Some(bytes) => self.write(&bytes).await,
                    None => false,
                };
                (!written).then_some(Input::Deaf)
            }
            Act::Interrupt => {
                match (self.follower.interrupt(), &self.handle) {
                    (Some(bytes), _) => drop(self.write(&bytes).await),
                    (None, Some(handle)) => drop(handle.interrupt().await),
                    (None, None) => {}
                }
                None
            }
            Act::Stop { grace_ms } => self.stop(grace_ms).await,
            Act::Renew { until } => {
                if let Some(handle) = &self.handle
                    && let Err(error) = handle.renew(until.0).await
                {
                    tracing::info!(%attempt, %error, "its fence was not moved");
                }
                None
            }
            Act::Snapshot(why) => {
                self.keep(why);
                Some(Input::Kept)
            }
            Act::Quarantine => {
                tracing::warn!(%attempt, "something of it may still run");
                None
            }
            Act::Over => {
                self.over = true;
                None
            }
        }
    }

    /// A plain folder stays where it is, for the next attempt on this machine; what is told is how to go on with
    /// the conversation.
    fn keep(&self, why: Why) {
        let attempt = self.card.dispatch.attempt;
        let Some(session) = self.course.conversation().filter(|_| why != Why::Timer) else {
            return;
        };
        let git = std::collections::BTreeMap::new();
        let frame = Checkpoint { attempt, seq: 0, summary: None, git, session: Some(session) };
        if let Err(error) = self.link.tell(frame) {
            tracing::warn!(%attempt, %error, "a snapshot was not told");
        }
    }

    async fn stop(&mut self, grace_ms: u64) -> Option<Input> {
        if !self.started {
            self.ended = true;
            return Some(Input::Stopped(Proof { death: Death::NotStarted, survivor: false }));
        }
        // Without a connection the shim is being looked for, and is stopped then: the course asks again.
        if let Some(handle) = &self.handle
            && let Err(error) = handle.stop(Some(grace_ms)).await
        {
            tracing::info!(attempt = %self.card.dispatch.attempt, %error, "it was not told to stop");
        }
        None
    }
}

/// What is known of a tree of which nothing is known.
const UNPROVED: Proof = Proof { death: Death::None, survivor: false };

/// What a frame of the server means to an attempt, and to which.
#[must_use]
pub fn word_of(down: &Down) -> Option<(AttemptId, Word)> {
    Some(match down {
        Down::Answer(it) => {
            let (id, text) = (it.id.as_str().to_owned(), it.text.as_str().to_owned());
            (it.attempt, Word::Said(Said::Answer { id, text }))
        }
        Down::Cancel(it) => (it.attempt, Word::Said(Said::Cancel(it.why))),
        Down::Fenced(it) => (it.attempt, Word::Said(Said::Fenced(it.code.clone()))),
        Down::Stands(it) => (it.attempt, Word::Said(Said::Stands(it.how))),
        Down::Welcome(_)
        | Down::Dispatch(_)
        | Down::Ack(_)
        | Down::Renewed(_)
        | Down::Drain(_)
        | Down::Trouble(_) => return None,
    })
}

/// What a welcome says of an attempt that it resumes.
#[must_use]
pub fn words_of(resume: &Resume) -> Vec<Word> {
    let mut words = vec![];
    words.extend(resume.lease_ms.map(|lease_ms| Word::Renewed { lease_ms }));
    words.extend(resume.stands.map(|how| Word::Said(Said::Stands(how))));
    words.extend(resume.stop.map(|why| Word::Said(Said::Cancel(why))));
    words.extend(resume.fenced.clone().map(|code| Word::Said(Said::Fenced(code))));
    words
}

fn terms(card: &Card, premises: &Premises) -> Terms {
    let dispatch = &card.dispatch;
    let usual = || Caps::of(&baton_domain::policy::Policy::default());
    let snapshot_every = premises.settings.snapshot_every.as_millis();
    Terms {
        deadlines: dispatch.deadlines.clone(),
        caps: dispatch.caps.clone().unwrap_or_else(usual),
        lease_ms: dispatch.lease_ms,
        grace_ms: dispatch.deadlines.cleanup,
        consent: card.consent.into(),
        snapshot_every_ms: u64::try_from(snapshot_every).unwrap_or(u64::MAX),
        purpose: dispatch.purpose,
        account: dispatch.account.clone().or_else(|| card.account.clone()),
        program: goes_on(card.program()).then(|| card.program().word()),
        conversation: dispatch.session.clone().filter(|_| card.talk.resumed),
        read: std::collections::BTreeSet::new(),
    }
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

fn broken(error: &Error) -> Broken {
    match error {
        Error::NoAgent(_) | Error::File { .. } => lost("not_prepared", &error.to_string()),
        Error::Misfit(_) => lost("misused", &error.to_string()),
    }
}

fn lost(code: &str, reason: &str) -> Broken {
    let cut = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    let usual = || Reason::new("reason", "it cannot be started").expect("a plain sentence");
    Broken::Lost {
        code: Code::new("code", code).expect("a code is a short word"),
        reason: Text::new("reason", cut).unwrap_or_else(|_| usual()),
    }
}

fn now() -> At {
    At(boot_ms())
}

fn slept() -> u64 {
    boot_ms().saturating_sub(awake_ms())
}

fn wall() -> Timestamp {
    SystemClock::starting_at(Timestamp(0)).now()
}
