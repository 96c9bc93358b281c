#![expect(
    unsafe_code,
    reason = "a process cannot be copied, nor its signals and descriptors be taken over, by any safe call"
)]
//! The few calls that have no safe form. A shim has one thread, and each of them asks for that first:
//! a copy of a process with one thread is whole, and nobody else uses its descriptors or its signals.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The first descriptor behind input, output and errors.
const FIRST_OWN: libc::c_uint = 3;
/// The highest signal that a disposition is kept for.
const SIGNAL_MAX: libc::c_int = 64;

/// Which of two processes this is.
pub(super) enum Side {
    Child,
    Parent(Born),
}

/// A new child.
#[derive(Debug)]
pub(super) struct Born {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
}

/// Copies this process.
pub(super) fn fork() -> io::Result<Side> {
    alone()?;
    // SAFETY: there is one thread, so that no lock is held in the copy and nothing is half done.
    let pid = unsafe { libc::fork() };
    side(pid)
}

/// Copies this process into namespaces of its own: users, processes, mounts and messages. The copy is the
/// init of the namespace of processes.
pub(super) fn fork_apart() -> io::Result<Side> {
    alone()?;
    let apart = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
    // The fields of `struct clone_args` up to `tls`: flags, pidfd, two thread ids, the signal at the end, and
    // no stack of its own, like a fork.
    let end = u64::try_from(libc::SIGCHLD).map_err(io::Error::other)?;
    let flags = u64::try_from(apart).map_err(io::Error::other)?;
    let arguments: [u64; 8] = [flags, 0, 0, 0, end, 0, 0, 0];
    // SAFETY: as in `fork`; without CLONE_VM the copy has memory of its own, and the kernel reads
    // exactly as many bytes of the arguments as it is told.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) };
    side(libc::pid_t::try_from(pid).map_err(io::Error::other)?)
}

/// Takes over the signals: all of them do what they usually do, also those that a parent had ignored,
/// and those that a shim has to hear come out of a descriptor.
pub(super) fn signals() -> io::Result<OwnedFd> {
    alone()?;
    for signal in 1..=SIGNAL_MAX {
        // What a pipe nobody reads does is answered by an error, and those two cannot be changed.
        if ![libc::SIGPIPE, libc::SIGKILL, libc::SIGSTOP].contains(&signal) {
            // SAFETY: SIG_DFL is no handler that could run anything; an unknown number is refused.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    let mut heard = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made by `sigemptyset` before anything reads it, the numbers are real ones, and
    // no other thread has a mask.
    let descriptor = unsafe {
        libc::sigemptyset(heard.as_mut_ptr());
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(heard.as_mut_ptr(), signal);
        }
        if libc::sigprocmask(libc::SIG_SETMASK, heard.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, heard.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    owned(descriptor)
}

/// Sees to it that the next program gets input, output and errors, and no other descriptor.
pub(super) fn close_at_exec() -> io::Result<()> {
    let flag = libc::c_int::try_from(libc::CLOSE_RANGE_CLOEXEC).map_err(io::Error::other)?;
    // SAFETY: nothing is closed now.
    match unsafe { libc::close_range(FIRST_OWN, libc::c_uint::MAX, flag) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets go of whatever input, output and errors were: nothing is read from them or said to them.
pub(super) fn silence() -> io::Result<()> {
    let nothing = fs::File::options().read(true).write(true).open("/dev/null")?;
    for standard in 0..libc::c_int::try_from(FIRST_OWN).map_err(io::Error::other)? {
        // SAFETY: the three standard descriptors belong to nobody, and stay open.
        if unsafe { libc::dup2(nothing.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Closes every descriptor except for the first three and these. Whoever calls it never comes back to
/// code that owns another one.
pub(super) fn close_but(kept: &[&OwnedFd]) -> io::Result<()> {
    alone()?;
    let raw = |one: &&OwnedFd| libc::c_uint::try_from(one.as_raw_fd()).map_err(io::Error::other);
    let mut kept: Vec<libc::c_uint> = kept.iter().map(raw).collect::<io::Result<_>>()?;
    kept.push(libc::c_uint::MAX);
    kept.sort_unstable();
    let mut from = FIRST_OWN;
    for one in kept {
        if from < one {
            // SAFETY: this copy of the process was made to forget what the first one owns: it ends
            // without running what would close them again.
            if unsafe { libc::close_range(from, one - 1, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        from = one.saturating_add(1);
    }
    Ok(())
}

fn side(pid: libc::pid_t) -> io::Result<Side> {
    match Pid::from_raw(pid) {
        None => Ok(Side::Child),
        Some(_) if pid < 0 => Err(io::Error::last_os_error()),
        // A child that is not reaped keeps its number, so that this is it.
        Some(pid) => Ok(Side::Parent(Born { pid, pidfd: pidfd_open(pid, PidfdFlags::empty())? })),
    }
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made a moment ago, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn alone() -> io::Result<()> {
    match fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other("a shim has one thread")),
    }
}
