//! What a store is asked to do, and what it answers.

use std::fmt::Write as _;
use std::sync::Arc;

use baton_domain::channel::ChannelCommand;
use baton_domain::command::{Claim, Command};
use baton_domain::ids::{PrincipalId, ProjectId, TaskId, TenantId};
use baton_domain::key::KeyCommand;
use baton_domain::project::RecordCommand;
use baton_domain::scene::Lease;
use baton_domain::task::{Brief, Flow};
use baton_domain::text::Text;
use baton_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use baton_domain::key::Kind;
/// What an order takes without its texts.
const ORDER_BYTES: usize = 1_024;

/// Counts what is written to it and keeps nothing.
struct Count(usize);

impl std::fmt::Write for Count {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// Something to be carried out, whole or not at all.
#[derive(Clone, Debug)]
pub struct Order {
    /// Whose data.
    pub tenant: TenantId,
    /// Who asks, as the server knows it.
    pub actor: Actor,
    /// What it is about, and what is asked.
    pub aim: Aim,
    /// So that a repeated request is carried out once.
    pub request: Option<Request>,
}

impl Order {
    /// The tenant among whose request keys its own is.
    #[must_use]
    pub fn asked_in(&self) -> &TenantId {
        let elsewhere = self.request.as_ref().and_then(|request| request.asked_in.as_ref());
        elsewhere.unwrap_or(&self.tenant)
    }
}

/// What an order is about.
#[derive(Clone, Debug)]
pub enum Aim {
    /// A task; the commands are decided one after another.
    Task(TaskId, Vec<Command>),
    /// A task to be; the first command creates it.
    Birth(ProjectId, Vec<Command>),
    /// The next run of the lanes that admit the claimer.
    Next(Claim),
    /// A project, or a pool.
    Record(RecordCommand, Option<ProjectId>),
    /// The keys of the tenant.
    Key(KeyCommand),
    /// A channel of the tenant.
    Channel(ChannelCommand),
    /// Whatever is due and whatever tasks owe one another, of all tenants, at most so many.
    Sweep(usize),
}

/// Who asks, and by which way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Who.
    pub principal: PrincipalId,
    /// What sort of caller.
    pub kind: Kind,
    /// By which way: cli, rest, mcp, worker, clockwork.
    pub origin: Text<64>,
    /// What ties it to other records of the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Text<64>>,
}

/// The key of a request, and what it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the caller.
    pub key: Text<255>,
    /// A hash of everything that was asked; the same key for something else is refused.
    pub fingerprint: [u8; 32],
    /// The tenant of whoever asks, if the order is for another one: a key is known again where it
    /// was chosen.
    pub asked_in: Option<TenantId>,
}

/// What was carried out.
#[derive(Clone, Debug)]
pub struct Committed {
    /// When.
    pub at: Timestamp,
    /// The position of its entry; none if nothing changed that leaves one.
    pub position: Option<u64>,
    /// The task as it is now; none for records and sweeps.
    pub task: Option<Arc<Flow>>,
    /// Its lease as it is now.
    pub lease: Option<Lease>,
    /// The run that the order was about: the one that was live, or else the one that it opened. A
    /// repeated request is told the same, although the task may have gone on since.
    pub run: Option<u32>,
    /// What the task is about, if the store had it at hand; whoever needs it may read it.
    pub brief: Option<Brief>,
    /// Whether the same request had been carried out before.
    pub replayed: bool,
    /// For a sweep: how many things happened, and whether more are waiting.
    pub swept: Swept,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Tasks for which time passed.
    pub due: usize,
    /// Reactions carried out.
    pub reactions: usize,
    /// Whether the bound was reached.
    pub more: bool,
}

impl Committed {
    /// What changed no task.
    #[must_use]
    pub fn of_no_task(at: Timestamp, position: Option<u64>) -> Self {
        Self {
            at,
            position,
            task: None,
            lease: None,
            run: None,
            brief: None,
            replayed: false,
            swept: Swept::default(),
        }
    }
}

impl Actor {
    /// Baton itself, by its own clock.
    #[must_use]
    pub fn clockwork() -> Self {
        Self {
            principal: PrincipalId::new("baton").expect("a plain word is a name"),
            kind: Kind::System,
            origin: Text::new("origin", "clockwork").expect("a plain word is a text"),
            trace: None,
        }
    }
}

impl Aim {
    /// One word for it, for logs and figures: what was asked is nobody's business there.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Task(..) => "task",
            Self::Birth(..) => "birth",
            Self::Next(_) => "next",
            Self::Record(..) => "record",
            Self::Key(_) => "key",
            Self::Channel(_) => "channel",
            Self::Sweep(_) => "sweep",
        }
    }
}

impl Order {
    /// Lets time pass for everybody.
    #[must_use]
    pub fn sweep(count_max: usize) -> Self {
        Self {
            tenant: TenantId::new("local").expect("a plain word is a name"),
            actor: Actor::clockwork(),
            aim: Aim::Sweep(count_max),
            request: None,
        }
    }

    /// Roughly how many bytes it takes while it waits. What holds no text is not looked at.
    #[must_use]
    pub fn bytes(&self) -> usize {
        use baton_domain::command::Supervisor;
        let light = |command: &Command| match command {
            Command::Claim(_) | Command::Expect(_) | Command::Time(_) => true,
            Command::Supervisor(_, says) => {
                matches!(says, Supervisor::Renew { .. } | Supervisor::Heard { .. })
            }
            Command::Create(_)
            | Command::Person(_)
            | Command::Agent(..)
            | Command::Verifier(..) => false,
        };
        let mut count = Count(ORDER_BYTES);
        let counted = match &self.aim {
            Aim::Next(_) | Aim::Sweep(_) => Ok(()),
            Aim::Record(command, _) => write!(count, "{command:?}"),
            Aim::Key(command) => write!(count, "{command:?}"),
            Aim::Channel(command) => write!(count, "{command:?}"),
            Aim::Task(_, commands) | Aim::Birth(_, commands) => {
                commands.iter().filter(|it| !light(it)).try_for_each(|it| write!(count, "{it:?}"))
            }
        };
        counted.map_or(usize::MAX / 4, |()| count.0)
    }

    /// Whether it ends or eases work, rather than adding to it: accepted first, and even when
    /// there is no room for more.
    #[must_use]
    pub fn ends_work(&self) -> bool {
        use baton_domain::command::{Agent, Person, Supervisor};
        let ends = |command: &Command| match command {
            Command::Create(_) | Command::Claim(_) => false,
            Command::Expect(_) | Command::Verifier(..) | Command::Time(_) => true,
            Command::Supervisor(_, says) => match says {
                Supervisor::Renew { .. }
                | Supervisor::Heard { .. }
                | Supervisor::Spend { .. }
                | Supervisor::TimedOut(_)
                | Supervisor::Exceeded(_)
                | Supervisor::Exited
                | Supervisor::Lost { .. }
                | Supervisor::Stopped { .. }
                | Supervisor::Release { .. }
                | Supervisor::Merged(_)
                | Supervisor::Unbound(_)
                | Supervisor::Probed { .. } => true,
                Supervisor::Report(_) | Supervisor::Snapshot(_) | Supervisor::Bind(_) => false,
            },
            Command::Agent(_, says) => match says {
                Agent::Block { .. } | Agent::Fail { .. } | Agent::Complete { .. } => true,
                Agent::Begin
                | Agent::Progress(_)
                | Agent::Checkpoint(_)
                | Agent::Ask(_)
                | Agent::Receive(_)
                | Agent::Withdraw => false,
            },
            Command::Person(says) => match says {
                Person::Cancel(_)
                | Person::Release(_)
                | Person::Fail { .. }
                | Person::Close(_)
                | Person::Hold { .. } => true,
                Person::Edit(_)
                | Person::Publish
                | Person::Approve
                | Person::Move { .. }
                | Person::Archive
                | Person::Depend { .. }
                | Person::Answer(_)
                | Person::Unblock(_)
                | Person::Waive(_)
                | Person::Review(_)
                | Person::Retry(_) => false,
            },
        };
        match &self.aim {
            Aim::Task(_, commands) => commands.iter().all(ends),
            // A leaked key must die even where there is no room for work.
            Aim::Key(KeyCommand::Revoke { .. }) => true,
            Aim::Key(KeyCommand::Create(_) | KeyCommand::Rotate { .. }) => false,
            Aim::Birth(..) | Aim::Next(_) | Aim::Record(..) | Aim::Channel(_) | Aim::Sweep(_) => {
                false
            }
        }
    }
}
