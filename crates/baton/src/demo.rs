//! The demo: a server of its own in a temporary folder, and a person and two agents who type real
//! commands. What is printed is what was typed and what it answered.

use std::io::{self, Write};

use baton_store::postgres::backup;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::surroundings::Hidden;
use crate::tokens;

mod house;
mod stage;

use house::House;
use stage::Stage;
use stage::{ANA, FOX, OWL};

/// What a program exits with that was told to stop.
const INTERRUPTED: u8 = 130;

/// How the story ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to its end.
    Told,
    /// Somebody had seen enough.
    Interrupted,
}

impl End {
    /// What the program exits with.
    #[must_use]
    pub fn exit(self) -> u8 {
        match self {
            Self::Told => 0,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

/// What the demo may fail with.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The temporary folder, a child or the terminal could not be used.
    #[error("the demo cannot go on: {0}")]
    Io(#[from] io::Error),
    /// The database that is named is not to be had.
    #[error(transparent)]
    Database(#[from] backup::Error),
    /// A secret could not be made.
    #[error(transparent)]
    Secrets(#[from] tokens::Error),
    /// The server did not come up.
    #[error("the server of the demo did not start: {said}")]
    Server {
        /// What it said.
        said: String,
    },
    /// A command did not do what the story needs.
    #[error("`{typed}` ended with {exit:?}, not with {wanted}")]
    Step {
        /// The command.
        typed: String,
        /// What it exited with.
        exit: Option<i32>,
        /// What the story needs.
        wanted: i32,
    },
    /// A command answered something that the story cannot go on from.
    #[error("`{typed}` did not say its {field}")]
    Answer {
        /// The command.
        typed: String,
        /// What was looked for.
        field: &'static str,
    },
    /// The server did not stop in order.
    #[error("the server of the demo did not stop in order")]
    Stop,
}

/// Plays the story to the end, in an empty database if one is named. Whatever happens, the server is
/// stopped, its folder removed, and the database emptied again.
pub async fn run(database: Option<Hidden>, out: &mut (dyn Write + Send)) -> Result<End, Failure> {
    // From here on a signal is ours to answer: nothing is left behind because of one.
    let mut signals = Signals::listen()?;
    let house = House::open(database).await?;
    let told = tokio::select! {
        told = story(&house, out) => told.map(|()| End::Told),
        () = signals.next() => Ok(End::Interrupted),
    };
    let closed = house.close().await;
    let end = told?;
    closed?;
    if end == End::Told {
        writeln!(out, "The server has drained, and its folder is gone.")?;
    }
    Ok(end)
}

/// The ways of being told to stop.
struct Signals(Signal, Signal, Signal);

impl Signals {
    fn listen() -> io::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self(signal(interrupt)?, signal(terminate)?, signal(SignalKind::hangup())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
            _ = self.2.recv() => {}
        }
    }
}

async fn story(house: &House, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let mut stage = Stage::new(house, out);
    stage.say("Baton demo: a server in a temporary folder, a person, two agents.")?;
    stage.say("Everything below is typed and answered for real. Nothing is left behind.")?;
    plan(&mut stage).await?;
    ask_and_park(&mut stage).await?;
    lose_a_lease(&mut stage).await?;
    hand_off(&mut stage).await?;
    prove(&mut stage).await?;
    stage.chapter("The board, and its history")?;
    stage.types(ANA, &["ls", "--ended"]).await?;
    stage.types(ANA, &["audit", "verify"]).await
}

const CONTRACT: &str = r#"{"id": "changelog", "kind": "artifact", "path": "CHANGELOG.md"}"#;

async fn plan(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Ana plans")?;
    stage.types(ANA, &["project", "add", "demo", "--promote"]).await?;
    stage.sets(ANA, "BATON_PROJECT=demo")?;
    stage.types(ANA, &["add", "Write the parser", "--stage", "coding"]).await?;
    stage.types(ANA, &["add", "Test the parser", "--depends-on", "T-1"]).await?;
    let release = ["add", "Release the parser", "--depends-on", "T-2", "--contract", CONTRACT];
    stage.types(ANA, &release).await?;
    stage.types(ANA, &["add", "Upgrade the database", "--stage", "coding"]).await?;
    stage.types(ANA, &["explain", "T-3"]).await?;
    stage.lets_in(FOX).await?;
    stage.lets_in(OWL).await
}

async fn ask_and_park(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Two agents take work")?;
    stage.claims(FOX, &["claim"]).await?;
    stage.claims(OWL, &["claim"]).await?;
    stage.types(FOX, &["checkpoint", "Half of the grammar is done", "--cursor", "rule 12"]).await?;
    stage.types(OWL, &["ask", "Which version?"]).await?;
    stage.types(ANA, &["inbox"]).await?;
    stage.types(ANA, &["answer", "T-4", "Version 17."]).await?;
    stage.types(OWL, &["show", "mine"]).await?;
    stage.types(OWL, &["checkpoint", "The schema is dumped", "--cursor", "step 2 of 5"]).await?;
    let reason = "The password of the new server is missing.";
    stage.types(OWL, &["block", "needs_input", reason]).await
}

/// A refused completion; the command line's word for a conflict.
const CONFLICT: i32 = 5;
/// A completion whose contract has open lines.
const INCOMPLETE: i32 = 10;

async fn lose_a_lease(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Fox falls silent, and its lease runs out")?;
    // The wait is for whatever comes after this version, also if it comes before the wait.
    let version = stage.version_of("R-1.1").await?;
    stage.types(FOX, &["beat", "--lease", "1s"]).await?;
    stage.types(ANA, &["run", "wait", "R-1.1", "--since", &version, "--wait", "30s"]).await?;
    stage.refused(FOX, &["complete", "--summary", "The parser is written."], CONFLICT).await?;
    stage.claims(OWL, &["claim"]).await?;
    stage.types(OWL, &["run", "handoff", "mine"]).await?;
    stage.types(OWL, &["complete", "--summary", "The parser is written."]).await
}

async fn hand_off(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Blocked work goes on in other hands")?;
    stage.claims(FOX, &["claim", "--wait", "30s"]).await?;
    stage.types(FOX, &["complete", "--summary", "Every rule has a test."]).await?;
    stage.types(ANA, &["explain", "T-4"]).await?;
    stage.types(ANA, &["answer", "T-4", "It is in the vault under db/17."]).await?;
    stage.claims(FOX, &["claim", "--task", "T-4"]).await?;
    stage.types(FOX, &["run", "handoff", "mine"]).await?;
    stage.types(FOX, &["complete", "--summary", "The database is upgraded."]).await
}

async fn prove(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Done only with proof")?;
    stage.claims(OWL, &["claim", "--wait", "30s"]).await?;
    stage.refused(OWL, &["complete", "--summary", "It is released."], INCOMPLETE).await?;
    stage.makes(OWL, "CHANGELOG.md", "0.1.0: the parser\n")?;
    stage.types(OWL, &["complete", "--summary", "It is released."]).await?;
    // Proof is looked at by somebody else, and this house has no such worker.
    stage.types(ANA, &["explain", "T-3"]).await
}
