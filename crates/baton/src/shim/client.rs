//! The worker's side: starts shims, finds those that run, and talks to them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use baton_domain::run::Death;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::points::{self, Point};

use super::cgroup::Cgroup;
use super::control::{Answer, Nudge, Request, WRITE_BYTES_MAX};
use super::place::Place;
use super::processes;
use super::spec::Spec;
use super::start::READY;
use super::told::{Exit, Launch, Process, Proof, Status};

mod line;

/// How long a shim may take until its agent runs.
const LAUNCH_MAX: Duration = Duration::from_secs(30);
/// How long an answer may take; a shim that does not answer is stopped, or the machine is.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long the rest of a tree whose shim was killed may take to be gone.
const BURIAL: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// How long its group may take to be empty.
const DESERTED_MAX: Duration = Duration::from_secs(10);
/// How often a group is asked whether it is empty.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often a shim is asked that neither answers nor has let go of its folder: for a second.
const DYING_LOOKS_MAX: u32 = 50;
/// Bytes of the first line of a shim.
const FIRST_LINE_BYTES_MAX: u64 = 16 << 10;
/// Requests on their way to a shim.
const ASKED_MAX: usize = 16;
/// Changes that nobody has taken; those of the spool are one.
const CHANGES_MAX: usize = 8;

/// A live shim.
#[derive(Debug)]
pub struct Handle {
    launch: Launch,
    asks: mpsc::Sender<(Request, oneshot::Sender<Answer>)>,
    changes: mpsc::Receiver<Change>,
}

/// What happened to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It said something: the spool has come so far.
    Spool(u64),
    /// It ended; what it left behind is being ended.
    Exited(Exit),
    /// Its tree is over, or something survives and is told as such; then another one may follow.
    Stopped(Proof),
}

/// What is left of an attempt that somebody launched.
#[derive(Debug)]
pub enum Found {
    /// Its shim runs.
    Alive(Handle),
    /// It ended, and this is how.
    Over(Status),
    /// Its shim is gone without a word: ask [`prove`] for what can be proved.
    Vanished(Launch),
}

/// Starts a shim for an attempt, once. When this answers, the agent runs. What it is given to keep stays
/// open for as long as it lives: the lock of the folder that the agent works in.
///
/// # Errors
/// If the spec breaks a rule, the attempt was launched before, or the agent cannot be started; the text says
/// which. After `TimedOut` it is unknown: [`adopt`] tells.
pub async fn launch(place: &Place, spec: &Spec, keeps: Option<File>) -> io::Result<Handle> {
    spec.check()?;
    place.write_spec(spec)?;
    points::pass(Point::SpecWritten);
    let mut child = Command::new(place.program())
        .arg0("baton")
        .arg("shim")
        .arg(std::path::absolute(place.folder())?)
        .env_clear()
        .envs(points::passed_on())
        .current_dir("/")
        .stdin(keeps.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    points::pass(Point::ShimStarted);
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        let mut output = output.take(FIRST_LINE_BYTES_MAX);
        let line = async {
            while !said.ends_with('\n') {
                let mut byte = [0; 256];
                match output.read(&mut byte).await? {
                    0 => break,
                    length => said.push_str(&String::from_utf8_lossy(&byte[..length])),
                }
            }
            io::Result::Ok(())
        };
        timeout(LAUNCH_MAX, line).await.map_err(|_| io::ErrorKind::TimedOut)??;
    }
    match said.trim_end() {
        READY => {
            points::pass(Point::ShimReady);
            connect(place, &spec.nonce).await
        }
        "" => Err(io::Error::other("the shim ended without a word")),
        why => Err(io::Error::other(why.to_owned())),
    }
}

/// Finds out what became of an attempt that was launched, by this process or by one before it.
///
/// # Errors
/// If that cannot be known now: a shim that is there but does not answer is one.
pub async fn adopt(place: &Place) -> io::Result<Found> {
    let Some(launch) = place.launch()? else {
        return never_started(place);
    };
    if launch.boot_id != processes::boot_id()? {
        return Ok(ended(place)?.map_or(Found::Vanished(launch), Found::Over));
    }
    if let Some(status) = ended(place)? {
        return Ok(Found::Over(status));
    }
    for look in 0.. {
        match connect(place, &launch.nonce).await {
            Ok(handle) => return Ok(Found::Alive(handle)),
            Err(_) if place.is_left() => break,
            // A process that is killed lets go of one thing after another.
            Err(error) if look < DYING_LOOKS_MAX && error.kind() != io::ErrorKind::TimedOut => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
    // It may have come to its end while we asked.
    if let Some(status) = ended(place)? {
        return Ok(Found::Over(status));
    }
    match place.launch()? {
        Some(launch) if launch.root.is_some() => Ok(Found::Vanished(launch)),
        // The gate opens after the root is written: nobody ever went through it.
        Some(_) | None => never_started(place),
    }
}

/// Nobody went through the gate. A shim that is on its way finds this written, and goes away.
fn never_started(place: &Place) -> io::Result<Found> {
    let _lock = place.locked()?;
    if let Some(status) = ended(place)? {
        return Ok(Found::Over(status));
    }
    let status = Status::NotStarted { why: "its shim ended before the agent began".to_owned() };
    place.write_status(&status)?;
    Ok(Found::Over(status))
}

fn ended(place: &Place) -> io::Result<Option<Status>> {
    Ok(place.status()?.filter(|status| match status {
        Status::NotStarted { .. } | Status::Stopped { .. } => true,
        Status::Running | Status::Exited { .. } | Status::Stopping { .. } => false,
    }))
}

/// Ends what is left of a tree whose shim is gone, and says what is proved. A process that has the number
/// of one of ours, but not its start, is nobody of ours, and is left alone.
///
/// # Errors
/// If this boot cannot be told from another one.
pub async fn prove(launch: &Launch) -> io::Result<Proof> {
    if launch.boot_id != processes::boot_id()? {
        // Nothing outlives the machine.
        return Ok(Proof { death: launch.isolation.strongest(), survivor: false });
    }
    let group = launch.isolation.cgroup.as_deref().map(Cgroup::at);
    if let Some(group) = &group {
        drop(group.kill());
    }
    let mut survivor = false;
    for process in launch.root.into_iter().chain(launch.agent) {
        survivor |= !is_buried(process).await;
    }
    if let Some(group) = &group {
        survivor |= !is_deserted(group).await;
        group.remove();
    }
    // The kernel ends an init only after everybody else in its namespace. An empty group proves less: its
    // members may have moved to another one, and nobody was there to see it.
    let proved = launch.isolation.namespace.is_some() && launch.root.is_some() && !survivor;
    let death = if proved { Death::PidNamespace } else { Death::None };
    Ok(Proof { death, survivor })
}

/// Ends a shim that is there but does not answer, with everything of its agent, and says what is proved. Its
/// fence cannot fall as long as it stands still.
///
/// # Errors
/// If nothing is known of it, or this boot cannot be told from another one.
pub async fn overpower(place: &Place) -> io::Result<Proof> {
    let launch = place.launch()?.ok_or(io::ErrorKind::NotFound)?;
    let gone = launch.boot_id != processes::boot_id()? || is_buried(launch.shim).await;
    let proof = prove(&launch).await?;
    Ok(Proof { survivor: proof.survivor || !gone, ..proof })
}

/// Kills one process, if it is still the same one, and waits until it is gone.
async fn is_buried(process: Process) -> bool {
    let Some(pid) = Pid::from_raw(process.pid) else { return true };
    // The descriptor first, then the look: what it names cannot be exchanged any more.
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return !process.is_there() };
    if !process.is_there() {
        return true;
    }
    let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    let gone = tokio::task::spawn_blocking(move || {
        let mut ready = [PollFd::new(&pidfd, PollFlags::IN)];
        matches!(poll(&mut ready, Some(&BURIAL)), Ok(1..))
    });
    gone.await.unwrap_or(false)
}

async fn is_deserted(group: &Cgroup) -> bool {
    let empty = async {
        while !matches!(group.is_empty(), Ok(true)) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    timeout(DESERTED_MAX, empty).await.is_ok()
}

/// Connects to the shim of a folder, and makes sure that it is the one.
async fn connect(place: &Place, nonce: &str) -> io::Result<Handle> {
    // A name in a socket's address is short; the folder's is not always.
    let directory = rustix::fs::OFlags::DIRECTORY.bits();
    let flags = i32::try_from(directory).map_err(io::Error::other)?;
    let folder = File::options().read(true).custom_flags(flags).open(place.folder())?;
    let short = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), Place::socket_name());
    let stream = timeout(ANSWER_MAX, UnixStream::connect(short)).await;
    let stream = stream.map_err(|_| io::ErrorKind::TimedOut)??;
    let launch = place.launch()?.ok_or(io::ErrorKind::NotFound)?;
    let (asks, asked) = mpsc::channel(ASKED_MAX);
    let (tell, changes) = mpsc::channel(CHANGES_MAX);
    tokio::spawn(line::keep(stream, asked, tell));
    let handle = Handle { launch, asks, changes };
    let answer = handle.ask(Request::Status {}).await?;
    if matches!(&answer, Answer::State { nonce: own, .. } if own == nonce) {
        return Ok(handle);
    }
    Err(io::Error::other(format!("another shim answers: {answer:?}")))
}

impl Handle {
    /// What the shim told before the agent began.
    #[must_use]
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// The processor time that the tree has used so far.
    #[must_use]
    pub fn spent_ms(&self) -> u64 {
        processes::spent_below_ms(self.launch.shim)
    }

    /// What happens, in order; it ends when the shim does, or when the connection is lost: then adopt again.
    pub fn changes(&mut self) -> &mut mpsc::Receiver<Change> {
        &mut self.changes
    }

    /// Lets the agent live until a moment since boot.
    ///
    /// # Errors
    /// If the shim refuses, or does not answer: then it is unknown whether it was renewed.
    pub async fn renew(&self, until_boot_ms: u64) -> io::Result<()> {
        self.tell(Request::Renew { until_boot_ms }).await
    }

    /// Gives the agent something to read.
    ///
    /// # Errors
    /// As [`Handle::renew`]; what was written before an error stays written.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(WRITE_BYTES_MAX) {
            self.tell(Request::Write { b64: piece.to_vec() }).await?;
        }
        Ok(())
    }

    /// Ends what the agent reads.
    ///
    /// # Errors
    /// As [`Handle::renew`].
    pub async fn close_stdin(&self) -> io::Result<()> {
        self.tell(Request::CloseStdin {}).await
    }

    /// Interrupts the agent, as Ctrl-C does.
    ///
    /// # Errors
    /// As [`Handle::renew`].
    pub async fn interrupt(&self) -> io::Result<()> {
        self.tell(Request::Signal(Nudge::Interrupt)).await
    }

    /// Lets the whole tree stand still, as for a copy of its files, or go on.
    ///
    /// # Errors
    /// As [`Handle::renew`].
    pub async fn freeze(&self, frozen: bool) -> io::Result<()> {
        self.tell(Request::Signal(if frozen { Nudge::Freeze } else { Nudge::Thaw })).await
    }

    /// Ends the tree; after the grace (the spec's if none is given) by force. The proof comes as a change.
    ///
    /// # Errors
    /// As [`Handle::renew`].
    pub async fn stop(&self, grace_ms: Option<u64>) -> io::Result<()> {
        self.tell(Request::Stop { grace_ms }).await
    }

    /// How it is, and how far the spool.
    ///
    /// # Errors
    /// If the shim does not answer.
    pub async fn status(&self) -> io::Result<(Status, u64)> {
        let Answer::State { status, spool, .. } = self.ask(Request::Status {}).await? else {
            return Err(io::Error::other("the shim does not tell how it is"));
        };
        Ok((status, spool))
    }

    async fn tell(&self, request: Request) -> io::Result<()> {
        let answer = self.ask(request).await?;
        if answer == (Answer::Done {}) {
            return Ok(());
        }
        let Answer::Refused { why } = answer else {
            return Err(io::Error::other("the shim answers something else"));
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    async fn ask(&self, request: Request) -> io::Result<Answer> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the shim is gone");
        let (reply, answer) = oneshot::channel();
        // Whoever waits for room to ask waits for the same shim as whoever waits for its answer.
        let answered = async {
            self.asks.send((request, reply)).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())
        };
        match timeout(ANSWER_MAX, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the shim does not answer")),
        }
    }
}
