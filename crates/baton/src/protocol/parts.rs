//! What frames are made of.

use std::collections::BTreeSet;
use std::fmt;

use baton_domain::deadline::{Allows, Deadline, allowed};
use baton_domain::ids::{Account, AttemptId, Capability, Digest, LineId};
use baton_domain::limits::CAPABILITIES_MAX;
use baton_domain::policy::Policy;
use baton_domain::text::{CLAIM_TOKEN_PREFIX, Line, Reason, Text};
use baton_domain::time::Millis;
use serde::{Deserialize, Serialize};

use super::PACKET_TEXT_BYTES_MAX;
use crate::shape::{Form, Shape, Shaped, record, words};
use crate::views::HandoffView;

words! {
    /// How far the agent of an attempt is, or what became of it.
    pub enum Phase {
        /// The worker has the dispatch and prepares; told again while that takes long.
        Accepted = "accepted",
        /// The process runs.
        ProcessStarted = "process_started",
        /// The prompt is written.
        PromptWritten = "prompt_written",
        /// The agent spoke.
        FirstEvent = "first_event",
        /// The agent said something visible.
        FirstVisibleEvent = "first_visible_event",
        /// The agent goes on speaking; told now and then.
        Streaming = "streaming",
        /// A tool began.
        ToolStarted = "tool_started",
        /// A tool ended.
        ToolFinished = "tool_finished",
        /// The agent was given the answer that it waited for.
        InputReceived = "input_received",
        /// The agent waits no longer for what it asked: it took the question back, or nobody knows what became of it.
        InputWithdrawn = "input_withdrawn",
        /// The work moved: its tree changed, something new was read, or its processes were busy; told now and then.
        Progressed = "progressed",
        /// A deadline has passed, and the agent is being stopped.
        TimedOut = "timed_out",
        /// The agent used up what one attempt may, and is being stopped.
        Exceeded = "exceeded",
    }

    /// How a run stands whose agent goes on.
    pub enum Standing {
        /// The agent works.
        Working = "working",
        /// A person is asked, by the agent itself or through its worker: silence is no hang.
        Waiting = "waiting",
        /// What it submitted is looked at: nothing is expected of it.
        Verifying = "verifying",
        /// Somebody holds the task: a car of the train steps out. Told to nobody else.
        Held = "held",
    }

    /// What became of a car of the merge train.
    pub enum Arrived {
        /// The target branch holds it.
        Landed = "landed",
        /// It cannot land as it is.
        Unfit = "unfit",
        /// The target branch may not be moved now.
        Waits = "waits",
    }

    /// How a command of a contract ended.
    pub enum GateEnd {
        /// By itself.
        Exited = "exited",
        /// By a signal.
        Signalled = "signalled",
        /// Its time was up.
        TimedOut = "timed_out",
        /// It never began.
        NotStarted = "not_started",
    }

    /// What a dispatch is for.
    pub enum Turn {
        /// To do the work, for the first time in this run.
        Fresh = "fresh",
        /// To go on from where others were.
        Continue = "continue",
    }

    /// Why an agent has to be stopped: what will count once its death is proved.
    pub enum Verdict {
        /// It says that it is done, and nothing is left to check.
        Completed = "completed",
        /// It failed, or was failed.
        Failed = "failed",
        /// It parked the run.
        Blocked = "blocked",
        /// The run is given back.
        Released = "released",
        /// It took too long.
        TimedOut = "timed_out",
        /// Its lease ran out.
        Lost = "lost",
        /// Somebody called it off.
        Cancelled = "cancelled",
        /// It ended and said nothing.
        EndedWithoutResult = "ended_without_result",
    }
}

record! {
    /// An attempt that a worker has, as it says when it comes back.
    pub struct Alive {
        /// Which one.
        attempt: AttemptId,
        /// The token of its dispatch; without it a late proof of death is not taken in.
        token: Option<Secret>,
        /// The last number that the worker gave to a frame of it.
        last_seq: u64,
        /// The question that its agent waits on, if it waits on one.
        question: Option<Text<64>>,
    }

    /// An agent that a worker can run.
    pub struct Offered {
        /// Its name, which tasks use with `agent:` before it.
        name: Capability,
        /// The account whose rate limits it uses.
        account: Option<Account>,
        /// What it is able to do.
        #[at_most(CAPABILITIES_MAX)]
        capabilities: Option<BTreeSet<Capability>>,
    }

    /// How long each phase may take, in milliseconds.
    pub struct Deadlines {
        /// From the dispatch, or from the last `accepted`, to a running process.
        process_start: u64,
        /// From the process to the prompt being written.
        prompt_write: u64,
        /// From the prompt to any event of the agent.
        first_event: u64,
        /// From the prompt to an event that a person would see.
        first_visible_event: u64,
        /// Between two events while no tool runs.
        stream_idle: u64,
        /// While a tool runs.
        tool_idle: u64,
        /// While a question is open.
        user_input: u64,
        /// From the order to stop until death is proved.
        cleanup: u64,
        /// The attempt as a whole.
        wall_clock: u64,
    }

    /// What one attempt may use.
    pub struct Caps {
        /// Turns that it may take.
        turns: u32,
        /// Tools that it may call.
        tool_calls: u32,
        /// Tokens that it may read and write, cached ones aside.
        tokens: u64,
        /// Millionths of a currency unit that are reserved for it; the server counts them.
        budget_micros: u64,
    }

    /// A conversation that an agent program can go on with, and what was booked of it.
    pub struct Conversation {
        /// Which program it is with, as settings call it.
        program: Text<32>,
        /// What the program calls it.
        id: Text<128>,
        /// Tokens read.
        input_tokens: u64,
        /// Tokens written.
        output_tokens: u64,
        /// Tokens read that a cache had.
        cached_tokens: u64,
        /// Millionths of a currency unit.
        cost_micros: u64,
    }

    /// A command of a contract that is to be run on what was submitted.
    pub struct Ask {
        /// The line.
        line: LineId,
        /// The command, for a shell.
        command: Line,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    }

    /// What became of a command of a contract.
    pub struct GateResult {
        /// The line.
        line: LineId,
        /// How it ended.
        ended: GateEnd,
        /// The code that it exited with, or the number of the signal.
        code: Option<u32>,
        /// Why it never began.
        why: Option<Reason>,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// What it said at the end, handed in as a blob.
        log: Option<Digest>,
        /// Bytes that it said before that and that were dropped.
        dropped_bytes: Option<u64>,
        /// The last that it said, for whoever goes on: in the log is more.
        tail: Option<Line>,
    }

    /// A lease that was renewed.
    pub struct Renewal {
        /// Whose.
        attempt: AttemptId,
        /// How long it lives from now on without renewal, in milliseconds.
        lease_ms: u64,
    }

    /// Which frame a problem is about.
    pub struct About {
        /// Its word, as far as it could be read.
        frame: Option<Text<32>>,
        /// Its attempt.
        attempt: Option<AttemptId>,
        /// Its number.
        seq: Option<u64>,
    }
}

impl Deadlines {
    /// Those that a policy allows.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let millis = |deadline| allowed(deadline, policy).0;
        Self {
            process_start: millis(Deadline::ProcessStart),
            prompt_write: millis(Deadline::PromptWrite),
            first_event: millis(Deadline::FirstEvent),
            first_visible_event: millis(Deadline::FirstVisibleEvent),
            stream_idle: millis(Deadline::StreamIdle),
            tool_idle: millis(Deadline::ToolIdle),
            user_input: millis(Deadline::UserInput),
            cleanup: millis(Deadline::Cleanup),
            wall_clock: millis(Deadline::WallClock),
        }
    }
}

impl Conversation {
    /// The name under which it is kept with a checkpoint. Names that begin like it are the workers' own.
    pub const KEPT_AS: &str = "baton-session";

    /// In one line, as it is kept.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { program, id, input_tokens, output_tokens, cached_tokens, cost_micros } = self;
        format!("{program} {id} {input_tokens} {output_tokens} {cached_tokens} {cost_micros}")
    }

    /// Reads it back; none if there is none to go on with.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let program = Text::new("program", words.next()?).ok()?;
        let id = Text::new("id", words.next()?).ok()?;
        let mut count = || words.next()?.parse().ok();
        Some(Self {
            program,
            id,
            input_tokens: count()?,
            output_tokens: count()?,
            cached_tokens: count()?,
            cost_micros: count()?,
        })
    }
}

impl Allows for Deadlines {
    fn allows(&self, deadline: Deadline) -> Millis {
        Millis(match deadline {
            Deadline::ProcessStart => self.process_start,
            Deadline::PromptWrite => self.prompt_write,
            Deadline::FirstEvent => self.first_event,
            Deadline::FirstVisibleEvent => self.first_visible_event,
            Deadline::StreamIdle => self.stream_idle,
            Deadline::ToolIdle => self.tool_idle,
            Deadline::UserInput => self.user_input,
            Deadline::Cleanup => self.cleanup,
            Deadline::WallClock => self.wall_clock,
        })
    }
}

impl Caps {
    /// Those that a policy allows.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self {
            turns: policy.turns_max,
            tool_calls: policy.tool_calls_max,
            tokens: policy.tokens_max,
            budget_micros: policy.budget_micros,
        }
    }
}

/// A claim token on its way. It has no `Display`, and its `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a token.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CLAIM_TOKEN_PREFIX}…")
    }
}

impl Shaped for Secret {
    fn shape() -> Shape {
        let (pattern, example) = ("^batonc_[0-9A-Za-z]+$", "batonc_…");
        Shape::Text {
            bytes_max: 128,
            form: Some(Form { pattern, example, longest: None, usual: None }),
        }
    }
}

/// The hand-off of `run handoff`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Packet(pub HandoffView);

impl Shaped for Packet {
    /// The same as elsewhere, but for the text, which may be as long as a message allows: an agent
    /// that writes many short lines must not make its task impossible to hand on.
    fn shape() -> Shape {
        let mut shape = HandoffView::shape();
        if let Shape::Record(record) = &mut shape
            && let Some(text) = record.fields.iter_mut().find(|field| field.name == "text")
        {
            text.shape = Shape::Text { bytes_max: PACKET_TEXT_BYTES_MAX, form: None };
        }
        shape
    }
}
