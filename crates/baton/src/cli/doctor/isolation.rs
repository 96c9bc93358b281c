//! How agents can be kept apart on this machine, and what their end can be proved by.

use std::path::Path;

use crate::shim::{self, Isolation};

use super::judge::{Finding, good, odd};

/// This very program, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// Switches of Linux that forbid namespaces: where they are, what forbids, what allows.
const SWITCHES: [(&str, &str, &str); 3] = [
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];
/// What helps where no switch forbids it: a container does.
const CONTAINER: &str =
    "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined";
/// What gives a service a control group of its own.
const DELEGATE: &str =
    "systemd-run --user --property=Delegate=yes --property=KillMode=process baton serve";

/// What was found by trying it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) isolation: Isolation,
    /// The setting that would allow namespaces, if one forbids them.
    pub(super) switch: Option<&'static str>,
}

/// Tries it; none if even that does not work.
pub(super) fn tried() -> Option<Tried> {
    let isolation = shim::examine(Path::new(OWN_PROGRAM)).ok()?;
    let forbids = |path: &str, value: &str| {
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value)
    };
    let found = SWITCHES.iter().find(|(path, value, _)| forbids(path, value));
    Some(Tried { isolation, switch: found.map(|(_, _, setting)| *setting) })
}

/// An opinion on it.
pub(super) fn judge(tried: &Tried) -> Finding {
    let allow = match tried.switch {
        Some(setting) => format!("sudo sysctl {setting}"),
        None => CONTAINER.to_owned(),
    };
    let found = &tried.isolation;
    match (found.namespace, &found.cgroup) {
        (Some(_), _) if found.own_proc => {
            good("isolation", "agents get a namespace of their own, which proves their end")
        }
        (Some(_), _) => {
            let what =
                "a namespace proves the end of agents, but they see all processes of this machine";
            odd("isolation", what, allow)
        }
        (None, Some(_)) => {
            let what = format!("{}; their end is proved by a control group", denied(found));
            odd("isolation", what, allow)
        }
        (None, None) => {
            let what = format!(
                "{}; their end is proved only while their shim lives, and by nothing else",
                denied(found)
            );
            odd("isolation", what, if tried.switch.is_some() { allow } else { DELEGATE.to_owned() })
        }
    }
}

fn denied(found: &Isolation) -> String {
    let why = found.denied.iter().find(|why| why.starts_with("namespace: "));
    let why = why.and_then(|why| why.split_once(": ")).map_or("denied", |(_, why)| why);
    format!("agents get no namespace of their own ({why})")
}
