//! Places at which a test kills a process: between any two steps of which neither may be lost or done twice.
//!
//! There is nothing of this in a release build. In any other one a test names a folder by [`VARIABLE`]: every
//! place that is passed is noted there, and whoever passes the one that is armed says so and stands still, with
//! all its threads, until it is killed.

/// Declares the places, in the order in which a run passes them.
macro_rules! points {
    ($($(#[doc = $doc:literal])+ $name:ident => $word:literal,)+) => {
        /// A place between two steps. Its word begins with who passes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($(#[doc = $doc])+ $name,)+
        }

        /// All of them.
        pub const POINTS: &[Point] = &[$(Point::$name,)+];

        impl Point {
            /// What it is called.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

points! {
    /// Where the target branch will move is written down, and it has not moved.
    LandingIntended => "train.landing_intended",
    /// It has moved, and its owner's checkout has not.
    TargetMoved => "train.target_moved",
    /// Both have, and that is not crossed off.
    CheckoutUpdated => "train.checkout_updated",
    /// A batch was brought together, and its gates were not run.
    BatchJoined => "train.batch_joined",
    /// Its gates were run, and nothing has moved.
    BatchGated => "train.batch_gated",
    /// Everything has landed, and nobody was told.
    CarsLanded => "train.cars_landed",
    /// A worker has its place, and its attempts were not looked at.
    WorkerSeated => "server.worker_seated",
    /// The leases of what a worker has are renewed, and nobody was told.
    LeasesRenewed => "server.leases_renewed",
    /// A worker was welcomed, and nobody claims for it.
    WorkerWelcomed => "server.worker_welcomed",
    /// A run was claimed for a worker, which has not heard of it.
    RunClaimed => "server.run_claimed",
    /// It is on its way to the worker.
    RunHanded => "server.run_handed",
    /// A report was read, and not carried out.
    ReportHeard => "server.report_heard",
    /// It was carried out, and not acknowledged.
    ReportCommitted => "server.report_committed",
    /// A request that changes something was read, and not carried out.
    RequestHeard => "server.request_heard",
    /// It was carried out, and not answered.
    RequestCommitted => "server.request_committed",
    /// What was due has happened.
    TimePassed => "server.time_passed",
    /// What the worker before left was looked at, and nobody was told.
    LeftSurveyed => "worker.left_surveyed",
    /// The server is there, and no room was promised.
    Welcomed => "worker.welcomed",
    /// A run was heard of, and not written down.
    RunHeard => "worker.run_heard",
    /// It is written down, and nothing is prepared.
    OutboxBegun => "worker.outbox_begun",
    /// Everything is prepared, and nobody was told.
    CardWritten => "worker.card_written",
    /// What a shim is to run is written, and there is no shim.
    SpecWritten => "worker.spec_written",
    /// There is a process, and nothing is known of it.
    ShimStarted => "worker.shim_started",
    /// The agent runs, and nobody was told.
    ShimReady => "worker.shim_ready",
    /// A report is written down, and not sent.
    ReportKept => "worker.report_kept",
    /// It is sent.
    ReportSent => "worker.report_sent",
    /// It was acknowledged, which is not written down.
    AckHeard => "worker.ack_heard",
    /// That is written down.
    AckKept => "worker.ack_kept",
    /// The work is kept, and nobody was told.
    SnapshotTaken => "worker.snapshot_taken",
    /// It is packed to be sent, and nothing of it is on its way.
    ParcelKept => "worker.parcel_kept",
    /// The server has all of its blobs, and was not told what they are.
    BlobsSent => "worker.blobs_sent",
    /// That is written down to be told, and the parcel is still there.
    ParcelTold => "worker.parcel_told",
    /// An agent is to end, and its shim was not told.
    StopWanted => "worker.stop_wanted",
    /// Its end is proved, and nobody was told.
    ProofHeard => "worker.proof_heard",
    /// Everything about an attempt is told, and nothing is cleared away.
    AttemptOver => "worker.attempt_over",
    /// The server has everything, and the attempt is forgotten.
    AttemptForgotten => "worker.attempt_forgotten",
    /// A folder is this shim's, and nothing is begun.
    Begun => "shim.begun",
    /// What will find the tree is written, and there is no process.
    LaunchWritten => "shim.launch_written",
    /// There is a process that is written down, and may not go on.
    RootWritten => "shim.root_written",
    /// The agent runs, and nobody was told.
    GateOpen => "shim.gate_open",
    /// That is written down.
    Running => "shim.running",
    /// The worker was told.
    Ready => "shim.ready",
    /// The agent said something that is in the spool, and nobody was told.
    WordsKept => "shim.words_kept",
    /// The agent has ended, which is not written down.
    ExitSeen => "shim.exit_seen",
    /// That is written down, and what it left behind may live.
    ExitNoted => "shim.exit_noted",
    /// The tree is about to be killed.
    Killing => "shim.killing",
    /// Everything is dead, which is not written down.
    Proved => "shim.proved",
    /// The spool says so, and the status does not.
    ProofNoted => "shim.proof_noted",
    /// Both say so, and nobody was told.
    ProofWritten => "shim.proof_written",
    /// Everybody was told who listens.
    SaidAll => "shim.said_all",
}

/// Names the folder of a test.
pub const VARIABLE: &str = "BATON_POINTS";

#[cfg(debug_assertions)]
pub use armed::{pass, passed_on, watch};

/// Somebody passes a place: that is nothing here.
#[cfg(not(debug_assertions))]
#[inline]
pub fn pass(_point: Point) {}

/// What a child must know: nothing here.
#[cfg(not(debug_assertions))]
#[must_use]
pub fn passed_on() -> Option<(&'static str, std::ffi::OsString)> {
    None
}

/// Takes no notice of tests.
#[cfg(not(debug_assertions))]
pub fn watch(_folder: Option<std::ffi::OsString>) {}

#[cfg(debug_assertions)]
mod armed {
    use std::ffi::OsString;
    use std::fs::{self, OpenOptions};
    use std::io::{self, Write as _};
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;

    use rustix::process::{Signal, getpid, kill_process};

    use super::{Point, VARIABLE};

    static FOLDER: OnceLock<PathBuf> = OnceLock::new();

    /// Says where the folder of a test is, at the start of the program.
    pub fn watch(folder: Option<OsString>) {
        if let Some(folder) = folder {
            // It is said once.
            drop(FOLDER.set(folder.into()));
        }
    }

    /// What a child must know to take notice, too.
    #[must_use]
    pub fn passed_on() -> Option<(&'static str, OsString)> {
        FOLDER.get().map(|folder| (VARIABLE, folder.clone().into_os_string()))
    }

    /// Somebody passes a place, or stands still at it for good.
    pub fn pass(point: Point) {
        if let Some(folder) = FOLDER.get()
            && stands(folder, point.word()).unwrap_or(false)
        {
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }

    /// Notes that a place was passed; whether it is the armed one. Who takes the file stands there, and
    /// nobody after it.
    fn stands(folder: &Path, word: &str) -> io::Result<bool> {
        let append = |name: &str, line: String| {
            OpenOptions::new().append(true).open(folder.join(name))?.write_all(line.as_bytes())
        };
        append("passed", format!("{word}\n"))?;
        let armed = folder.join("armed");
        if fs::read_to_string(&armed)? != word {
            return Ok(false);
        }
        fs::rename(armed, folder.join("standing"))?;
        append("bell", format!("{word} {}\n", getpid().as_raw_nonzero()))?;
        Ok(true)
    }
}
