//! Machines that share no files: each has a data folder, a clone of the project, and a worker that has nothing but a URL
//! and a key.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
    for _ in 0..100 {
        let version = house.types(&["task", "show", "T-1"])["version"].to_string();
        let page = house.types(&["checkpoint", "list", "T-1"]);
        let items = page["items"].as_array().expect("a list").iter();
        let found: Vec<_> =
            items.filter(|one| one["git"]["baton-work"].is_string()).cloned().collect();
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
