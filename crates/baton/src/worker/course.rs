//! The course of one attempt: what is to be done about an agent, given what was seen of it and when.
//!
//! It is pure. Whoever drives it feeds it everything that happens, in the order in which it happened and with the
//! time at which it did, and carries out what it answers. It never reads a clock: it says when it wants to be asked
//! next. A worker that comes back makes a new one, feeds it the whole spool again and says [`Input::Back`]; until
//! then nothing is answered, and from then on only what the one before it had not told.

use baton_domain::ids::{Account, AttemptId};
use baton_domain::run::Purpose;
use baton_domain::text::{Code, Reason};
use baton_domain::time::Timestamp;

use crate::adapters::{Consent, Reply, Seen};
use crate::protocol::{Caps, Conversation, Deadlines, Standing, Verdict};
use crate::shim::{Cause, Exit, Proof};

pub use report::{Report, Until};
pub use told::Told;

mod report;
mod told;

/// A moment: milliseconds since the machine was started, time that it slept included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(pub u64);

impl At {
    /// So much later.
    #[must_use]
    pub fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What holds for an attempt from its beginning to its end: of its dispatch, and of the worker's settings.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How long each phase may take.
    pub deadlines: Deadlines,
    /// What it may use.
    pub caps: Caps,
    /// How long its lease lives without renewal.
    pub lease_ms: u64,
    /// How long its processes get between being asked and being made to end.
    pub grace_ms: u64,
    /// What the agent may do without asking.
    pub consent: Consent,
    /// How often its work is kept.
    pub snapshot_every_ms: u64,
    /// What the run is held for.
    pub purpose: Purpose,
    /// The account that it was claimed under.
    pub account: Option<Account>,
    /// The program, as settings call it, if its conversations can be gone on with.
    pub program: Option<&'static str>,
}

/// What happens to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The place for it is made; from now on a process may come to be.
    Prepared,
    /// It cannot be started, and nothing of it runs.
    Refused(Broken),
    /// Its process runs.
    Launched,
    /// What it is told is written to it.
    PromptWritten,
    /// Something was seen of the agent.
    Seen(Seen),
    /// What was last to be written cannot be: the program takes no more turns.
    Deaf,
    /// Its shim begins to end it.
    Ending(Cause),
    /// Its first process ended.
    Exited(Exit),
    /// Its tree ended, or something of it would not. An attempt of which nothing was started has a proof, too:
    /// `not_started`.
    Stopped(Proof),
    /// Its shim is gone, and this is what could be proved without it.
    ShimGone(Proof),
    /// The server says something of it.
    Said(Said),
    /// Its lease lives so long from now on.
    Renewed { lease_ms: u64 },
    /// The server cannot be reached.
    Cut,
    /// A fingerprint of the work as it is now.
    Moved { tree: String },
    /// How much processor time its processes have used so far.
    Busy { cpu_ms: u64 },
    /// The work was kept, or could not be.
    Kept,
    /// The machine slept for so long, until now.
    Slept { millis: u64 },
    /// The worker ends, and the attempt with it.
    Drain,
    /// Time has passed. Whatever the spool holds is to be fed first.
    Tick,
    /// Everything that the spool holds was fed again.
    Back,
}

/// Why an attempt cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Something of this machine is broken, or set up wrongly.
    Lost { code: Code, reason: Reason },
    /// Nothing is: the run is given back.
    Back { reason: Reason, until: Option<Timestamp> },
}

/// What the server says of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The answer to what its agent asked.
    Answer { id: String, text: String },
    /// It is to be stopped, and this will count.
    Cancel(Verdict),
    /// It holds its run no longer.
    Fenced(Code),
    /// How its run stands.
    Stands(Standing),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Tell the server.
    Tell(Report),
    /// Answer the agent. If it does not wait for that any more, nothing is lost.
    Say(Reply),
    /// Let it take another turn; if it cannot, say [`Input::Deaf`].
    Prompt(String),
    /// Let it stop what it does, in its own words or by SIGINT.
    Interrupt,
    /// End its tree: at once by TERM, after the grace by force. Answered by [`Input::Stopped`] or
    /// [`Input::ShimGone`], also if nothing was ever started.
    Stop { grace_ms: u64 },
    /// Move the shim's fence.
    Renew { until: At },
    /// Keep the work as it is, and say [`Input::Kept`]; tell it with [`Course::conversation`].
    Snapshot(Why),
    /// Close its worktree: something of it may still write there.
    Quarantine,
    /// Everything is told: forget it, and free its slot.
    Over,
}

/// What the work is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is time.
    Timer,
    /// The agent goes over to something else: it asks, or its turn ended.
    Phase,
    /// Its processes have ended.
    Stop,
}

/// The machine of one attempt.
#[derive(Clone, Debug)]
pub struct Course {
    attempt: AttemptId,
    terms: Terms,
    told: Told,
    is_over: bool,
    replays: bool,
}

impl Course {
    /// An attempt that was dispatched now.
    #[must_use]
    pub fn new(attempt: AttemptId, terms: Terms, at: At) -> Self {
        let _ = at;
        Self { attempt, terms, told: Told::default(), is_over: false, replays: false }
    }

    /// An attempt that was dispatched then and of which a worker before told this much. Feed it the spool.
    #[must_use]
    pub fn returning(attempt: AttemptId, terms: Terms, told: Told, dispatched: At) -> Self {
        Self { told, replays: true, ..Self::new(attempt, terms, dispatched) }
    }

    /// Goes on by one thing that happened, and says what is to be done, in this order.
    pub fn step(&mut self, input: Input, at: At) -> Vec<Act> {
        let _ = at;
        if self.is_over {
            return vec![];
        }
        let acts = match input {
            Input::Exited(_) => vec![Act::Stop { grace_ms: self.terms.grace_ms }],
            Input::Stopped(proof) | Input::ShimGone(proof) if !proof.survivor => {
                self.is_over = true;
                vec![Act::Tell(Report::Stopped(proof)), Act::Over]
            }
            _ => vec![],
        };
        if self.replays { vec![] } else { acts }
    }

    /// When [`Input::Tick`] is wanted next.
    #[must_use]
    pub fn due(&self) -> Option<At> {
        None
    }

    /// How far it is, in one word: preparing, starting, working, asking, stopping, over.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        if self.is_over { "over" } else { "preparing" }
    }

    /// Which attempt it is.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// The conversation of its agent, as far as it can be gone on with, for the frame that tells a snapshot.
    #[must_use]
    pub fn conversation(&self) -> Option<Conversation> {
        None
    }
}
