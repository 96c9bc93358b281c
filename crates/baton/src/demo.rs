//! The demo: two scripted agents and a person against a temporary store. Time is the script's own,
//! so the story is the same every time, and nothing is left behind.

mod cast;
mod stage;

use std::io::{self, Write};

use baton_domain::Refusal;
use baton_domain::command::{Agent, Verdict};
use baton_domain::contract::{Artifact, Finding, Receipt, Submission};
use baton_domain::ids::{Digest, LineId, TaskId};
use baton_domain::lane::Wants;
use baton_domain::run::Why;
use baton_domain::text::{Line, Message, Reason};
use baton_domain::time::Millis;
use baton_store::Error;

use cast::{Player, note, task};
use stage::Stage;

/// What the demo may fail with.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The temporary folder could not be used.
    #[error("the demo needs a temporary folder: {0}")]
    Folder(#[from] io::Error),
    /// The store could not be opened.
    #[error(transparent)]
    Home(#[from] crate::home::Error),
    /// An order of the script was not carried out.
    #[error(transparent)]
    Order(#[from] Error),
    /// A value of the script breaks a rule.
    #[error(transparent)]
    Script(#[from] Refusal),
}

/// Plays the story to the end.
pub async fn run(out: &mut dyn Write) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let mut stage = Stage::set(&folder.path().join("home"), out)?;
    stage
        .say("Baton demo: a temporary store, two agents, one person. Nothing is left behind.\n")?;
    plan(&mut stage).await?;
    ask_and_park(&mut stage).await?;
    lose_a_lease(&mut stage).await?;
    hand_off(&mut stage).await?;
    prove(&mut stage).await?;
    stage.board().await?;
    stage.audit().await
}

const PARSER: TaskId = TaskId(1);
const TESTS: TaskId = TaskId(2);
/// The fourth task that is added; the third, the release, is never named.
const DATABASE: TaskId = TaskId(4);

async fn plan(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Ana plans")?;
    stage.project().await?;
    stage.add(task("Write the parser")?).await?;
    stage.add(task("Test the parser")?.after(PARSER)).await?;
    stage.add(task("Release the parser")?.after(TESTS).proved_by("changelog", "gate")?).await?;
    stage.add(task("Upgrade the database")?).await
}

async fn ask_and_park(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Two agents take work")?;
    stage.claim(Player::Fox, Wants::Ready).await?;
    stage.claim(Player::Owl, Wants::Ready).await?;
    stage
        .agent(Player::Fox, Agent::Checkpoint(note("Half of the grammar is done", "rule 12")?))
        .await?;
    stage.pass(Millis::minutes(1)).await?;
    stage.agent(Player::Owl, Agent::Ask(Message::new("question", "Which version?")?)).await?;
    stage.answer(DATABASE, "Version 17.").await?;
    stage
        .agent(Player::Owl, Agent::Checkpoint(note("The schema is dumped", "step 2 of 5")?))
        .await?;
    let reason = Reason::new("reason", "The password of the new server is missing.")?;
    let block = Agent::Block { why: Why::NeedsInput, reason, condition: None };
    stage.agent(Player::Owl, block).await
}

async fn lose_a_lease(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Fox falls silent")?;
    // Nobody renews; clockwork goes on.
    for _ in 0..6 {
        stage.pass(Millis::minutes(1)).await?;
    }
    stage.agent(Player::Fox, done()).await?;
    stage.claim(Player::Owl, Wants::Ready).await?;
    stage.hand_off(PARSER).await?;
    stage.agent(Player::Owl, done()).await?;
    stage.pass(Millis::seconds(1)).await
}

async fn hand_off(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Blocked work goes on in other hands")?;
    stage.answer(DATABASE, "It is in the vault under db/17.").await?;
    stage.claim(Player::Fox, Wants::Ready).await?;
    stage.agent(Player::Fox, done()).await?;
    stage.claim(Player::Fox, Wants::Ready).await?;
    stage.hand_off(DATABASE).await?;
    stage.agent(Player::Fox, done()).await?;
    stage.pass(Millis::seconds(1)).await
}

async fn prove(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.chapter("Done only with proof")?;
    stage.claim(Player::Owl, Wants::Ready).await?;
    stage.agent(Player::Owl, done()).await?;
    let artifact = Artifact {
        path: Line::new("path", "CHANGELOG.md")?,
        digest: Digest::new(&"c0ffee00".repeat(8))?,
        bytes: 1_204,
    };
    let submission = Submission { artifacts: vec![artifact], ..Submission::default() };
    stage.agent(Player::Owl, Agent::Complete { summary: None, submission }).await?;
    stage.claim(Player::Checker, Wants::Submitted).await?;
    let holds = |line: &str| -> Result<Receipt, Refusal> {
        let finding = Finding::Holds { evidence: None };
        Ok(Receipt { line: LineId::new(line)?, finding, at: stage.now() })
    };
    let receipts = vec![holds("changelog")?, holds("gate")?];
    stage.verify(Verdict { receipts }).await?;
    stage.pass(Millis::seconds(1)).await
}

fn done() -> Agent {
    Agent::Complete { summary: None, submission: Submission::default() }
}

#[cfg(test)]
mod tests;
