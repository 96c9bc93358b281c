//! What this machine lets a shim do, found out by doing it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};

use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Signal, WaitId, WaitIdOptions, getpid, pidfd_send_signal, set_child_subreaper, waitid,
};

use super::cgroup::Cgroup;
use super::kernel::{self, Side};
use super::told::Isolation;
use super::{apart, processes};

/// What a child says whose room has a /proc of its own, and what one says whose room has not.
const YES: u8 = b'y';
const NO: u8 = b'n';

/// Looks what isolation this machine allows, by a program of ours that has one thread.
///
/// # Errors
/// If the program does not run or says something else.
pub fn examine(program: &Path) -> io::Result<Isolation> {
    let output = Command::new(program)
        .args(["shim", "--probe"])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Tries everything, leaves nothing, and says in JSON what worked.
pub(super) fn probe() -> io::Result<String> {
    let mut found = Isolation::default();
    match set_child_subreaper(Some(getpid())) {
        Ok(()) => found.subreaper = true,
        Err(error) => found.denied.push(format!("subreaper: {error}")),
    }
    match namespace() {
        Ok((inode, own_proc)) => (found.namespace, found.own_proc) = (Some(inode), own_proc),
        Err(error) => found.denied.push(format!("namespace: {error}")),
    }
    let name = format!("baton-probe-{}", getpid().as_raw_nonzero());
    match group(&name) {
        Ok(path) => found.cgroup = Some(path),
        Err(error) => found.denied.push(format!("cgroup: {error}")),
    }
    Ok(serde_json::to_string(&found)?)
}

fn namespace() -> io::Result<(u64, bool)> {
    let (named, name) = pipe_with(PipeFlags::CLOEXEC)?;
    let (answer, say) = pipe_with(PipeFlags::CLOEXEC)?;
    let born = match kernel::fork_apart()? {
        Side::Child => {
            drop((name, answer));
            inside(&named, &say)
        }
        Side::Parent(born) => born,
    };
    drop((named, say));
    let mut heard = [0];
    let tried = apart::name_users(born.pid).and_then(|()| {
        write(&name, b"g")?;
        read(&answer, &mut heard)?;
        processes::namespace(born.pid)
    });
    let _ = pidfd_send_signal(&born.pidfd, Signal::KILL);
    let _ = waitid(WaitId::Pid(born.pid), WaitIdOptions::EXITED);
    let inode = tried?;
    match heard[0] {
        0 => Err(io::Error::other("a process in it does not run")),
        heard => Ok((inode, heard == YES)),
    }
}

fn inside(named: &OwnedFd, say: &OwnedFd) -> ! {
    if matches!(read(named, &mut [0_u8; 1]), Ok(1)) {
        let word = if apart::has_own_proc() { YES } else { NO };
        let _ = write(say, &[word]);
    }
    // It waits to be killed; nobody says anything more.
    let _ = read(named, &mut [0_u8; 1]);
    exit(0)
}

fn group(name: &str) -> io::Result<PathBuf> {
    let group = Cgroup::make(name)?;
    let entered = (|| {
        let (gate, hold) = pipe_with(PipeFlags::CLOEXEC)?;
        let born = match kernel::fork()? {
            Side::Child => {
                drop(hold);
                let _ = read(&gate, &mut [0_u8; 1]);
                exit(0)
            }
            Side::Parent(born) => born,
        };
        let entered = group.enter(born.pid).and_then(|()| group.kill());
        drop(hold);
        let _ = waitid(WaitId::Pid(born.pid), WaitIdOptions::EXITED);
        entered
    })();
    group.remove();
    entered.map(|()| group.path().to_owned())
}
