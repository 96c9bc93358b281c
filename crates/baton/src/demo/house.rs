//! Where the story happens: a temporary folder and a server in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::Failure;

/// How long the server may take to come up: a cold disk, not a hung one.
const READY_MAX: Duration = Duration::from_secs(20);
/// How long it may take to drain. It has nobody left to wait for.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How much of what it said on its way down is told.
const SAID_BYTES_MAX: usize = 2_000;

/// The folder and the server.
pub(super) struct House {
    // First, so that it is killed before its folder goes, should nobody close the house.
    server: Child,
    /// What the server stops with: it ends with us, however we end.
    _input: Option<ChildStdin>,
    program: PathBuf,
    folder: TempDir,
}

impl House {
    /// Starts the server and waits until it answers.
    pub(super) async fn open() -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let folder = tempfile::Builder::new().prefix("baton-demo-").tempdir()?;
        let log = folder.path().join("serve.log");
        let mut server = bare(&program, folder.path())
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
        Ok(Self { server, _input: input, program, folder })
    }

    /// A command of ours that will find this server, and nothing else of this machine.
    pub(super) fn command(&self) -> Command {
        let mut command = bare(&self.program, self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Lets the server drain, and removes the folder.
    pub(super) async fn close(self) -> Result<(), Failure> {
        let Self { mut server, _input, program: _, folder } = self;
        let number = server.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(number) = number {
            // It may have ended by itself; what it exited with tells.
            let _gone = kill_process(number, Signal::TERM);
        }
        let ended = timeout(STOP_MAX, server.wait()).await;
        if ended.is_err() {
            server.kill().await?;
        }
        folder.close()?;
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) | Err(_) => Err(Failure::Stop),
        }
    }
}

/// Our own program, without anything of whoever started us, in a group of its own: Ctrl-C is for
/// the one who tells the story, who then stops everybody in order.
fn bare(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", folder)
        .env("BATON_HOME", folder.join("data"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command
}
