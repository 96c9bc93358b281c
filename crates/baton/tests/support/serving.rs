//! `baton serve` as a process.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::caller::{Ask, Caller};

/// A folder that is ours alone.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("it is ours");
    folder
}

/// A server in a process of its own; killed if a test forgets it.
pub struct Serving {
    pub child: Child,
    pub ready: Value,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn command(data: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.arg("serve").arg("--json").arg("--data").arg(data).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn start(data: &Path) -> Serving {
    ready(command(data, &["--listen", "127.0.0.1:0"]))
}

/// Starts it and hears that it is ready.
pub fn ready(mut command: Command) -> Serving {
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("it says something");
    let ready = serde_json::from_str(&line).expect("one line of JSON");
    Serving { child, ready }
}

impl Serving {
    pub fn text(&self, name: &str) -> String {
        self.ready[name].as_str().expect("it is there").to_owned()
    }

    pub async fn connect(&self) -> Caller {
        let url = self.text("url");
        let address = url.strip_prefix("http://").expect("a URL").to_owned();
        Caller::new(TcpStream::connect(address).await.expect("it listens"))
    }

    pub fn get(&self, target: &str) -> Ask {
        let key = fs::read_to_string(self.text("key_file")).expect("it is written");
        let host = self.text("url").replace("http://", "");
        Ask::get(target)
            .with("host", &host)
            .with("authorization", &format!("Bearer {}", key.trim()))
    }
}
