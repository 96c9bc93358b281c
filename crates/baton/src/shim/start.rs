//! `baton shim DIR`: from the first instruction to the loop.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::Mode;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getpid, set_dumpable_behavior, setrlimit, setsid, umask,
};

use crate::points::{self, Point};

use super::birth::Ours;
use super::doors::Doors;
use super::kernel;
use super::place::Place;
use super::spec::Spec;
use super::spool::Writer;
use super::told::{Isolation, Launch, Note, Status};
use super::tree::Tree;
use super::voice::Voice;
use super::watch::Watch;
use super::{probe, processes};

/// The first descriptor behind input, output and errors.
const FIRST_OWN: i32 = 3;
/// What a shim says when its agent runs.
pub(super) const READY: &str = "ready";

/// Runs a shim, or looks what one could do on this machine. Whoever starts it reads one line of its output.
#[must_use]
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (first, more) = (arguments.next(), arguments.next());
    let told = match (first, more) {
        (Some(word), None) if word == "--probe" => probe::probe(),
        (Some(folder), None) => return live(Path::new(&folder)),
        _ => Err(io::Error::other("baton shim DIR is run by a worker, not by hand")),
    };
    match told {
        Ok(line) => {
            say(&line);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("baton: {error}");
            ExitCode::from(2)
        }
    }
}

fn live(folder: &Path) -> ExitCode {
    let place = Place::at(folder);
    let born = match begin(&place) {
        Ok(born) => born,
        Err(error) => {
            // A folder that another shim works in is not ours to write to.
            if error.kind() != io::ErrorKind::WouldBlock {
                drop(place.write_status(&Status::NotStarted { why: error.to_string() }));
            }
            say(&error.to_string().replace('\n', " "));
            return ExitCode::FAILURE;
        }
    };
    let mut watch = match born.look_after(&place) {
        Ok(watch) => watch,
        Err(error) => {
            // The agent has begun, so nothing is told of its end here: with this process its first one
            // dies, and whoever adopts the folder ends and proves the rest.
            say(&error.to_string().replace('\n', " "));
            return ExitCode::FAILURE;
        }
    };
    say(READY);
    points::pass(Point::Ready);
    // From here on nobody hears it; what it has to say is in the folder.
    drop(kernel::silence());
    watch.0.run();
    ExitCode::SUCCESS
}

fn say(line: &str) {
    // Whoever started it may be gone already, which is no reason to end.
    drop(writeln!(io::stdout(), "{line}"));
}

/// An agent that has begun, and what is needed to look after it.
struct Born {
    spec: Spec,
    launch: Launch,
    tree: Tree,
    ends: Ours,
    doors: Doors,
    spool: Writer,
    signals: OwnedFd,
    kept: Kept,
}

/// What is kept open for as long as the shim lives.
struct Kept {
    #[expect(dead_code, reason = "the lock on the attempt's folder lives as long as this")]
    lock: File,
    #[expect(dead_code, reason = "the right to work in the agent's folder lives as long as this")]
    right: OwnedFd,
}

/// Starts the agent. If this fails, nothing of it has begun.
fn begin(place: &Place) -> io::Result<Born> {
    // Whatever came along is not ours to keep open.
    kernel::close_but(&[])?;
    // The worker gave its right to the agent's folder along where nothing else is read from.
    let right = fcntl_dupfd_cloexec(io::stdin(), FIRST_OWN)?;
    // It fails for whoever leads a group already, and then there is nothing to leave.
    let _ = setsid();
    umask(Mode::RWXG | Mode::RWXO);
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let signals = kernel::signals()?;
    let lock = locked(place)?;
    let spec = place.spec()?;
    spec.check()?;
    points::pass(Point::Begun);
    let doors = Doors::open(place)?;
    let spool = Writer::open(&place.spool(), spec.spool_bytes_max)?;
    let mut launch = Launch {
        deployment: spec.deployment.clone(),
        attempt: spec.attempt,
        nonce: spec.nonce.clone(),
        boot_id: processes::boot_id()?,
        shim: processes::by_pid(getpid())?,
        isolation: Isolation::default(),
        root: None,
        agent: None,
    };
    let (tree, ends) = Tree::start(&spec, place, &mut launch, &signals)?;
    Ok(Born { spec, launch, tree, ends, doors, spool, signals, kept: Kept { lock, right } })
}

impl Born {
    fn look_after(self, place: &Place) -> io::Result<(Watch, Kept)> {
        let Self { spec, launch, tree, ends, doors, spool, signals, kept } = self;
        // Not before the birth: the users of a namespace are named through files that this would close.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let mut voice = Voice::new(&spec, spool, ends)?;
        voice.note(crate::clock::boot_ms(), &Note::Started { agent: launch.agent });
        points::pass(Point::GateOpen);
        place.write_status(&Status::Running)?;
        points::pass(Point::Running);
        Ok((Watch::new(&spec, place.clone(), tree, voice, doors, signals)?, kept))
    }
}

/// One shim works in a folder, ever.
fn locked(place: &Place) -> io::Result<File> {
    let lock = place.locked()?;
    if place.launch()?.is_none() && place.status()?.is_none() {
        return Ok(lock);
    }
    let why = "this attempt was launched before: adopt it, or take a new attempt";
    Err(io::Error::new(io::ErrorKind::WouldBlock, why))
}
