//! What a shim is told to run, written by the worker before the shim starts.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use baton_domain::ids::{AttemptId, RunId, TenantId};
use serde::{Deserialize, Serialize};

use super::bytes;
use super::spool::{SPOOL_BYTES_MIN, SPOOL_BYTES_USUAL};

/// Bytes of a spec: an environment, a command line and a first prompt, each as large as they come.
pub const SPEC_BYTES_MAX: u64 = 8 << 20;
/// Bytes that an agent may be given at its start; as many as a request may write later.
pub const STDIN_BYTES_MAX: usize = 4 << 20;
/// Words of a command line.
pub const ARGV_MAX: usize = 1_024;
/// Variables of an environment.
pub const ENV_MAX: usize = 1_024;
/// Bytes of one word or variable: what Linux takes in one string, less the end.
pub const WORD_BYTES_MAX: usize = (128 << 10) - 1;
/// Paths that an agent is not to see.
pub const HIDDEN_MAX: usize = 64;
/// How long a stop waits at most between the request to end and the kill: as long as a lease.
pub const GRACE_MS_MAX: u64 = 300_000;
/// How long a proof is awaited at most before a survivor is told.
pub const PROOF_MS_MAX: u64 = 60_000;

/// Everything that a shim needs to know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Which Baton this belongs to: two on one machine never reap each other.
    pub deployment: String,
    pub tenant: TenantId,
    pub run: RunId,
    pub attempt: AttemptId,
    /// Says that a shim is the one that was started for this spec.
    pub nonce: String,
    /// The program, looked for in the `PATH` of `env`, and its arguments.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// The agent's own home; the worker names it in `env`, too.
    pub home: PathBuf,
    /// What the agent reads first.
    #[serde(default, with = "bytes", skip_serializing_if = "Vec::is_empty")]
    pub stdin: Vec<u8>,
    /// Whether its input ends after that.
    #[serde(default)]
    pub close_stdin: bool,
    #[serde(default)]
    pub limits: Limits,
    /// Milliseconds since boot until which the agent may live, unless it is renewed.
    pub fence_boot_ms: u64,
    /// How long the agent has to end when it is asked to.
    pub grace_ms: u64,
    /// How long a proof of death is awaited before a survivor is told.
    #[serde(default = "proof_ms_usual")]
    pub proof_ms: u64,
    #[serde(default = "spool_bytes_usual")]
    pub spool_bytes_max: u64,
    #[serde(default)]
    pub isolation: Wanted,
    /// What the agent is not to see, where mounts of its own are possible: Baton's data, for one. Its own
    /// folder and home may lie in there. The attempt's folder and the doors to other daemons are hidden
    /// without being named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<PathBuf>,
    /// What of that it may read all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<PathBuf>,
    /// What it may read and run but not change, where mounts of its own are possible: its user's checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<PathBuf>,
    /// A folder for what it keeps for a while. Where mounts of its own are possible, this is its `/tmp`, and
    /// it does not see anybody else's; elsewhere `TMPDIR` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<PathBuf>,
}

/// Bounds that the kernel keeps; none is the worker's own. Core dumps are always off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processes and threads of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Descriptors of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Bytes of address space of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// How an agent is to be kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// A namespace of its own for users, processes, mounts and messages.
    #[serde(default)]
    pub namespace: Want,
    /// A control group of its own.
    #[serde(default)]
    pub cgroup: Want,
}

/// How much something is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// Where the machine allows it; where it does not, that is told.
    #[default]
    Try,
    /// Or the agent does not start.
    Require,
    /// Not at all.
    Skip,
}

fn proof_ms_usual() -> u64 {
    10_000
}

fn spool_bytes_usual() -> u64 {
    SPOOL_BYTES_USUAL
}

/// The environment and the first words hold secrets: what is logged shows neither.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Spec");
        shown.field("attempt", &self.attempt).field("program", &self.argv.first());
        shown.field("isolation", &self.isolation).finish_non_exhaustive()
    }
}

impl Spec {
    /// Whether it can be run as it is.
    ///
    /// # Errors
    /// The first field that breaks its rule, and the rule.
    pub fn check(&self) -> io::Result<()> {
        let plain = |text: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !text.is_empty()
                && text.len() <= 64
                && !text.starts_with('.')
                && text.chars().all(known)
        };
        let word = |text: &str| text.len() <= WORD_BYTES_MAX && !text.contains('\0');
        let name = |text: &str| word(text) && !text.is_empty() && !text.contains('=');
        let rules = [
            ("deployment", "must be 1 to 64 letters, digits, - _ .", plain(&self.deployment)),
            ("nonce", "must be 1 to 64 letters, digits, - _ .", plain(&self.nonce)),
            ("attempt", "must be one of the run's task", self.attempt.task == self.run.task),
            ("argv", "must name a program", self.argv.first().is_some_and(|one| !one.is_empty())),
            ("argv", "must have at most 1024 words", self.argv.len() <= ARGV_MAX),
            (
                "argv",
                "must have words below 128 KiB without NUL",
                self.argv.iter().all(|one| word(one)),
            ),
            ("env", "must have at most 1024 variables", self.env.len() <= ENV_MAX),
            ("env", "must have names without = and NUL", self.env.keys().all(|one| name(one))),
            (
                "env",
                "must have values below 128 KiB without NUL",
                self.env.values().all(|one| word(one)),
            ),
            ("cwd", "must be absolute, without ..", is_plain(&self.cwd)),
            ("home", "must be absolute, without ..", is_plain(&self.home)),
            ("stdin", "must be at most 4 MiB", self.stdin.len() <= STDIN_BYTES_MAX),
            ("grace_ms", "must be at most 300000", self.grace_ms <= GRACE_MS_MAX),
            ("proof_ms", "must be 1 to 60000", (1..=PROOF_MS_MAX).contains(&self.proof_ms)),
            ("spool_bytes_max", "must be at least 2 MiB", self.spool_bytes_max >= SPOOL_BYTES_MIN),
            ("hidden", "must have at most 64 paths", self.hidden.len() <= HIDDEN_MAX),
            ("hidden", "must be absolute, without ..", self.hidden.iter().all(|one| is_plain(one))),
            ("shown", "must have at most 64 paths", self.shown.len() <= HIDDEN_MAX),
            ("shown", "must be absolute, without ..", self.shown.iter().all(|one| is_plain(one))),
            ("fixed", "must have at most 64 paths", self.fixed.len() <= HIDDEN_MAX),
            ("fixed", "must be absolute, without ..", self.fixed.iter().all(|one| is_plain(one))),
            ("tmp", "must be absolute, without ..", self.tmp.iter().all(|one| is_plain(one))),
        ];
        match rules.into_iter().find(|(_, _, kept)| !kept) {
            None => Ok(()),
            Some((field, rule, _)) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("spec: {field} {rule}")))
            }
        }
    }
}

/// Whether a path says where it leads.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
}

#[cfg(test)]
mod tests;
