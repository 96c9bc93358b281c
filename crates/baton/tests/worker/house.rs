//! A server, a worker and an agent that does what a file says.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

pub struct House {
    pub folder: TempDir,
    /// Where the server listens, once it does.
    pub url: String,
    server: Option<Child>,
    worker: Option<Child>,
    /// Workers that were started before it.
    others: Vec<Child>,
}

impl Drop for House {
    fn drop(&mut self) {
        // Agents that a test left go when their worker is told to, with whatever it started.
        drop(self.command(&["down", "--now"]).output());
        let one = [&mut self.worker, &mut self.server].into_iter().flatten();
        for child in one.chain(&mut self.others) {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl House {
    /// A folder with settings, in which nothing runs.
    pub fn empty(steps: &str) -> Self {
        // Not in /tmp, of which agents have their own.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("there is room");
        let house = Self { folder, url: String::new(), server: None, worker: None, others: vec![] };
        fs::create_dir(house.data()).expect("there is room");
        rustix::fs::chmod(house.data(), Mode::RWXU).expect("it is ours");
        house.steps(steps);
        let steps = house.path("steps");
        let settings = format!(
            "slots = 2\nmemory_floor = '0'\ndisk_floor = '0'\n[agents.demo]\nprogram = 'script'\narguments = ['{}']\n",
            steps.display()
        );
        fs::write(house.data().join("worker.toml"), settings).expect("there is room");
        house
    }

    /// The same with a server and one task, which an agent is to work on.
    pub fn served(steps: &str) -> Self {
        let mut house = Self::empty(steps);
        house.serve();
        house.types(&["project", "add", "shop"]);
        house.types(&["add", "Greet", "--project", "shop", "--stage", "coding"]);
        house
    }

    /// The same with a task that is tried so.
    pub fn served_with(steps: &str, policy: &str) -> Self {
        Self::served_as(steps, policy, "localhost")
    }

    /// The same with a server that answers under this name, too.
    pub fn served_as(steps: &str, policy: &str, host: &str) -> Self {
        let mut house = Self::empty(steps);
        house.serve_as(host);
        house.types(&["project", "add", "shop"]);
        let task = ["add", "Greet", "--project", "shop", "--stage", "coding", "--policy", policy];
        house.types(&task);
        house
    }

    /// The same with a project that is a repository.
    pub fn with_repository(steps: &str) -> Self {
        Self::with_settings(steps, None, "{}")
    }

    /// The same with a `baton.toml` in its first commit, and a task that is tried so.
    pub fn with_settings(steps: &str, settings: Option<&str>, policy: &str) -> Self {
        let mut house = Self::empty(steps);
        let root = house.path("shop");
        fs::create_dir(&root).expect("there is room");
        if let Some(settings) = settings {
            fs::write(root.join("baton.toml"), settings).expect("there is room");
        }
        fs::write(root.join("README"), "hello\n").expect("there is room");
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(words);
            let out = command.current_dir(&root).output().expect("git is there");
            assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        };
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-qm", "First"]);
        house.serve();
        house.types(&["project", "add", "shop", "--root", &root.display().to_string()]);
        let task = ["add", "Greet", "--project", "shop", "--stage", "coding", "--policy", policy];
        house.types(&task);
        house
    }

    pub fn steps(&self, steps: &str) {
        fs::write(self.path("steps"), steps).expect("there is room");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Where the agent of the task works.
    pub fn work(&self) -> PathBuf {
        let deployments = fs::read_dir(self.data().join("worker")).expect("it has worked");
        let homes = deployments.filter_map(Result::ok).map(|entry| entry.path().join("homes"));
        let homes = homes.into_iter().find(|homes| homes.is_dir()).expect("it has worked");
        homes.join("local.T-1/work")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BATON);
        command.args(words).env_clear().env("BATON_HOME", self.data());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("BATON_OUTPUT", "json");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// What a person types, however it ends.
    pub fn tries(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it starts")
    }

    /// What a person types, and what is answered.
    pub fn types(&self, words: &[&str]) -> Value {
        let output = self.tries(words);
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{words:?}: {} {told}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.logs()
        );
        serde_json::from_str(&told).expect("it answers JSON")
    }

    /// Waits until the task comes to something, and says what `wait` exits with.
    pub fn waits(&self) -> i32 {
        let output = self.tries(&["wait", "T-1", "--timeout", "90s"]);
        let code = output.status.code().expect("it exits");
        assert_ne!(code, 124, "the task comes to nothing: {}\n{}", self.shown(), self.logs());
        code
    }

    pub fn shown(&self) -> String {
        let task = self.tries(&["task", "show", "T-1"]).stdout;
        String::from_utf8_lossy(&task).into_owned()
    }

    pub fn logs(&self) -> String {
        let name = |name: &str| {
            format!("--- {name}\n{}", fs::read_to_string(self.path(name)).unwrap_or_default())
        };
        let background = ["data/log/serve.log", "data/log/work.log"];
        ["serve", "work"].into_iter().chain(background).map(name).collect()
    }

    fn start(&self, words: &[&str]) -> (Child, Value) {
        self.started(self.command(words), words)
    }

    fn started(&self, mut command: Command, words: &[&str]) -> (Child, Value) {
        let log = OpenOptions::new().create(true).append(true).open(self.path(words[0]));
        command.env("BATON_LOG", "plain,info,baton=debug");
        command.stdout(Stdio::piped()).stderr(log.expect("there is room"));
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        let ready = serde_json::from_str(&line);
        (child, ready.unwrap_or_else(|_| panic!("{words:?} is not ready: {line}{}", self.logs())))
    }

    pub fn serve(&mut self) {
        self.serve_as("localhost");
    }

    fn serve_as(&mut self, host: &str) {
        let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--host", host];
        let (child, ready) = self.start(&words);
        self.server = Some(child);
        self.url = ready["url"].as_str().expect("it listens").to_owned();
    }

    /// Starts a worker; what it says once it is ready.
    pub fn work_on(&mut self, more: &[&str]) -> Value {
        let words: Vec<_> = ["work", "--json"].into_iter().chain(more.iter().copied()).collect();
        let (child, ready) = self.start(&words);
        self.worker = Some(child);
        ready
    }

    /// Starts a worker with a data folder of its own, which has nothing but a URL and a key.
    pub fn work_elsewhere(&mut self, url: &str, more: &[&str]) -> PathBuf {
        let made = self.types(&[
            "key",
            "create",
            "--name",
            "far",
            "--principal",
            "far",
            "--kind",
            "worker",
            "--scopes",
            "worker",
        ]);
        let (key, other) = (self.path("far.key"), self.path("other"));
        fs::write(&key, made["key"].as_str().expect("it is shown once")).expect("there is room");
        rustix::fs::chmod(&key, Mode::RUSR | Mode::WUSR).expect("it is ours");
        fs::create_dir(&other).expect("there is room");
        fs::copy(self.data().join("worker.toml"), other.join("worker.toml"))
            .expect("there is room");
        let key = key.display().to_string();
        let words = ["work", "--json", "--url", url, "--key-file", &key];
        let words: Vec<_> = words.into_iter().chain(more.iter().copied()).collect();
        let mut command = self.command(&words);
        command.env("BATON_HOME", &other);
        let (child, _) = self.started(command, &words);
        // Whoever works here already goes on.
        self.others.extend(self.worker.replace(child));
        other
    }

    /// Sends the first worker that was started a signal.
    pub fn signal_worker(&self, signal: Signal) {
        let first = self.others.first().or(self.worker.as_ref()).expect("it runs");
        let pid = Pid::from_child(first);
        kill_process(pid, signal).expect("it is ours");
    }

    /// Waits until the worker ends by itself.
    pub fn worker_ends(&mut self) {
        let status = self.worker.take().expect("it runs").wait().expect("it is ours");
        assert!(status.success(), "{status}: {}", self.logs());
    }

    pub fn kill_worker(&mut self) {
        kill(self.worker.take());
    }

    pub fn kill_server(&mut self) {
        kill(self.server.take());
    }

    /// A pipe that an agent reads: it waits there until the test says something.
    pub fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let kind = rustix::fs::FileType::Fifo;
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("there is room");
        path
    }

    /// Opens the other end of it, which is there once somebody reads.
    pub fn opened(&self, name: &str) -> File {
        OpenOptions::new().write(true).open(self.path(name)).expect("somebody reads")
    }

    /// The attempts of the task, as their outcomes.
    pub fn outcomes(&self) -> Vec<String> {
        let page = self.types(&["attempt", "list", "T-1"]);
        let items = page["items"].as_array().expect("a list").clone();
        items.iter().map(|it| it["outcome"].as_str().unwrap_or("none").to_owned()).collect()
    }
}

fn kill(child: Option<Child>) {
    let mut child = child.expect("it runs");
    child.kill().expect("it is ours");
    assert!(!child.wait().expect("it is ours").success());
}

/// Whether the pipe has no reader any more.
pub fn is_deserted(pipe: &mut File) -> bool {
    pipe.write_all(b"?").is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

pub fn text_of(path: &std::path::Path) -> String {
    let mut text = String::new();
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.take(1 << 20).read_to_string(&mut text).expect("it is text");
    text
}

/// How long a test waits for something to become so.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until something is so; the looking has a bound.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
        if is_so() {
            return;
        }
        let (_keeps_open, never) = std::sync::mpsc::channel::<()>();
        never.recv_timeout(LOOK_EVERY).expect_err("nobody says anything");
    }
    panic!("in vain: {what}");
}
