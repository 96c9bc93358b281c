//! `baton up` and `baton down`: server and worker in the background.
//!
//! Both are processes of their own, in process groups of their own, with their logs in the data folder. Who
//! they are is asked of the kernel: the server by its socket, the worker by its lock.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::client::Failure;
use crate::files::make_folder;
use crate::operations;
use crate::problem::Problem;
use crate::scripted::BUILT_IN;
use crate::surroundings::socket_in;
use crate::worker::adopt::lock_of;
use crate::worker::settings::FILE;

use super::work::{broke, folder, found, read};
use super::{Output, Session, upkeep};

/// What people type.
pub(super) const UP: &str = "up";
/// What people type.
pub(super) const DOWN: &str = "down";
/// How often logs are looked at by whoever watches.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether another `up` is done: for a minute.
const STARTING_LOOKS_MAX: u32 = 300;
/// Of how many looks one is at what needs a person: every five seconds.
const NEEDS_EVERY: u32 = 25;
/// Bytes of a log that are shown at once.
const SHOWN_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the end of a log that explain why something did not start.
const TAIL_BYTES: u64 = 4 << 10;
/// How long the line may be by which a process says that it is ready.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Where the server's line is kept, for whoever comes later.
const READY_FILE: &str = "run/ready.json";

/// The two processes, by the names of their logs.
const LOGS: [&str; 2] = ["serve", "work"];

/// The commands as the command line knows them.
pub(super) fn commands() -> [Command; 2] {
    [
        Command::new(UP)
            .about("Run server and worker in the background, and watch them")
            .after_help(
                "What runs already is left as it is. Ctrl-C ends the watching and nothing else; `baton down` ends \
                 both. Their logs are in the folder log of the data folder.",
            )
            .arg(
                Arg::new("detach")
                    .long("detach")
                    .short('d')
                    .action(ArgAction::SetTrue)
                    .help("Do not watch: end once both are ready"),
            )
            .arg(
                Arg::new(BUILT_IN)
                    .long(BUILT_IN)
                    .action(ArgAction::SetTrue)
                    .help("Try it with the agent that is built in: it adds one line to a file"),
            )
            .arg(
                Arg::new("listen")
                    .long("listen")
                    .value_name("ADDR")
                    .help("Where the server listens; port 0 takes any that is free"),
            ),
        Command::new(DOWN)
            .about("End what `up` started: the worker with its last agent, then the server")
            .arg(
                Arg::new("now")
                    .long("now")
                    .action(ArgAction::SetTrue)
                    .help("Stop the agents first; their runs are given back"),
            ),
    ]
}

/// Starts what does not run, and watches.
pub(super) async fn up(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder = folder(session)?;
    if asked.get_flag(BUILT_IN) {
        set_up(&folder)?;
    }
    // What would keep the worker from starting is told before anything is started.
    read(&folder, &found(session)?)?;
    let logs = folder.join("log");
    for folder in [&folder, &logs] {
        make_folder(folder).map_err(|error| broke(&error))?;
    }
    let starting = only(&folder).await?;
    let listen = asked.get_one::<String>("listen");
    let line = match server(&socket(session, &folder)).await {
        Some(_) => fs::read_to_string(folder.join(READY_FILE)).unwrap_or_default(),
        None => {
            let mut words = vec!["serve".to_owned(), "--json".to_owned()];
            words.extend(listen.iter().flat_map(|at| ["--listen".to_owned(), (*at).clone()]));
            start(&folder, &words, "serve").await?
        }
    };
    let ready: Value = serde_json::from_str(&line).unwrap_or_default();
    if !line.is_empty() {
        drop(fs::write(folder.join(READY_FILE), &line));
    }
    if worker(&folder).is_none() {
        let words = ["work".to_owned(), "--json".to_owned()];
        start(&folder, &words, "work").await?;
    }
    drop(starting);
    say_ready(session, &folder, ready);
    if asked.get_flag("detach") {
        return Ok(0);
    }
    watch(session, &folder).await
}

/// Writes the settings of a worker that has nothing but the agent that is built in. Settings that are there stay.
fn set_up(folder: &Path) -> Result<(), Failure> {
    let path = folder.join(FILE);
    let text = format!(
        "# The agent that is built in: it adds one line to a file. Remove this to use your own.\n\
         [agents.{BUILT_IN}]\nprogram = \"script\"\narguments = [\"{BUILT_IN}\"]\n"
    );
    make_folder(folder).map_err(|error| broke(&error))?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made.and_then(|mut file| file.write_all(text.as_bytes())) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match fs::read_to_string(&path) {
                Ok(there) if there == text => Ok(()),
                Ok(_) | Err(_) => {
                    let detail = format!("{} says already which agents there are", path.display());
                    Err(Problem::new("name_taken", detail).next("baton up").into())
                }
            }
        }
        other => other.map_err(|error| broke(&error)),
    }
}

/// Becomes the only one who starts anything in a data folder, until the file is closed. Who comes second waits,
/// and finds what the first one started.
async fn only(folder: &Path) -> Result<File, Failure> {
    let path = folder.join("up.lock");
    let file = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|error| broke(&error))?;
    for _ in 0..STARTING_LOOKS_MAX {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(LOOK_EVERY).await,
            Err(error) => return Err(broke(&error)),
        }
    }
    let detail = "another `baton up` has been starting server and worker here for a minute";
    Err(Problem::new("in_use", detail).next("baton down").into())
}

fn say_ready(session: &mut Session<'_>, folder: &Path, ready: Value) {
    let socket = socket(session, folder).display().to_string();
    let body = if ready.is_object() { ready } else { json!({ "ready": true, "socket": socket }) };
    if session.globals.output != Output::Text {
        return session.say(&format!("{body}\n"));
    }
    let at = body["url"].as_str().unwrap_or(&socket).to_owned();
    let text = format!(
        "Server and worker run in the background, at {at}.\n\
         Their logs are in {}; `baton down` ends both.\n",
        folder.join("log").display()
    );
    upkeep::tell(session, &body, &text);
}

/// Starts one of the two, and waits until it says that it is ready.
async fn start(folder: &Path, words: &[String], name: &str) -> Result<String, Failure> {
    let log = folder.join("log").join(format!("{name}.log"));
    let open = OpenOptions::new().create(true).append(true).mode(0o600).open(&log);
    let open = open.map_err(|error| broke(&error))?;
    let begun = open.metadata().map_err(|error| broke(&error))?.len();
    let own = std::env::current_exe().map_err(|error| broke(&error))?;
    let (says, hears) =
        std::io::pipe().map(|(hears, says)| (says, hears)).map_err(|error| broke(&error))?;
    let mut process = Process::new(own);
    process.args(words).env("BATON_HOME", folder).env_remove("BATON_OUTPUT").current_dir("/");
    // Not of our terminal: Ctrl-C is not meant for it.
    process.stdin(Stdio::null()).stdout(says).stderr(open).process_group(0);
    let mut child = process.spawn().map_err(|error| broke(&error))?;
    drop(process);
    let hears = pipe::Receiver::from_owned_fd(hears.into()).map_err(|error| broke(&error))?;
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(hears, LINE_BYTES_MAX));
    let mut line = String::new();
    tokio::select! {
        read = lines.read_line(&mut line) => drop(read),
        Ok(()) = tokio::signal::ctrl_c() => {
            let detail = format!("{name} was not waited for; it may still come up");
            return Err(Problem::new("unknown", detail).next("baton down").into());
        }
    }
    if line.ends_with('\n') {
        return Ok(line);
    }
    // It has gone, or it will: nobody is told how by somebody who did not come to be.
    drop(child.wait());
    let said = tail(&log, begun);
    let detail = format!("`baton {name}` did not start: {}", said.trim());
    Err(Problem::new("unreachable", detail).next(format!("baton {name}")).into())
}

/// Shows what both say until somebody presses Ctrl-C, or both have ended.
async fn watch(session: &mut Session<'_>, folder: &Path) -> Result<u8, Failure> {
    let quiet = session.globals.quiet;
    let path = |name: &str| folder.join("log").join(format!("{name}.log"));
    let mut places: Vec<(PathBuf, u64)> = LOGS
        .iter()
        .map(|name| (path(name), fs::metadata(path(name)).map_or(0, |about| about.len())))
        .collect();
    let mut end = std::pin::pin!(tokio::signal::ctrl_c());
    let (mut looks, mut waiting) = (0_u32, 0);
    loop {
        tokio::select! {
            _ = &mut end => {
                let detached = "\nNobody watches any more; server and worker go on. `baton down` ends both.\n";
                if !quiet {
                    session.say(detached);
                }
                return Ok(0);
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        for (path, place) in &mut places {
            let (text, next) = since(path, *place);
            *place = next;
            if !quiet && !text.is_empty() {
                session.say(&super::render::clean::lines(&text));
            }
        }
        looks += 1;
        if looks % NEEDS_EVERY == 0 {
            waiting = call_if_more(session, waiting).await;
        }
        if worker(folder).is_none() && server(&socket(session, folder)).await.is_none() {
            session.say("Both have ended.\n");
            return Ok(0);
        }
    }
}

/// Says and rings when more waits for a person than before; answers how much does now.
async fn call_if_more(session: &mut Session<'_>, before: u64) -> u64 {
    let Some(entry) = operations::find("stats", "show") else { return before };
    // A server that is away for a moment says nothing new.
    let Ok(stats) = session.ask(entry, Map::new()).await else { return before };
    let now = stats["inbox"].as_u64().unwrap_or(before);
    if now > before && !session.globals.quiet {
        session.say(&format!("Waiting for a person: {now}. `baton inbox` shows it.\n"));
        if session.around.terminal {
            session.ring();
        }
    }
    now
}

/// Ends the worker, then the server.
pub(super) async fn down(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder = folder(session)?;
    let now = asked.get_flag("now");
    let mut ended = vec![];
    if let Some(worker) = worker(&folder) {
        let signal = if now { Signal::USR1 } else { Signal::INT };
        if !now && session.globals.output == Output::Text && !session.globals.quiet {
            let hint = "The worker ends with its last agent; `baton down --now` stops them.\n";
            drop(session.streams.err.write_all(hint.as_bytes()));
        }
        worker.end(signal).await?;
        ended.push("worker");
    }
    if let Some(server) = server(&socket(session, &folder)).await {
        server.end(Signal::TERM).await?;
        ended.push("server");
    }
    let text = match ended.as_slice() {
        [] => "Nothing runs here.\n".to_owned(),
        ended => format!("Ended: {}.\n", ended.join(", ")),
    };
    upkeep::tell(session, &json!({ "ended": ended }), &text);
    Ok(0)
}

/// A process that cannot be mistaken for another.
struct Running(std::os::fd::OwnedFd);

impl Running {
    fn of(pid: i32) -> Option<Self> {
        pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok().map(Self)
    }

    /// Sends it a signal, and waits until it is gone.
    async fn end(self, signal: Signal) -> Result<(), Failure> {
        let sent = pidfd_send_signal(&self.0, signal);
        if sent == Err(rustix::io::Errno::SRCH) {
            return Ok(());
        }
        sent.map_err(|error| broke(&error))?;
        let gone = tokio::task::spawn_blocking(move || {
            let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
            // A signal of ours ends a wait early, and nothing else does.
            while let Err(rustix::io::Errno::INTR) = poll(&mut ready, None) {}
        });
        tokio::select! {
            gone = gone => gone.map_err(|error| broke(&error)),
            Ok(()) = tokio::signal::ctrl_c() => {
                let detail = "it was told to end, and has not ended yet";
                Err(Problem::new("unknown", detail).next("baton down").into())
            }
        }
    }
}

fn socket(session: &Session<'_>, folder: &Path) -> PathBuf {
    session.around.socket.clone().unwrap_or_else(|| socket_in(folder))
}

/// Whether a server or a worker uses a data folder.
pub(super) async fn runs(session: &Session<'_>, folder: &Path) -> bool {
    server(&socket(session, folder)).await.is_some() || worker(folder).is_some()
}

/// The server that answers at a socket.
async fn server(socket: &Path) -> Option<Running> {
    let stream = UnixStream::connect(socket).await.ok()?;
    Running::of(stream.peer_cred().ok()?.pid()?)
}

/// The worker that has the lock of a data folder.
fn worker(folder: &Path) -> Option<Running> {
    let mut file = File::open(lock_of(&folder.join("worker"))).ok()?;
    let mut text = String::new();
    (&mut file).take(32).read_to_string(&mut text).ok()?;
    let running = Running::of(text.trim().parse().ok()?)?;
    // Whoever holds the lock wrote the number; while it is held, the number is good.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => None,
        Err(_) => Some(running),
    }
}

/// What was added to a log since then, and where it ends now.
fn since(path: &Path, place: u64) -> (String, u64) {
    let Ok(mut file) = File::open(path) else { return (String::new(), 0) };
    let length = file.metadata().map_or(0, |about| about.len());
    // A log that has become shorter was begun anew.
    let from = if length < place { 0 } else { place };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return (String::new(), length);
    }
    let mut bytes = vec![];
    let read = file.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes).unwrap_or(0);
    let next = from + u64::try_from(read).unwrap_or(0);
    (String::from_utf8_lossy(&bytes).into_owned(), next)
}

fn tail(log: &Path, begun: u64) -> String {
    let length = fs::metadata(log).map_or(0, |about| about.len());
    since(log, begun.max(length.saturating_sub(TAIL_BYTES))).0
}
