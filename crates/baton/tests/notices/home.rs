//! Somebody's home with a server in it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A home, and the server that runs in it.
pub struct Home {
    folder: TempDir,
    database: Option<String>,
    server: Option<Child>,
}

impl Drop for Home {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("told").tempdir().expect("there is room");
        Self { folder, database: None, server: None }
    }

    /// One whose data are in this database; its pepper is that of the other, if there is one.
    pub fn on(database: &str, beside: Option<&Self>) -> Self {
        let mut home = Self::new();
        home.database = Some(database.to_owned());
        if let Some(other) = beside {
            std::fs::create_dir_all(home.data()).expect("there is room");
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(home.data(), private).expect("it is ours");
            let copied = std::fs::copy(other.data().join("pepper"), home.data().join("pepper"));
            copied.expect("the pepper is there");
        }
        home
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where programs are that the server may find.
    pub fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(words).env_clear().env("HOME", self.folder.path());
        command.env("BATON_HOME", self.data()).env("PATH", self.programs());
        command.envs(self.database.iter().map(|url| ("BATON_DATABASE_URL", url)));
        command.stdin(Stdio::null()).current_dir(self.folder.path());
        command
    }

    pub fn serve(&mut self, more: &[&str]) {
        let mut words = vec!["serve", "--json", "--listen", "127.0.0.1:0"];
        words.extend(more);
        let mut child = self.command(&words).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says that it is ready");
        assert!(line.contains("url"), "it is ready: {line}");
        self.server = Some(child);
    }

    /// As a crash would.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("it is ours");
            server.wait().expect("it is ours");
        }
    }

    /// What a command prints as JSON, and what it exits with.
    pub fn asks(&self, words: &[&str], token: Option<&str>) -> (Value, i32) {
        let mut command = self.command(words);
        command.arg("--json").envs(token.map(|token| ("BATON_CLAIM_TOKEN", token)));
        let output = command.output().expect("the program is there");
        let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
        let body = serde_json::from_slice(said).unwrap_or_else(|error| {
            panic!("{words:?}: {error}: {}", String::from_utf8_lossy(said))
        });
        (body, output.status.code().expect("it was not killed"))
    }

    /// The same of a command that succeeds.
    pub fn does(&self, words: &[&str]) -> Value {
        let (body, exit) = self.asks(words, None);
        assert_eq!(exit, 0, "{words:?}: {body}");
        body
    }

    /// A task whose agent asks something; answers with its claim token.
    pub fn asked(&self, title: &str, question: &str) -> String {
        self.does(&["add", title, "-P", "shop", "--stage", "coding"]);
        let claimed = self.does(&["claim", "-P", "shop"]);
        let token = claimed["claim_token"].as_str().expect("it is shown").to_owned();
        for words in [vec!["run", "begin", "mine"], vec!["ask", question]] {
            let (body, exit) = self.asks(&words, Some(&token));
            assert_eq!(exit, 0, "{words:?}: {body}");
        }
        token
    }
}
