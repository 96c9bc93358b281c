//! What happens to an attempt.

use baton_domain::text::{Code, Reason};
use baton_domain::time::Timestamp;

use crate::adapters::Seen;
use crate::protocol::{Standing, Verdict};
use crate::shim::{Cause, Exit, Proof};

use super::At;

/// What happens to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The place for it is made; from now on a process may come to be.
    Prepared,
    /// It cannot be started, and nothing of it runs.
    Refused(Broken),
    /// Its process runs.
    Launched,
    /// What it is told is written to it: the first record of its input, or its start if that came with it.
    PromptWritten,
    /// Something was seen of the agent.
    Seen(Seen),
    /// What was last to be written cannot be: the program takes no more turns.
    Deaf,
    /// What was last to be written could not be now: its shim does not answer.
    Unheard,
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
    /// Its lease was renewed: so long its processes may live without another one.
    Renewed { until: At },
    /// The server cannot be reached.
    Cut,
    /// A fingerprint of the work as it is now.
    Moved { tree: String },
    /// How much processor time its processes have used so far.
    Busy { cpu_ms: u64 },
    /// The work was kept, or could not be.
    Kept,
    /// What it submitted was checked, and what was found is told.
    Checked,
    /// It could not be checked, for this reason.
    Unchecked(String),
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
    /// Its agent left a checkpoint.
    Checkpointed,
}
