//! Runs: what holders and people ask for.

mod block;
mod claim;
mod diff;
mod end;
mod exit;
mod force;
mod handoff;
mod kept;
mod logs;
mod question;
mod read;
mod report;
mod review;
mod start;
mod submitted;
mod wait;
mod waive;
pub(super) mod words;

pub use block::{Block, Release, Unblock};
pub use claim::Claim;
pub use diff::Diff;
pub use end::{Cancel, Complete, Fail, Retry};
pub use exit::Exit;
pub use force::{ForceFail, ForceRelease};
pub use handoff::{Handoff, packet};
pub use kept::newest_work;
pub use logs::Logs;
pub use question::{Answer, Ask, Receive};
pub use read::{List, Show};
pub use report::{Begin, Checkpoint, Heartbeat, Progress};
pub use review::Review;
pub use start::Start;
pub use wait::Wait;
pub use waive::Waive;

/// What begins the names in the `git` of a checkpoint that workers keep for themselves.
pub const WORKERS_OWN: &str = "baton-";

#[cfg(test)]
mod tests;
