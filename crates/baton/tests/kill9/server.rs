//! The real server as a process that can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Where the server keeps its data: another store is another one of these.
pub struct Ground {
    pub folder: PathBuf,
    /// What the program is started with besides.
    pub environment: Vec<(String, String)>,
}

impl Ground {
    /// A file in a folder.
    pub fn sqlite(place: &Path) -> Self {
        Self { folder: place.join("data"), environment: vec![] }
    }

    /// The program, asked for this, on this ground.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(words).arg("--data").arg(&self.folder).env_clear();
        command.envs(self.environment.iter().cloned());
        command
    }
}

/// A running server. It is killed when dropped.
pub struct Server {
    process: Child,
    /// Where it listens.
    pub address: String,
    /// The file that holds its local key.
    pub key_file: String,
}

impl Server {
    /// Starts the server and waits for its word that it accepts requests.
    pub fn start(ground: &Ground, address: &str) -> Self {
        let mut process = Self::spawn(ground, address);
        let out = process.stdout.take().expect("the output was asked for");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("the server speaks");
        let ready: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the server says that it is ready: {error}: {line:?}"));
        assert_eq!(ready["ready"], true);
        let url = ready["url"].as_str().expect("it has an address");
        let address = url.trim_start_matches("http://").to_owned();
        let key_file = ready["key_file"].as_str().expect("it has a key").to_owned();
        Self { process, address, key_file }
    }

    /// Starts the server and does not wait for anything.
    pub fn spawn(ground: &Ground, address: &str) -> Child {
        ground
            .command(&["serve", "--json", "--listen", address, "--key-rate", "0"])
            .arg("--socket")
            .arg(ground.folder.join("run").join("baton.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts")
    }

    /// Kills it with the signal that cannot be caught.
    pub fn kill(mut self) {
        self.process.kill().expect("it takes a signal");
        self.process.wait().expect("it can be reaped");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "how long the server was down is measured outside it"
)]
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(since.as_millis()).expect("it is before the year 292 million")
}
