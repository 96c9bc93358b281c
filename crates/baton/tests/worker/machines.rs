//! Machines that share no files: each has a data folder, a clone of the project, and a worker that has nothing but a URL
//! and a key.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::house::House;

/// A machine with a worker.
pub struct Machine {
    pub name: &'static str,
    root: PathBuf,
    worker: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Whatever is left of an agent goes with its worker.
        if let Some(worker) = &mut self.worker {
            kill_process(Pid::from_child(worker), Signal::USR1).unwrap_or_default();
            drop(worker.wait());
        }
    }
}

impl Machine {
    /// A machine with a clone of the project, and with what its agent does.
    pub fn new(house: &House, name: &'static str, steps: &str) -> Self {
        let root = house.path(name);
        fs::create_dir(&root).expect("there is room");
        let machine = Self { name, root, worker: None };
        fs::create_dir(machine.data()).expect("there is room");
        git(&machine.root, &["clone", "-q", &house.path("origin").display().to_string(), "shop"]);
        machine.steps(steps);
        let settings = format!(
            "slots = 1\nmemory_floor = '0'\n[projects]\nshop = '{}'\n\
             [agents.demo]\nprogram = 'script'\narguments = ['{}']\n",
            machine.clone_of_project().display(),
            machine.root.join("steps").display()
        );
        fs::write(machine.data().join("worker.toml"), settings).expect("there is room");
        let words = ["key", "create", "--name", name, "--principal", name, "--kind", "worker"];
        let made = house.types(&[&words[..], &["--scopes", "worker"]].concat());
        let key = made["key"].as_str().expect("it is shown once");
        fs::write(machine.key(), key).expect("there is room");
        rustix::fs::chmod(machine.key(), Mode::RUSR | Mode::WUSR).expect("it is ours");
        machine
    }

    pub fn steps(&self, steps: &str) {
        fs::write(self.root.join("steps"), steps).expect("there is room");
    }

    pub fn clone_of_project(&self) -> PathBuf {
        self.root.join("shop")
    }

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    fn key(&self) -> PathBuf {
        self.root.join("key")
    }

    /// Starts its worker, which reaches the server there.
    pub fn works(&mut self, house: &House, url: &str) {
        let key = self.key().display().to_string();
        let mut command = house.command(&["work", "--json", "--url", url, "--key-file", &key]);
        let log = OpenOptions::new().create(true).append(true).open(self.root.join("log"));
        command.env("BATON_HOME", self.data()).env("BATON_LOG", "plain,info,baton=debug");
        command.stdout(Stdio::piped()).stderr(log.expect("there is room"));
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        self.worker = Some(child);
        assert!(line.contains("\"ready\":true"), "{line}{}", self.log());
    }

    /// Tells it to stop its agents, prove it, and end.
    pub fn stops(&mut self) {
        let mut worker = self.worker.take().expect("it runs");
        kill_process(Pid::from_child(&worker), Signal::USR1).expect("it is ours");
        let status = worker.wait().expect("it is ours");
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// The power fails: neither its worker nor its agent says another word.
    pub fn dies(&mut self, attempt: &str) {
        let mut worker = self.worker.take().expect("it runs");
        worker.kill().expect("it is ours");
        drop(worker.wait());
        let launch = self.data().join("worker/attempts").join(attempt).join("launch.json");
        let launch: Value =
            serde_json::from_slice(&fs::read(launch).expect("it was launched")).expect("JSON");
        let shim = launch["shim"]["pid"].as_i64();
        let shim = shim.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let shim = shim.unwrap_or_else(|| panic!("it has a shim: {launch}"));
        kill_process(shim, Signal::KILL).expect("it is ours");
    }

    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.root.join("log")).unwrap_or_default();
        format!("--- {}\n{text}", self.name)
    }

    /// The folder of the task, of this generation.
    pub fn tree(&self, generation: u32) -> PathBuf {
        let deployments = fs::read_dir(self.data().join("worker")).expect("it has worked");
        let mut trees = deployments
            .flatten()
            .map(|entry| entry.path().join(format!("worktrees/local.T-1.{generation}/tree")));
        trees.find(|tree| tree.is_dir()).unwrap_or_else(|| panic!("it worked: {}", self.log()))
    }
}

/// A server, a task, and a repository that machines clone.
pub fn house() -> House {
    let mut house = House::empty("");
    let origin = house.path("origin");
    fs::create_dir(&origin).expect("there is room");
    fs::write(origin.join("README"), "hello\n").expect("there is room");
    fs::write(origin.join("plan.txt"), "one\n").expect("there is room");
    git(&origin, &["init", "-q", "-b", "main"]);
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "-qm", "First"]);
    house.serve();
    let nowhere = house.path("nowhere").display().to_string();
    house.types(&["project", "add", "shop", "--root", &nowhere]);
    house.types(&["add", "Greet", "--project", "shop", "--stage", "coding"]);
    house
}

pub fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(words);
    let out = command.current_dir(folder).output().expect("git is there");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Waits until so many snapshots of the task are at the server; what is told of them.
pub fn handed_in(house: &House, count: usize) -> Vec<Value> {
    handed_in_that(house, count, |_| true)
}

/// The same of work that is more than what the project was before an agent began: a snapshot from before
/// that may be handed in by itself, or not at all if there is a later one by then.
pub fn changed_work(house: &House) -> Vec<Value> {
    let before = git(&house.path("origin"), &["rev-parse", "HEAD^{tree}"]);
    handed_in_that(house, 1, |one| one["git"]["tree"] != before.trim())
}

fn handed_in_that(house: &House, count: usize, meant: impl Fn(&Value) -> bool) -> Vec<Value> {
    for _ in 0..100 {
        let version = house.types(&["task", "show", "T-1"])["version"].to_string();
        let page = house.types(&["checkpoint", "list", "T-1"]);
        let items = page["items"].as_array().expect("a list").iter();
        let found: Vec<_> = items
            .filter(|one| one["git"]["baton-work"].is_string() && meant(one))
            .cloned()
            .collect();
        if found.len() >= count {
            return found;
        }
        house.tries(&["run", "wait", "T-1", "--since", &version, "--wait", "10s"]);
    }
    panic!("nothing is handed in: {}", house.logs());
}

/// Everything in a folder besides its repository: path, rights, and what stands there.
pub fn everything(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("it is there"));
            let inside = path.strip_prefix(root).expect("it is inside").to_path_buf();
            if kind.is_dir() && inside != Path::new(".git") {
                folders.push(path);
            } else if kind.is_symlink() {
                let to = fs::read_link(&path).expect("a link");
                found.insert(inside, format!("link {}", to.display()));
            } else if kind.is_file() {
                let runs = fs::metadata(&path).expect("it is there").permissions().mode() & 0o100;
                let bytes = fs::read(&path).expect("a file");
                found.insert(inside, format!("file {runs:o} {bytes:?}"));
            }
        }
    }
    found
}

/// A line to the server that can be made to take a blob half and no further.
pub struct Line {
    pub url: String,
    stalls: Arc<AtomicBool>,
    stalled: mpsc::Receiver<()>,
}

impl Line {
    pub fn to(house: &House) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let server = house.url.strip_prefix("http://").expect("it is plain").to_owned();
        let (stalls, (tell, stalled)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        let stall = Arc::clone(&stalls);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&server) else { continue };
                let (stall, tell) = (Arc::clone(&stall), tell.clone());
                thread::spawn(move || carry(near, far, &stall, &tell));
            }
        });
        Self { url, stalls, stalled }
    }

    /// From now on no blob comes through whole.
    pub fn stalls(&self) {
        self.stalls.store(true, Ordering::SeqCst);
    }

    /// Waits until one is stuck.
    pub fn is_stuck(&self) {
        let limit = std::time::Duration::from_secs(60);
        self.stalled.recv_timeout(limit).expect("somebody sends a blob");
    }
}

/// Carries what two ends say to each other, or holds them if the line stalls.
fn carry(
    mut near: TcpStream,
    mut far: TcpStream,
    stall: &AtomicBool,
    tell: &mpsc::Sender<()>,
) -> Option<()> {
    let (mut first, mut end) = (vec![], None);
    // A head may come in several pieces, and the first bytes of a body, which is no text, with it.
    while end.is_none() {
        let mut piece = [0; 4_096];
        let count = near.read(&mut piece).ok().filter(|count| *count > 0)?;
        first.extend_from_slice(&piece[..count]);
        end = first.windows(4).position(|four| four == b"\r\n\r\n");
    }
    let body = first.split_off(end? + 4);
    // A server answers under its own name alone.
    let (asked, real) = (near.local_addr().ok()?, far.peer_addr().ok()?);
    let start = String::from_utf8(first).expect("a head is text");
    let start = start.replace(&asked.to_string(), &real.to_string());
    if start.starts_with("PUT /v1/blobs") && stall.load(Ordering::SeqCst) {
        drop(far.write_all(start.as_bytes()));
        tell.send(()).unwrap_or_default();
        // Nothing more is taken until the one who sends gives up.
        return near.read_to_end(&mut vec![]).ok().map(|_| ());
    }
    far.write_all(&[start.as_bytes(), &body].concat()).ok()?;
    let ends = [(near.try_clone().ok()?, far.try_clone().ok()?), (far, near)];
    for (mut from, mut to) in ends {
        thread::spawn(move || {
            drop(std::io::copy(&mut from, &mut to));
            drop(to.shutdown(std::net::Shutdown::Write));
        });
    }
    None
}
