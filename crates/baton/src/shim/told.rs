//! What a shim tells: in its attempt's folder, in the spool and to whoever is connected.

use std::path::PathBuf;

use baton_domain::ids::AttemptId;
use baton_domain::run::Death;
use serde::{Deserialize, Serialize};

/// How to find a tree of processes again; written before the agent's first instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub deployment: String,
    pub attempt: AttemptId,
    pub nonce: String,
    /// Another boot means that everything of this one is dead.
    pub boot_id: String,
    pub shim: Process,
    pub isolation: Isolation,
    /// The process that the rest of the tree hangs on: the init of the namespace, or the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Process>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Process>,
}

/// A process of this boot. The number alone names nobody: it is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// Clock ticks after boot at which it began.
    pub started: u64,
}

/// How an agent is really kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The inode of its pid namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<u64>,
    /// Its control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// Whether orphans of the tree come to the shim.
    pub subreaper: bool,
    /// Whether the agent sees its own processes alone in /proc.
    pub own_proc: bool,
    /// Whether nobody else's `/tmp` is its own.
    #[serde(default)]
    pub own_tmp: bool,
    /// What it cannot see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<PathBuf>,
    /// What it cannot change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<PathBuf>,
    /// What was tried and denied by this machine, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

/// Why a tree was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent ended by itself; what it left behind went, too.
    Exited,
    /// Whoever is connected asked for it.
    Asked,
    /// Nobody renewed the fence.
    Fence,
    /// The shim was told to end by a signal.
    Signal,
}

/// What is known of the death of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    pub death: Death,
    /// Whether a process was seen that would not die.
    pub survivor: bool,
}

/// How far an attempt's processes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// There was never an agent.
    NotStarted {
        why: String,
    },
    Running,
    /// The agent ended; what it left behind is being ended.
    Exited {
        exit: Exit,
        at: u64,
    },
    /// It is being stopped; a survivor keeps it so.
    Stopping {
        by: Cause,
        exit: Option<Exit>,
        survivor: bool,
        at: u64,
    },
    /// It is over, and this is the proof.
    Stopped {
        by: Cause,
        exit: Option<Exit>,
        proof: Proof,
        at: u64,
    },
}

/// What a shim writes into the spool itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    Started {
        agent: Option<Process>,
    },
    Exited(Exit),
    /// The machine slept past the fence: the tree stands still until the fence is renewed.
    Frozen {
        until: u64,
    },
    Thawed,
    Stopping {
        by: Cause,
    },
    Stopped(Proof),
    /// The oldest part of the spool was dropped: it was full.
    Dropped {
        bytes: u64,
    },
}

impl Note {
    /// Its bytes in the spool.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a note is plain JSON")
    }

    /// Reads one back; none if it is of a kind that this version does not know.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

impl Isolation {
    /// The proof that this way of keeping an agent apart can give.
    #[must_use]
    pub fn strongest(&self) -> Death {
        match (self.namespace, &self.cgroup, self.subreaper) {
            (Some(_), _, _) => Death::PidNamespace,
            (None, Some(_), true) => Death::Cgroup,
            (None, None, true) => Death::SubreaperEchild,
            (None, _, false) => Death::None,
        }
    }
}
