//! What may be asked of a task, sorted by who may ask it. A surface can build only the commands
//! of its own speaker, so an agent has no words for approving, answering or forcing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::contract::{Binding, Contract, Receipt, Submission};
use crate::deadline::{Deadline, Sight};
use crate::ids::{
    Capability, Commit, ConcurrencyKey, Digest, Label, Nonce, PrincipalId, ProjectId, StageName,
    TaskId,
};
use crate::lane::Claimant;
use crate::policy::{Choice, Policy};
use crate::reaction::Reaction;
use crate::run::{Cap, Death, Mark, Why};
use crate::task::{Ending, Hold, Kind, Priority};
use crate::text::{Body, Code, Cursor, Item, Line, Message, Reason, Summary, Title};
use crate::time::{Millis, Timestamp};

/// What may be asked of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A task is born.
    Create(Box<NewTask>),
    /// Somebody wants to hold its run.
    Claim(Claim),
    /// Only if the task still is as the caller saw it; it changes nothing itself.
    Expect(Expect),
    /// A person speaks.
    Person(Person),
    /// The agent of an attempt speaks.
    Agent(Proof, Agent),
    /// The supervisor of an attempt speaks, or a solo agent for itself.
    Supervisor(Proof, Supervisor),
    /// Whoever checks a submission speaks.
    Verifier(Proof, Verdict),
    /// Time passes, or another task speaks.
    Time(Time),
}

/// What a caller saw; what is absent may be as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    pub version: Option<u64>,
    /// The number of the live run.
    pub run: Option<u32>,
}

/// How a holder proves itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By a claim token, whose seal was checked before: it names the lease.
    Token { attempt: u32, nonce: Nonce },
    /// By being the principal that holds it.
    Caller { attempt: u32, principal: PrincipalId },
}

impl Proof {
    /// The fence.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Token { attempt, .. } | Self::Caller { attempt, .. } => *attempt,
        }
    }
}

/// A task to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    pub project: ProjectId,
    /// Who makes it, as the server knows it.
    pub creator: PrincipalId,
    #[serde(default)]
    pub creator_task: Option<TaskId>,
    pub title: Title,
    #[serde(default)]
    pub body: Option<Body>,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default)]
    pub priority: Priority,
    #[serde(default)]
    pub labels: BTreeSet<Label>,
    #[serde(default)]
    pub parent: Option<TaskId>,
    #[serde(default)]
    pub depends_on: BTreeSet<TaskId>,
    #[serde(default)]
    pub assignee: Option<PrincipalId>,
    #[serde(default)]
    pub capabilities: BTreeSet<Capability>,
    #[serde(default)]
    pub key: Option<ConcurrencyKey>,
    #[serde(default)]
    pub policy: Policy,
    /// What must be true before a run counts, with the hash of its text.
    #[serde(default)]
    pub contract: Option<(Contract, Digest)>,
    /// Make it, but let nothing happen to it.
    #[serde(default)]
    pub draft: bool,
    /// Somebody must agree before anything is executed.
    #[serde(default)]
    pub needs_approval: bool,
    #[serde(default)]
    pub start_in: Option<StageName>,
    #[serde(default)]
    pub start_at: Option<Timestamp>,
}

impl NewTask {
    /// A story for the backlog; everything else is as it is when nobody chooses.
    #[must_use]
    pub fn new(project: ProjectId, creator: PrincipalId, title: Title) -> Self {
        Self {
            project,
            creator,
            creator_task: None,
            title,
            body: None,
            kind: Kind::default(),
            priority: Priority::default(),
            labels: BTreeSet::new(),
            parent: None,
            depends_on: BTreeSet::new(),
            assignee: None,
            capabilities: BTreeSet::new(),
            key: None,
            policy: Policy::default(),
            contract: None,
            draft: false,
            needs_approval: false,
            start_in: None,
            start_at: None,
        }
    }
}

/// A wish to hold a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub claimant: Claimant,
    pub nonce: Nonce,
    /// How long without renewal; the task's own choice if absent.
    pub lease: Option<Millis>,
}

/// What a person may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Person {
    /// Change what the task is.
    Edit(Box<Patch>),
    /// Let it happen.
    Publish,
    /// Agree that it is executed.
    Approve,
    /// Put it into another column.
    Move { to: Option<StageName>, start_at: Option<Timestamp> },
    /// Put a hold on it, or lift it.
    Hold { hold: Hold, on: bool, reason: Reason },
    /// Take it off the board.
    Close(Ending),
    /// Put it away.
    Archive,
    /// Let it wait for another task, or no longer.
    Depend { on: TaskId, wait: bool },
    /// Answer its question.
    Answer(Message),
    /// Let its run be tried again.
    Unblock(Reason),
    /// Call its run off.
    Cancel(Reason),
    /// Try again what failed, or now what is delayed.
    Retry(Reason),
    /// Vouch for every line of what was submitted that is still open.
    Waive(Vec<Receipt>),
    /// Say what was found of what was submitted.
    Review(Box<Review>),
    /// Take the run from its holder.
    Release(Reason),
    /// End the run as failed.
    Fail { code: Code, reason: Reason },
}

/// What may be changed of a task; what is absent stays, what is cleared goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Title>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeSet<Label>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<PrincipalId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<BTreeSet<Capability>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Choice>,
    /// What must be true before a run counts, with the hash of its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<(Contract, Digest)>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub clear: BTreeSet<Clear>,
}

/// What an edit may empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clear {
    /// The rest.
    Body,
    /// The only one who may work on it.
    Assignee,
}

/// What the agent of an attempt may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agent {
    /// It is at work.
    Begin,
    /// How far it is.
    Progress(Report),
    /// How far it is, for the next one to go on from.
    Checkpoint(Box<Note>),
    /// It must know something, and waits.
    Ask(Message),
    /// It has the answer.
    Receive(Mark),
    /// It waits for no answer any more, whether there was one or not.
    Withdraw,
    /// It cannot go on.
    Block {
        why: Why,
        reason: Reason,
        /// A command that succeeds once the block is gone.
        condition: Option<Line>,
    },
    /// It failed.
    Fail { code: Code, reason: Reason },
    /// It is done, and here is what it made.
    Complete { summary: Option<Summary>, submission: Submission },
}

/// How far an attempt is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Item>,
    /// Items failed since the last report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedItem>,
}

/// An item that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedItem {
    pub item: Item,
    pub reason: Reason,
}

/// A checkpoint to be: append-only, for the next one to go on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    pub summary: Summary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// The state of the work tree: names such as `base`, `head`, `bundle`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub git: BTreeMap<Label, Line>,
}

/// Something that shows how far a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    pub kind: Label,
    pub reference: Line,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Line>,
}

/// What the supervisor of an attempt may say; a solo agent may say it of itself, except for
/// sights and proofs of death.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supervisor {
    /// It lives.
    Renew { lease: Option<Millis> },
    /// What follows is its word under this number: one that was heard is not heard again.
    Heard { seq: u64 },
    /// It was seen to do something.
    Report(Sight),
    /// It cost something.
    Spend {
        /// Millionths of a currency unit that the attempt has cost so far: told twice, it counts once.
        total_micros: u64,
    },
    /// The agent took too long, and is being stopped.
    TimedOut(Deadline),
    /// The agent used up what one attempt may, and is being stopped.
    Exceeded(Cap),
    /// The agent ended without a word.
    Exited,
    /// The machine, the network or a provider broke the attempt; the agent is not to blame.
    Lost { code: Code, reason: Reason },
    /// The agent was stopped, and this is the proof.
    Stopped {
        death: Death,
        /// Whether a process was seen that would not die.
        survivor: bool,
    },
    /// It gives the run back.
    Release { reason: Reason, until: Option<Timestamp> },
    /// It tried the condition of a block.
    Probed { met: bool },
    /// It kept the work as it is, for the next one to go on from.
    Snapshot(Box<Note>),
    /// It tried to bring the work onto the target branch.
    Merged(Box<Merged>),
    /// This is what the project asks for, before anything is started.
    Bind(Box<Binding>),
    /// Nobody can tell what the project asks for, so nothing is started.
    Unbound(Reason),
}

/// What became of a car of the train.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It landed: the target branch holds it.
    Landed { commit: Line, onto: Line, receipts: Vec<Receipt> },
    /// It cannot land as it is: somebody must put it right.
    Unfit { kind: Unfit, reason: Reason, receipts: Vec<Receipt> },
    /// Nobody may move the target branch now; the work is as good as it was.
    Waits { reason: Reason },
}

/// Why work cannot land as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    /// It changes what others have changed, too.
    Conflict,
    /// The gates fail on the merged tree.
    Gates,
    /// Merged, it changes nothing.
    Empty,
    /// There is no commit to merge.
    NoCommits,
}

impl Unfit {
    /// The word for it, as the run's code of failure.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Conflict => "merge_conflict",
            Self::Gates => "merge_gates",
            Self::Empty => "merge_empty",
            Self::NoCommits => "merge_no_commits",
        }
    }
}

/// What was found of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub receipts: Vec<Receipt>,
    /// The exact commit that was checked, if there is one: what comes after works on it and on nothing newer.
    pub commit: Option<Commit>,
    /// Paths that somebody must look at, and that are not as they were.
    pub guarded: Vec<Line>,
}

/// What a reviewer found of a submission whose commands passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Who, as the server knows it.
    pub by: PrincipalId,
    pub approved: bool,
    /// How sure, in percent.
    pub confidence: u8,
    /// What is still to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Item>,
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
}

/// What time and other tasks may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Time {
    /// Whatever is due happens.
    Pass,
    /// Something happened to another task.
    React(Reaction),
}
