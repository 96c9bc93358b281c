//! The stage: carries out what the script says and tells what came of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use baton_domain::command::{Agent, Command, Person, Proof, Verdict};
use baton_domain::event::{Event, Then};
use baton_domain::history::Record;
use baton_domain::ids::{TaskId, TenantId};
use baton_domain::lane::Wants;
use baton_domain::project::{PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::refusal::Refusal;
use baton_domain::run::Outcome;
use baton_domain::task::{Flow, Stage as Column};
use baton_domain::text::{Message, Text};
use baton_domain::time::{Millis, Timestamp};
use baton_store::clock::ManualClock;
use baton_store::read::Happened;
use baton_store::{Actor, Aim, Clock, Cursor, Error, Filter, Order};

use super::Failure;
use super::cast::{Plan, Player, coding, project};
use crate::chance::SeededChance;
use crate::clockwork;
use crate::engine::{Engine, Target, Wish};
use crate::home;

/// When the story begins; any moment would do.
const BEGIN: Timestamp = Timestamp(1_800_000_000_000);

/// The stage.
pub(super) struct Stage<'a> {
    engine: Engine,
    clock: Arc<ManualClock>,
    out: &'a mut dyn Write,
    /// What each player holds.
    hands: BTreeMap<Player, (TaskId, u32)>,
    /// How far the entries have been told.
    told: u64,
}

fn tenant() -> TenantId {
    TenantId::new("local").expect("a plain word is a name")
}

fn actor(player: Player) -> Actor {
    let origin = Text::new("origin", "demo").expect("a plain word is a text");
    Actor { principal: player.principal(), kind: player.sort(), origin, trace: None }
}

impl<'a> Stage<'a> {
    pub(super) fn set(folder: &Path, out: &'a mut dyn Write) -> Result<Self, Failure> {
        let clock = Arc::new(ManualClock::at(BEGIN));
        let engine = home::open(
            folder,
            Some(Arc::clone(&clock) as Arc<dyn Clock>),
            Arc::new(SeededChance::new(1)),
        )?;
        Ok(Self { engine, clock, out, hands: BTreeMap::new(), told: 0 })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{line}")?)
    }

    pub(super) fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        self.say(&format!("\n{title}"))
    }

    fn tell(&mut self, who: &str, what: &str) -> Result<(), Failure> {
        let seconds = self.clock.now().since(BEGIN).0 / 1_000;
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        self.say(&format!("  {minutes:02}:{seconds:02}  {who:<8} {what}"))
    }

    async fn order(&mut self, player: Player, aim: Aim) -> Result<(), Failure> {
        let order = Order { tenant: tenant(), actor: actor(player), aim, request: None };
        match self.engine.submit(order).await {
            Ok(_) => self.news().await,
            Err(Error::Refused(refusal)) => self.refused(player, &refusal),
            Err(error) => Err(error.into()),
        }
    }

    fn refused(&mut self, player: Player, refusal: &Refusal) -> Result<(), Failure> {
        self.tell(player.name(), &format!("is refused ({}): {refusal}", refusal.code()))?;
        if let Refusal::Incomplete { missing } = refusal {
            for line in missing {
                self.tell("", &format!("  {}: {} at {}", line.line, line.code, line.path))?;
            }
        }
        Ok(())
    }

    pub(super) async fn project(&mut self) -> Result<(), Failure> {
        let spec =
            StageSpec { name: coding(), worked_by: WorkedBy::Agent, passed_by: PassedBy::Server };
        let demo = Project {
            id: project(),
            root: None,
            pipeline: vec![spec],
            archive_after: None,
            promote: true,
        };
        self.order(Player::Ana, Aim::Record(RecordCommand::PutProject(demo), None)).await
    }

    pub(super) async fn add(&mut self, plan: Plan) -> Result<(), Failure> {
        let create = Command::Create(Box::new(plan.0));
        self.order(Player::Ana, Aim::Birth(project(), vec![create])).await
    }

    pub(super) async fn claim(&mut self, player: Player, wants: Wants) -> Result<(), Failure> {
        let wish = Wish {
            tenant: tenant(),
            actor: actor(player),
            claimant: player.claimant(wants),
            target: Target::Next { wait: None },
            lease: None,
            request: None,
        };
        match self.engine.claim(wish).await {
            Ok(claimed) => {
                self.hands.insert(player, (claimed.flow.id, claimed.attempt.number));
                self.news().await
            }
            Err(Error::Refused(refusal)) => self.refused(player, &refusal),
            Err(error) => Err(error.into()),
        }
    }

    /// What the player holds, and how it proves it.
    fn grip(&self, player: Player) -> Result<(TaskId, Proof), Failure> {
        let (task, attempt) = self.hands.get(&player).copied().ok_or(Refusal::LeaseLost)?;
        Ok((task, Proof::Caller { attempt, principal: player.principal() }))
    }

    pub(super) async fn agent(&mut self, player: Player, says: Agent) -> Result<(), Failure> {
        let (task, proof) = self.grip(player)?;
        self.order(player, Aim::Task(task, vec![Command::Agent(proof, says)])).await
    }

    pub(super) async fn verify(&mut self, verdict: Verdict) -> Result<(), Failure> {
        let (task, proof) = self.grip(Player::Checker)?;
        self.order(Player::Checker, Aim::Task(task, vec![Command::Verifier(proof, verdict)])).await
    }

    pub(super) async fn answer(&mut self, task: TaskId, text: &str) -> Result<(), Failure> {
        let answer = Person::Answer(Message::new("answer", text)?);
        self.order(Player::Ana, Aim::Task(task, vec![Command::Person(answer)])).await
    }

    /// Time passes, a few seconds at a step as on a running server.
    pub(super) async fn pass(&mut self, length: Millis) -> Result<(), Failure> {
        let mut left = length.0;
        while left > 0 {
            let step = left.min(4_000);
            self.clock.advance(Millis(step));
            left -= step;
            clockwork::tick(&self.engine).await?;
        }
        self.news().await
    }

    /// What the next holder reads before it begins.
    pub(super) async fn hand_off(&mut self, task: TaskId) -> Result<(), Failure> {
        for record in self.engine.history(&tenant(), task, None, 50).await?.rows {
            match record {
                Record::Checkpoint(note) => {
                    let cursor = note.note.cursor.map(|at| format!(" (at {at})"));
                    let line =
                        format!("  reads: {}{}", note.note.summary, cursor.unwrap_or_default());
                    self.tell("", &line)?;
                }
                Record::Attempt(attempt) => {
                    let line = format!(
                        "  reads: attempt {} by {} ended: {}",
                        attempt.number,
                        attempt.holder,
                        outcome(&attempt.outcome)
                    );
                    self.tell("", &line)?;
                }
                Record::Run(_) => {}
            }
        }
        Ok(())
    }

    /// Tells every entry that has not been told.
    async fn news(&mut self) -> Result<(), Failure> {
        let after = Cursor { incarnation: 0, position: self.told };
        let page = self.engine.entries(&tenant(), after, 100).await?;
        for entry in page.rows {
            self.told = entry.position;
            let who = entry.actor.principal.to_string();
            let who = if who == "baton" { Player::Clock.name().to_owned() } else { who };
            let Happened::ToTask(events) = &entry.happened else { continue };
            let baton_store::read::About::Task(task, _) = entry.about else { continue };
            for event in events {
                if let Some(what) = sentence(task, event) {
                    self.tell(&who, &what)?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn board(&mut self) -> Result<(), Failure> {
        self.chapter("The board")?;
        let filter = Filter { ended: true, count_max: 50, ..Filter::default() };
        let page = self.engine.tasks(&tenant(), filter).await?;
        let now = self.clock.now();
        for row in page.rows {
            let badge = serde_json::to_value(row.flow.badge(now)).unwrap_or_default();
            let line = format!(
                "  {:<5} {:<22} {:<8} {:<16} {} attempts",
                row.flow.id.to_string(),
                row.brief.title.as_str(),
                column(&row.flow),
                badge.as_str().unwrap_or_default().replace('_', " "),
                row.flow.attempts,
            );
            self.say(line.trim_end())?;
        }
        Ok(())
    }

    pub(super) async fn audit(&mut self) -> Result<(), Failure> {
        let audit = self.engine.audit().await?;
        let verdict = match &audit.fault {
            None => "every link of the history holds".to_owned(),
            Some(fault) => format!("position {}: {}", fault.position, fault.what),
        };
        self.say(&format!("\n{} entries: {verdict}.", audit.entries))
    }
}

fn column(flow: &Flow) -> String {
    match &flow.stage {
        Column::Backlog => "backlog".into(),
        Column::Working(stage) => stage.to_string(),
        Column::Ended(_) => "done".into(),
        Column::Archived(_) => "archived".into(),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed { .. } => "completed".into(),
        Outcome::Failed { code, .. } => format!("failed ({code})"),
        Outcome::Blocked { block, .. } => format!("blocked ({})", block.why.kind()),
        Outcome::Released { .. } => "released".into(),
        Outcome::TimedOut { .. } => "timed out".into(),
        Outcome::Lost => "lost".into(),
        Outcome::Cancelled => "cancelled".into(),
        Outcome::EndedWithoutResult => "without a result".into(),
    }
}

fn sentence(task: TaskId, event: &Event) -> Option<String> {
    Some(match event {
        Event::Created { task: made, .. } => format!("adds {task} “{}”", made.title),
        Event::Moved { to: Some(stage), .. } => format!("{task} enters {stage}"),
        Event::Claimed { attempt, purpose, .. } => {
            let purpose = serde_json::to_value(purpose).unwrap_or_default();
            format!("takes {task} to {}, attempt {attempt}", purpose.as_str().unwrap_or_default())
        }
        Event::Checkpointed { note, .. } => {
            format!("leaves a checkpoint on {task}: {}", note.summary)
        }
        Event::Asked { question } => format!("asks about {task}: {question}"),
        Event::Answered { answer } => format!("answers for {task}: {answer}"),
        Event::Submitted { .. } => format!("submits {task}"),
        Event::Verified { passed: true, .. } => format!("verifies {task}: every line holds"),
        Event::Verified { passed: false, .. } => format!("rejects {task}"),
        Event::AttemptEnded { outcome: how, then, reason, .. } => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{task} attempt {}, run {}{reason}", outcome(how), next(then))
        }
        Event::Ended { .. } => format!("{task} is done"),
        Event::DependencySettled { on, met: true } => format!("{task} waits for {on} no longer"),
        Event::Requeued { .. } => format!("{task} is queued again"),
        Event::Moved { to: None, .. }
        | Event::Edited { .. }
        | Event::Published
        | Event::Approved
        | Event::Archived
        | Event::HoldSet { .. }
        | Event::Owing { .. }
        | Event::DependencyAdded { .. }
        | Event::DependencyRemoved { .. }
        | Event::DependencySettled { met: false, .. }
        | Event::Woken { .. }
        | Event::RunOpened { .. }
        | Event::RunFinished { .. }
        | Event::Starved
        | Event::Began
        | Event::Seen { .. }
        | Event::Progressed { .. }
        | Event::AnswerMarked { .. }
        | Event::ChildrenSettled { .. }
        | Event::Spent { .. }
        | Event::Exited
        | Event::Stopping { .. }
        | Event::Survived
        | Event::DeathProved { .. } => return None,
    })
}

fn next(then: &Then) -> &'static str {
    match then {
        Then::Queued => "queued again",
        Then::Delayed { .. } => "delayed",
        Then::Blocked { .. } => "blocked",
        Then::Submitted => "submitted",
        Then::Finished { .. } => "finished",
    }
}
