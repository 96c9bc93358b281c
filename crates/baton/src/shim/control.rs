//! What goes over the control socket: a line of JSON each way.

use serde::{Deserialize, Serialize};

use super::bytes;
use super::told::{Exit, Proof, Status};

/// Connections at once: the worker, the next worker, and somebody who looks.
pub(super) const CLIENTS_MAX: usize = 4;
/// Bytes that one request may write to the agent.
pub const WRITE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line: the largest write in base64, and what is around it.
pub(super) const LINE_BYTES_MAX: usize = WRITE_BYTES_MAX / 3 * 4 + 1_024;
/// Bytes that wait for a client that does not read; a slower one is let go and may come back.
pub(super) const OUTBOX_BYTES_MAX: usize = 64 << 10;

/// What a shim may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Lets the agent live until then.
    Renew { until_boot_ms: u64 },
    /// Gives the agent something to read.
    Write {
        #[serde(with = "bytes")]
        b64: Vec<u8>,
    },
    /// Ends what the agent reads, after all that was written.
    CloseStdin {},
    /// Interrupts the agent, or stops the time of its tree.
    Signal(Nudge),
    /// Ends the tree, by force after so long.
    Stop {
        #[serde(default)]
        grace_ms: Option<u64>,
    },
    /// Asks how it is.
    Status {},
}

/// What an agent may be told without ending anything by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nudge {
    /// As Ctrl-C does; it may answer as it likes.
    Interrupt,
    /// The whole tree stands still, so that its files do.
    Freeze,
    /// It goes on.
    Thaw,
}

/// What a shim says: an answer to each request in order, and in between what happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done, or will be.
    Done {},
    /// It is not, and nothing changed.
    Refused { why: String },
    /// How it is.
    State { nonce: String, status: Status, spool: u64, fence_boot_ms: u64 },
    /// The spool has come so far.
    Spool(u64),
    /// The agent ended.
    Exited(Exit),
    /// Its tree has ended, or something would not.
    Stopped(Proof),
}

impl Answer {
    /// Its line.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("an answer is plain JSON");
        line.push(b'\n');
        line
    }

    /// Whether it answers a request.
    pub(super) fn is_reply(&self) -> bool {
        match self {
            Self::Done {} | Self::Refused { .. } | Self::State { .. } => true,
            Self::Spool(_) | Self::Exited(_) | Self::Stopped(_) => false,
        }
    }
}
