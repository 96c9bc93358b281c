//! What a worker says.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::Unfit;
use baton_domain::deadline::Deadline;
use baton_domain::ids::{Account, AttemptId, Capability, Commit, DeploymentId, Digest, Label};
use baton_domain::limits::{CAPABILITIES_MAX, EVIDENCE_MAX, GUARDED_MAX, LINES_MAX};
use baton_domain::run::{Cap, Death};
use baton_domain::text::{Code, Line, Message, Reason, Summary, Text};

use super::frame::frames;
use super::parts::{Alive, Arrived, Conversation, GateResult, Offered, Phase};
use super::work::Work;
use super::{ACCOUNTS_MAX, AGENTS_MAX, SLOTS_MAX};
use crate::contract::PROTECTED_MAX;
use crate::shape::When;
use crate::views::{ContractLine, LOG_LINES_MAX, LogLine};

frames! {
    /// What a worker says.
    "worker": pub enum Up {
        /// The first frame of a connection: who comes, what it can do, and what it still has.
        Hello = "hello" {
            /// The protocol that it speaks.
            protocol: u32,
            /// The machine, by a name that stays the same; whoever comes again under it takes the place of the connection before.
            machine: Label,
            /// Which process it is: another one under the same name is turned away as long as this one is connected.
            process: Option<Text<64>>,
            /// The version of the worker.
            version: Text<64>,
            /// The installation that its attempts belong to, if it was here before.
            deployment: Option<DeploymentId>,
            /// What its agents are able to do.
            #[at_most(CAPABILITIES_MAX)]
            capabilities: Option<BTreeSet<Capability>>,
            /// Runs that it may hold at once.
            #[at_most(SLOTS_MAX)]
            slots: u16,
            /// Accounts whose rate limits its agents use, the preferred one first.
            #[at_most(ACCOUNTS_MAX)]
            accounts: Option<Vec<Account>>,
            /// Its agents, the one first that it runs where a task names none. Their names are roles, which have limits.
            #[at_most(AGENTS_MAX)]
            agents: Option<Vec<Offered>>,
            /// Attempts that it has, running or over, of which something is not settled.
            #[at_most(SLOTS_MAX)]
            attempts: Option<Vec<Alive>>,
        }

        /// Room for so many more runs. A connection begins with none; each dispatch uses one up.
        Credit = "credit" {
            /// How many more.
            #[at_most(SLOTS_MAX)]
            n: u16,
            /// Room for so many more runs whose submission is to be verified; those need no agent.
            #[at_most(SLOTS_MAX)]
            checks: Option<u16>,
            /// Room for so many more cars of the merge train, of projects whose home the worker is.
            #[at_most(SLOTS_MAX)]
            merges: Option<u16>,
        }

        /// How far an agent is.
        Lifecycle = "lifecycle" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// How far.
            phase: Phase,
            /// Which deadline has passed, if one has.
            deadline: Option<Deadline>,
            /// Which cap was reached, if one was: turns, tool calls or tokens.
            cap: Option<Cap>,
            /// When it was seen, on the clock of the worker.
            at: Option<When>,
        }

        /// What an attempt has cost so far: totals, so that a frame told twice counts once.
        Usage = "usage" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// Millionths of a currency unit.
            total_micros: u64,
            /// Tokens read.
            input_tokens: Option<u64>,
            /// Tokens written.
            output_tokens: Option<u64>,
            /// Tokens read that a cache had.
            cached_tokens: Option<u64>,
        }

        /// A provider limits an account.
        Limit = "limit" {
            /// The attempt that met it.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// Which account: one of the hello.
            account: Account,
            /// Whether it ended the turn. A soft one is a notice and changes nothing.
            hard: bool,
            /// When the account may be used again; a hard limit without it lasts five minutes.
            resets_at: Option<When>,
        }

        /// An agent wants to do something that it may not do by itself, and waits.
        Permission = "permission" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// What the answer will name.
            id: Text<64>,
            /// What it wants to do.
            what: Message,
        }

        /// An agent asks, and waits.
        Question = "question" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// What the answer will name.
            id: Text<64>,
            /// What it asks.
            text: Message,
        }

        /// What the project asks of the run, from the commit that its work begins from. Nothing is started before it is
        /// acknowledged.
        Bind = "bind" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// The commit; none of a plain folder.
            base: Option<Commit>,
            /// The lines of the project and of the stage.
            #[at_most(LINES_MAX)]
            lines: Vec<ContractLine>,
            /// Paths whose change somebody must look at, as patterns.
            #[at_most(PROTECTED_MAX)]
            protected: Option<Vec<Line>>,
            /// Why nobody can tell what it asks for: then the run is parked.
            wrong: Option<Reason>,
        }

        /// What was found of what was submitted, of every command that was asked for.
        Gates = "gates" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// The exact commit; none of a plain folder.
            commit: Option<Commit>,
            /// What the commands were run in: equal digests are equal surroundings.
            environment: Digest,
            /// What became of each.
            #[at_most(LINES_MAX)]
            results: Vec<GateResult>,
            /// Protected paths that are not as they were when the task began.
            #[at_most(GUARDED_MAX)]
            guarded: Option<Vec<Line>>,
        }

        /// The work as it is now, kept where the next attempt finds it.
        Checkpoint = "checkpoint" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// How far it is.
            summary: Option<Summary>,
            /// The state of the work tree: names such as base, head, bundle.
            #[at_most(EVIDENCE_MAX)]
            git: BTreeMap<Label, Line>,
            /// The conversation of its agent, if the next attempt can go on with it.
            session: Option<Conversation>,
            /// What holds the work, once the server has all of it as blobs.
            work: Option<Work>,
            /// What its agent said lately, as a blob that the server has.
            log: Option<Digest>,
        }

        /// The agent's process ended by itself. Its tree may still have to be stopped.
        Exited = "exited" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// What it exited with.
            status: Option<u8>,
            /// The signal that ended it.
            signal: Option<u8>,
        }

        /// Everything of the attempt was stopped, and this is the proof.
        Stopped = "stopped" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// How its death was proved.
            death: Death,
            /// Whether a process was seen that would not die.
            survivor: bool,
        }

        /// The machine, the network or a provider broke the attempt; the agent is not to blame.
        Lost = "lost" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// A stable word for what broke.
            code: Code,
            /// What happened.
            reason: Reason,
        }

        /// The worker gives the run back.
        Released = "released" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// Why.
            reason: Reason,
            /// Not before this time, if it must wait.
            until: Option<When>,
        }

        /// The condition of a block was tried.
        Probed = "probed" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// Whether it is met.
            met: bool,
        }

        /// What became of a car of the merge train.
        Merged = "merged" {
            /// Which attempt.
            attempt: AttemptId,
            /// The number of the frame among those of its attempt, from 1.
            seq: u64,
            /// Whether it landed.
            how: Arrived,
            /// The commit with which the target branch holds it, if it landed.
            commit: Option<Commit>,
            /// The target branch.
            onto: Option<Line>,
            /// Why it cannot land as it is.
            unfit: Option<Unfit>,
            /// The same in words, for whoever puts it right; or why the branch may not be moved now.
            reason: Option<Reason>,
        }

        /// These attempts live: their leases are renewed.
        Heartbeat = "heartbeat" {
            /// Which.
            #[at_most(SLOTS_MAX)]
            attempts: Vec<AttemptId>,
        }

        /// What an agent said, since the line that was asked for: the answer to `listen`. It is not kept.
        Log = "log" {
            /// Which attempt.
            attempt: AttemptId,
            /// The lines, the oldest first; none if there are no newer ones.
            #[at_most(LOG_LINES_MAX)]
            lines: Vec<LogLine>,
        }

        /// The worker goes. Its leases live on until they end.
        Bye = "bye" {
            /// Why.
            reason: Option<Reason>,
        }
    }
}

impl Up {
    /// The attempt that it concerns and its number among the frames of it.
    #[must_use]
    pub fn concerns(&self) -> Option<(AttemptId, u64)> {
        Some(match self {
            Self::Lifecycle(frame) => (frame.attempt, frame.seq),
            Self::Usage(frame) => (frame.attempt, frame.seq),
            Self::Limit(frame) => (frame.attempt, frame.seq),
            Self::Permission(frame) => (frame.attempt, frame.seq),
            Self::Question(frame) => (frame.attempt, frame.seq),
            Self::Bind(frame) => (frame.attempt, frame.seq),
            Self::Gates(frame) => (frame.attempt, frame.seq),
            Self::Checkpoint(frame) => (frame.attempt, frame.seq),
            Self::Exited(frame) => (frame.attempt, frame.seq),
            Self::Stopped(frame) => (frame.attempt, frame.seq),
            Self::Lost(frame) => (frame.attempt, frame.seq),
            Self::Released(frame) => (frame.attempt, frame.seq),
            Self::Probed(frame) => (frame.attempt, frame.seq),
            Self::Merged(frame) => (frame.attempt, frame.seq),
            Self::Hello(_) | Self::Credit(_) | Self::Heartbeat(_) | Self::Log(_) | Self::Bye(_) => {
                return None;
            }
        })
    }

    /// The same frame under another number.
    #[must_use]
    pub fn numbered(mut self, number: u64) -> Self {
        match &mut self {
            Self::Lifecycle(frame) => frame.seq = number,
            Self::Usage(frame) => frame.seq = number,
            Self::Limit(frame) => frame.seq = number,
            Self::Permission(frame) => frame.seq = number,
            Self::Question(frame) => frame.seq = number,
            Self::Bind(frame) => frame.seq = number,
            Self::Gates(frame) => frame.seq = number,
            Self::Checkpoint(frame) => frame.seq = number,
            Self::Exited(frame) => frame.seq = number,
            Self::Stopped(frame) => frame.seq = number,
            Self::Lost(frame) => frame.seq = number,
            Self::Released(frame) => frame.seq = number,
            Self::Probed(frame) => frame.seq = number,
            Self::Merged(frame) => frame.seq = number,
            Self::Hello(_) | Self::Credit(_) | Self::Heartbeat(_) | Self::Log(_) | Self::Bye(_) => {
            }
        }
        self
    }

    /// Whether it ends something, so that losing it would leave a run hanging until its lease ends.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Exited(_)
            | Self::Stopped(_)
            | Self::Lost(_)
            | Self::Released(_)
            | Self::Probed(_)
            | Self::Merged(_)
            | Self::Bind(_)
            | Self::Gates(_) => true,
            Self::Lifecycle(frame) => matches!(frame.phase, Phase::TimedOut | Phase::Exceeded),
            Self::Hello(_)
            | Self::Credit(_)
            | Self::Usage(_)
            | Self::Limit(_)
            | Self::Permission(_)
            | Self::Question(_)
            | Self::Checkpoint(_)
            | Self::Heartbeat(_)
            | Self::Log(_)
            | Self::Bye(_) => false,
        }
    }
}
