//! What folders and refs are called. Every name says whose it is, so that two Batons on one machine, or
//! two tenants of one Baton, never meet.

use baton_domain::ids::{DeploymentId, TaskId, TenantId};

/// Which worktree is meant: one task may have several, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub tenant: TenantId,
    pub task: TaskId,
    /// Counted up when the folder of the one before may not be used again.
    pub generation: u32,
}

impl Key {
    /// The task, as a part of a path and of a ref.
    #[must_use]
    pub fn whose(&self) -> String {
        of_task(&self.tenant, self.task)
    }

    /// What its folder is called.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}.{}", self.whose(), self.generation)
    }
}

/// The task of a tenant, as a part of a path and of a ref.
#[must_use]
pub fn of_task(tenant: &TenantId, task: TaskId) -> String {
    format!("{}.{task}", plain(tenant.as_str()))
}

/// Where the refs of a deployment begin; it ends with a slash, so that no other name begins like it.
pub(super) fn refs(deployment: &DeploymentId) -> String {
    format!("refs/baton/{}/", plain(deployment.as_str()))
}

/// Where the snapshots of a task are.
pub(super) fn refs_of(deployment: &DeploymentId, whose: &str) -> String {
    format!("{}{whose}/", refs(deployment))
}

/// A name in letters that mean nothing to git, to a path and to a shim. Different names stay different.
#[must_use]
pub fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            plain.push(char::from(byte));
        } else {
            plain.push_str(&format!("_{byte:02x}"));
        }
    }
    plain
}
