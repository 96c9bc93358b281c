//! Worktrees, snapshots and everything that is asked of git, with real repositories and the real git.

mod branches;
mod creating;
mod elsewhere;
mod gates;
mod hostile;
mod keeping;
mod plain;
mod snapshots;
mod train;
mod world;
