//! What is to be done about an attempt.

use crate::adapters::Reply;

use super::{At, Report};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Tell the server.
    Tell(Report),
    /// Answer the agent. If it does not wait for that any more, nothing is lost.
    Say(Reply),
    /// Let it take another turn; if it cannot, say [`super::Input::Deaf`].
    Prompt(String),
    /// Let it stop what it does, in its own words or by SIGINT.
    Interrupt,
    /// End its tree: at once by TERM, after the grace by force. Answered by [`super::Input::Stopped`] or
    /// [`super::Input::ShimGone`], also if nothing was ever started.
    Stop { grace_ms: u64 },
    /// Move the shim's fence.
    Renew { until: At },
    /// Keep the work as it is, and say [`super::Input::Kept`]; tell it with [`super::Course::conversation`].
    Snapshot(Why),
    /// Close its worktree: something of it may still write there.
    Quarantine,
    /// Open it again: death was proved after all.
    Lift,
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
