//! Where the story happens: a temporary folder and a server in it; its data are in an empty database,
//! if one is named.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use baton_store::PepperDigest;
use baton_store::postgres::loan::Loan;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::chance::{Chance as _, SystemChance};
use crate::surroundings::Hidden;
use crate::tokens::Secrets;

use super::Failure;

/// How long the server may take to come up: a cold disk, not a hung one.
const READY_MAX: Duration = Duration::from_secs(20);
/// How long it may take to drain. It has nobody left to wait for.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How much of what it said on its way down is told.
const SAID_BYTES_MAX: usize = 2_000;

/// The folder, the database if it is elsewhere, and the server.
pub(super) struct House {
    // First, so that it is killed before its folder goes, should nobody close the house.
    server: Child,
    /// What the server stops with: it ends with us, however we end.
    _input: Option<ChildStdin>,
    ground: Ground,
    /// The database, which goes back as empty as it came.
    loan: Option<Loan>,
}

/// What a command of ours needs to find the server.
struct Ground {
    program: PathBuf,
    folder: TempDir,
    database: Option<Hidden>,
}

impl House {
    /// Where everything of it is; commands are typed here.
    pub(super) fn folder(&self) -> &Path {
        self.ground.folder.path()
    }

    /// Starts the server and waits until it answers; in an empty database, if one is named.
    pub(super) async fn open(database: Option<Hidden>) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let folder = tempfile::Builder::new().prefix("baton-demo-").tempdir()?;
        let ground = Ground { program, folder, database };
        let loan = match &ground.database {
            Some(url) => Some(borrow(&ground.data(), url).await?),
            None => None,
        };
        match start(&ground).await {
            Ok((server, input)) => Ok(Self { server, _input: input, ground, loan }),
            Err(failure) => {
                if let Some(loan) = loan {
                    loan.give_back().await?;
                }
                Err(failure)
            }
        }
    }

    /// A command of ours that will find this server, and nothing else of this machine.
    pub(super) fn command(&self) -> Command {
        let mut command = self.ground.bare();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Lets the server drain, and removes the folder.
    pub(super) async fn close(self) -> Result<(), Failure> {
        let Self { mut server, _input, ground, loan } = self;
        let number = server.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(number) = number {
            // It may have ended by itself; what it exited with tells.
            let _gone = kill_process(number, Signal::TERM);
        }
        let ended = timeout(STOP_MAX, server.wait()).await;
        if ended.is_err() {
            server.kill().await?;
        }
        if let Some(loan) = loan {
            loan.give_back().await?;
        }
        ground.folder.close()?;
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) | Err(_) => Err(Failure::Stop),
        }
    }
}

/// Starts the server and waits until it answers.
async fn start(ground: &Ground) -> Result<(Child, Option<ChildStdin>), Failure> {
    let log = ground.folder.path().join("serve.log");
    let mut server = ground
        .bare()
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--stop-with-stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log)?)
        .spawn()?;
    let (input, stdout) = (server.stdin.take(), server.stdout.take());
    let ready = async {
        let mut line = String::new();
        let mut reader = BufReader::new(stdout?);
        reader.read_line(&mut line).await.ok().filter(|bytes| *bytes > 0)
    };
    if timeout(READY_MAX, ready).await.ok().flatten().is_none() {
        let mut said = std::fs::read_to_string(&log).unwrap_or_default();
        said.truncate(said.floor_char_boundary(SAID_BYTES_MAX));
        let quiet = if said.is_empty() { "it said nothing" } else { said.trim() };
        return Err(Failure::Server { said: quiet.to_owned() });
    }
    Ok((server, input))
}

/// Takes an empty database with the pepper that the server will find in its folder.
async fn borrow(data: &Path, url: &Hidden) -> Result<Loan, Failure> {
    DirBuilder::new().mode(0o700).create(data)?;
    let secrets = Secrets::open(&data.join("pepper"), &SystemChance)?;
    let mut chance: baton_store::Chance = Box::new(|bytes| SystemChance.fill(bytes));
    Ok(Loan::take(url.reveal(), PepperDigest(secrets.verifier()), &mut chance).await?)
}

impl Ground {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Our own program, without anything of whoever started us, in a group of its own: Ctrl-C is
    /// for the one who tells the story, who then stops everybody in order.
    fn bare(&self) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.folder.path();
        command
            .env_clear()
            .env("HOME", folder)
            .env("BATON_HOME", self.data())
            .envs(self.database.iter().map(|url| ("BATON_DATABASE_URL", url.reveal())))
            .current_dir(folder)
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}
