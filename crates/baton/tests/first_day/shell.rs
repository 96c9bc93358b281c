//! A shell that knows just enough for a first day: `baton …`, `baton serve … &`, `kill %1`,
//! `export` and `unset`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::plain;

/// Digits of the place of a server.
const PLACE_DIGITS: usize = 8;

/// Somebody's home, environment and server.
pub struct Shell {
    home: TempDir,
    /// The folder that it is in, below the home.
    folder: std::path::PathBuf,
    environment: BTreeMap<String, String>,
    server: Option<Child>,
    /// Databases by their real addresses, and by those that are shown.
    databases: Vec<(String, String)>,
    /// Secrets and ids as they are, and as they are shown.
    veils: Vec<(String, String)>,
    /// Whether agents may work in the background.
    has_agents: bool,
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // A failing test leaves no server behind.
            let _gone = server.kill();
            let _gone = server.wait();
        }
        if self.has_agents {
            drop(self.command(&["down", "--now"]).output());
        }
    }
}

impl Shell {
    pub fn new() -> Self {
        let home = tempfile::Builder::new().prefix("day").tempdir().expect("there is room");
        Self {
            home,
            folder: std::path::PathBuf::new(),
            environment: BTreeMap::new(),
            server: None,
            databases: vec![],
            veils: vec![],
            has_agents: false,
        }
    }

    /// The same where agents can work: not in `/tmp`, of which they have their own, and with git.
    pub fn with_agents() -> Self {
        let place = env!("CARGO_TARGET_TMPDIR");
        let home = tempfile::Builder::new().prefix("day").tempdir_in(place).expect("there is room");
        let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        let mut shell = Self::new();
        shell.home = home;
        shell.environment = BTreeMap::from([path]);
        shell.has_agents = true;
        shell
    }

    /// The same with data in the first of these databases; each has a name that it is shown by.
    pub fn on(databases: &[(&str, &str)]) -> Self {
        let mut shell = Self::new();
        shell.databases =
            databases.iter().map(|(url, name)| ((*url).to_owned(), (*name).to_owned())).collect();
        let first = databases.first().map(|(url, _)| ("BATON_DATABASE_URL".to_owned(), *url));
        shell.environment.extend(first.map(|(name, url)| (name, url.to_owned())));
        shell
    }

    /// Types every line of the script that begins with `$`, and tells what came of it. Lines that
    /// begin with `--` are remarks and stay.
    pub fn play(&mut self, script: &str) -> String {
        let mut told = String::new();
        for line in script.lines() {
            if line.starts_with("-- ") {
                told.push_str(&format!("{line}\n\n"));
            } else if let Some(typed) = line.strip_prefix("$ ") {
                let said = self.types(typed);
                told.push_str(&format!("$ {typed}\n{}\n", plain::block(said)));
            }
        }
        told.trim_end().to_owned() + "\n"
    }

    fn types(&mut self, typed: &str) -> String {
        let words = words(&self.unveiled(typed));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["baton", "serve", .., "&"] => self.serves(&words[1..words.len() - 1]),
            ["kill", "%1"] => self.stops(),
            ["export", setting] => {
                let (name, value) = setting.split_once('=').expect("NAME=value");
                self.environment.insert(name.to_owned(), value.to_owned());
                String::new()
            }
            ["mkdir", name] => {
                std::fs::create_dir(self.home.path().join(name)).expect("there is room");
                String::new()
            }
            ["cd", name] => {
                self.folder = name.into();
                String::new()
            }
            ["git", ..] => self.versions(&words[1..]),
            ["unset", name] => {
                self.environment.remove(name);
                String::new()
            }
            ["baton", ..] => self.asks(&words[1..]),
            _ => panic!("this shell does not know `{typed}`"),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        let home = self.home.path();
        command.args(words).env_clear().env("HOME", home).current_dir(home.join(&self.folder));
        command.envs(&self.environment).stdin(Stdio::null());
        command
    }

    fn versions(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(words);
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(self.home.path().join(&self.folder));
        let output = command.output().expect("git is there");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn asks(&mut self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("the program is there");
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        if words.starts_with(&["key", "list"]) {
            said = by_name(&said);
        }
        let mut said = self.veiled(&said);
        match output.status.code() {
            Some(0) => {}
            Some(exit) => said.push_str(&format!("[exit {exit}]\n")),
            None => panic!("`{words:?}` was killed"),
        }
        said
    }

    fn serves(&mut self, words: &[&str]) -> String {
        let mut words = words.to_vec();
        // The transcript need not say it: any free port will do.
        words.extend(["--listen", "127.0.0.1:0"]);
        let mut server = self.command(&words).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines();
        let mut said = String::new();
        let next = |_| lines.next().and_then(Result::ok);
        // It says two lines once it accepts requests.
        for line in (0..2).map_while(next) {
            said.push_str(&format!("{line}\n"));
        }
        self.server = Some(server);
        self.learn_local_key();
        self.veiled(&said)
    }

    fn stops(&mut self) -> String {
        let mut server = self.server.take().expect("a server runs");
        let number = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
        kill_process(number.expect("a child has a number"), Signal::TERM).expect("it is ours");
        let status = server.wait().expect("it is ours");
        assert!(status.success(), "the server drained");
        String::new()
    }

    /// The id of the key that the server keeps for this user is no secret, but differs.
    fn learn_local_key(&mut self) {
        let path = self.home.path().join(".local/state/baton/local.key");
        if let Ok(key) = std::fs::read_to_string(path)
            && let Some(id) = key.trim().split('_').nth(1)
            && self.veils.iter().all(|(real, _)| real != id)
        {
            self.veils.push((id.to_owned(), "KeyOfThisMac".to_owned()));
        }
    }

    /// A text with stable names for what is secret or chance. New ones are learnt on the way.
    fn veiled(&mut self, text: &str) -> String {
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let known = self.veils.iter().any(|(real, _)| real == word);
            let number = self.veils.len();
            if word.starts_with("batonc_") && !known {
                self.veils.insert(0, (word.to_owned(), format!("batonc_{number}…")));
            } else if word.starts_with("batonk_") && !known {
                let id = word.split('_').nth(1).unwrap_or_default().to_owned();
                self.veils.insert(0, (word.to_owned(), format!("batonk_{number}…")));
                if self.veils.iter().all(|(real, _)| *real != id) {
                    self.veils.push((id, format!("KeyNumber{number:03}")));
                }
            }
        }
        let home = self.home.path().display().to_string();
        let folder =
            self.home.path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let shown = without_place(text).replace(&home, "~").replace(&folder, "folder-01");
        let names = self.databases.iter().chain(&self.veils);
        names.fold(shown, |text, (real, shown)| text.replace(real, shown))
    }

    fn unveiled(&self, typed: &str) -> String {
        let home = self.home.path().display().to_string();
        let typed = typed.replace("~/", &format!("{home}/"));
        let names = self.databases.iter().chain(&self.veils);
        names.fold(typed, |text, (real, shown)| text.replace(shown, real))
    }
}

/// Where many servers share a database, the key of this user bears the digest of the server's place.
fn without_place(text: &str) -> String {
    let mut pieces = text.split("local-");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let place = piece.bytes().take_while(u8::is_ascii_hexdigit).count();
        shown.push_str(if place == PLACE_DIGITS { "local" } else { "local-" });
        shown.push_str(if place == PLACE_DIGITS { &piece[place..] } else { piece });
    }
    shown
}

/// Ids of keys are chance, and so is the order of their list; names are not. When they were last used
/// is noted now and then.
fn by_name(list: &str) -> String {
    let mut lines: Vec<_> = list.lines().map(str::to_owned).collect();
    if let Some((head, rows)) = lines.split_first_mut() {
        rows.sort_by_key(|row| row.split_whitespace().nth(1).map(str::to_owned));
        if let (Some(from), Some(to)) = (head.find("USED AT"), head.find("REVOKED AT")) {
            rows.iter_mut().for_each(|row| blank(row, from, to));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Takes out what stands in one column of a row.
fn blank(row: &mut String, from: usize, to: usize) {
    let shown = |(at, c): (usize, char)| if (from..to).contains(&at) { ' ' } else { c };
    *row = row.chars().enumerate().map(shown).collect();
}

/// A line as a shell takes it apart.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
