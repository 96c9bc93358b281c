//! A house whose processes can be made to stand still at a place, and be killed there.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::house::{House, text_of};
use crate::points::OF_THE_AGENT;
use crate::processes;

/// How long it may take until a place is passed, on a machine that builds.
const PATIENCE: Timespec = Timespec { tv_sec: 90, tv_nsec: 0 };

/// Who can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Server,
    Worker,
    Shim,
    Agent,
}

pub const ROLES: [Role; 4] = [Role::Server, Role::Worker, Role::Shim, Role::Agent];

impl Role {
    /// Who passes a place.
    pub fn of(place: &str) -> Self {
        match place.split('.').next() {
            Some("server") => Self::Server,
            Some("worker") => Self::Worker,
            Some("shim") => Self::Shim,
            _ => Self::Agent,
        }
    }
}

pub struct Ward {
    house: House,
    server: Option<Child>,
    worker: Option<Child>,
    bell: File,
}

impl Drop for Ward {
    fn drop(&mut self) {
        for pid in self.agents_and_shims() {
            let _ = kill_process(pid, Signal::KILL);
        }
        for child in [self.worker.take(), self.server.take()].into_iter().flatten() {
            end(child);
        }
    }
}

impl Ward {
    pub fn new() -> Self {
        let house = House::empty("");
        let points = house.path("points");
        fs::create_dir(&points).expect("there is room");
        fs::write(points.join("passed"), "").expect("there is room");
        house.pipe("points/bell");
        house.pipe("pipe");
        // Whoever opens both ends waits for nobody.
        let quietly = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
        let mut both = OpenOptions::new();
        both.read(true).write(true).custom_flags(quietly);
        let bell = both.open(points.join("bell")).expect("it is there");
        let ward = Self { house, server: None, worker: None, bell };
        ward.write_steps();
        ward.make_project();
        ward
    }

    /// An agent that notes outside of its folder who does what, and passes its places.
    fn write_steps(&self) {
        let path = |name: &str| self.house.path(name).display().to_string();
        let mark = format!(
            "who=$(printf %s \"$BATON_CLAIM_TOKEN\" | cksum | cut -d' ' -f1)\n\
             flock -n {lock} sleep 0.05 || echo \"$who double\" >> {log}\n\
             echo \"$who $1\" >> {log}\n",
            lock = path("lock"),
            log = path("log")
        );
        let pass = format!(
            "cd {points}; echo \"$1\" >> passed\n\
             if [ \"$(cat armed 2>/dev/null)\" = \"$1\" ] && mv armed standing 2>/dev/null; then\n\
             echo \"$1 0\" > bell; exec sleep 1000; fi\n",
            points = path("points")
        );
        fs::write(self.house.path("mark.sh"), mark).expect("there is room");
        fs::write(self.house.path("pass.sh"), pass).expect("there is room");
        let mark = |word: &str| format!("run sh {} {word}\n", path("mark.sh"));
        let pass = |place: usize| format!("run sh {} {}\n", path("pass.sh"), OF_THE_AGENT[place]);
        let middle = format!("run [ -e {} ] || cat {}\n", path("go"), path("pipe"));
        self.house.steps(
            &[
                pass(0),
                mark("one"),
                "edit a.txt one\n".into(),
                pass(1),
                "checkpoint One\n".into(),
                pass(2),
                middle,
                mark("two"),
                "edit b.txt two\n".into(),
                "checkpoint Two\n".into(),
                pass(3),
                "use 10 5 300\n".into(),
                mark("three"),
                pass(4),
                "complete Both\n".into(),
            ]
            .concat(),
        );
    }

    fn make_project(&self) {
        let root = self.house.path("shop");
        fs::create_dir(&root).expect("there is room");
        fs::write(root.join("README"), "hello\n").expect("there is room");
        for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "First"]] {
            let mut command = Command::new("git");
            command.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(words);
            let status = command.current_dir(&root).status().expect("git is there");
            assert!(status.success(), "{words:?}");
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.house.command(words);
        let log = OpenOptions::new().create(true).append(true).open(self.house.path(words[0]));
        command.env("BATON_LOG", "plain,info");
        command.env(baton::points::VARIABLE, self.house.path("points"));
        command.stdout(Stdio::piped()).stderr(log.expect("there is room"));
        command
    }

    fn serve(&mut self) {
        let mut command = self.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says something");
        assert!(line.contains("\"url\""), "{line}{}", self.house.logs());
        self.server = Some(child);
    }

    pub fn serve_with_a_task(&mut self) {
        self.serve();
        let root = self.house.path("shop").display().to_string();
        self.house.types(&["project", "add", "shop", "--root", &root]);
        self.house.types(&["add", "Greet", "--project", "shop", "--stage", "coding"]);
    }

    /// Starts a worker, which may not come so far as to say that it is ready.
    pub fn work(&mut self) {
        let mut command = self.command(&["work", "--json"]);
        command.stdout(Stdio::null());
        self.worker = Some(command.spawn().expect("it starts"));
    }

    /// Everything runs, and the agent is on its way to the middle of its work.
    pub fn begin(&mut self) {
        self.serve_with_a_task();
        self.work();
    }

    /// Waits until the agent waits; it does so until the answer is dropped.
    pub fn agent_waits(&self) -> File {
        self.house.opened("pipe")
    }

    /// From now on nobody waits in the middle.
    pub fn goes_on(&self) {
        fs::write(self.house.path("go"), "").expect("there is room");
    }

    /// Whoever passes this place next stands there.
    pub fn arm(&self, place: &str) {
        let draft = self.house.path("points/draft");
        fs::write(&draft, place).expect("there is room");
        fs::rename(draft, self.house.path("points/armed")).expect("there is room");
    }

    /// Waits until somebody stands at the place.
    pub fn stands(&mut self, place: &str) {
        let mut ready = [PollFd::new(&self.bell, PollFlags::IN)];
        let rung = poll(&mut ready, Some(&PATIENCE)).expect("it waits");
        assert_eq!(rung, 1, "{place} is never hit: {}\n{}", self.house.shown(), self.house.logs());
        let mut bytes = [0; 256];
        let length = self.bell.read(&mut bytes).expect("it was rung");
        let told = String::from_utf8_lossy(&bytes[..length]).into_owned();
        assert!(told.starts_with(place), "{told}");
    }

    pub fn passed(&self) -> BTreeSet<String> {
        text_of(&self.house.path("points/passed")).lines().map(str::to_owned).collect()
    }

    pub fn kill(&mut self, role: Role) {
        match role {
            Role::Server => self.server.take().into_iter().for_each(end),
            Role::Worker => self.worker.take().into_iter().for_each(end),
            // Whoever is not there yet, or not any more, is not there to be killed.
            Role::Shim => self.kill_by(" shim "),
            Role::Agent => self.kill_by(" agent-script "),
        }
    }

    fn kill_by(&self, word: &str) {
        for (pid, command) in self.processes() {
            if command.contains(word) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Whoever was killed is started again, as a service manager would.
    pub fn comes_back(&mut self) {
        if self.server.is_none() {
            self.serve();
        }
        if self.worker.is_none() {
            self.work();
        }
    }

    fn processes(&self) -> Vec<(Pid, String)> {
        processes::of(self.house.folder.path())
    }

    fn agents_and_shims(&self) -> Vec<Pid> {
        let own = [&self.server, &self.worker].into_iter().flatten().map(Child::id);
        let own: Vec<_> = own.filter_map(|id| i32::try_from(id).ok()).collect();
        let others = self.processes().into_iter().map(|(pid, _)| pid);
        others.filter(|pid| !own.contains(&pid.as_raw_nonzero().get())).collect()
    }

    /// The run goes on to its end, and everything is as if nobody had been killed.
    pub fn ends_well(&mut self, told: &str) {
        assert_eq!(self.house.waits(), 0, "{told}: {}\n{}", self.house.shown(), self.house.logs());
        let logs = || format!("{told}:\n{}", self.house.logs());
        self.attempts_are_over(told);
        let notes = self.house.types(&["checkpoint", "list", "T-1"]).to_string();
        for note in ["\"One\"", "\"Two\""] {
            assert!(notes.contains(note), "{told}: {note} is lost: {notes}");
        }
        let trees = self.house.types(&["worktree", "list"]);
        let tree =
            trees["worktrees"].as_array().and_then(|all| all.last()).map(|one| one["path"].clone());
        let tree = tree.as_ref().and_then(|path| path.as_str()).map(PathBuf::from);
        let tree = tree.unwrap_or_else(|| panic!("{trees}{}", logs()));
        for (file, line) in [("a.txt", "one"), ("b.txt", "two"), ("README", "hello")] {
            let text = fs::read_to_string(tree.join(file)).unwrap_or_default();
            assert!(text.lines().any(|one| one == line), "{file} is lost: {}", logs());
        }
        self.one_after_the_other(told);
        self.house.types(&["down", "--now"]);
        for child in [self.worker.take(), self.server.take()].into_iter().flatten() {
            end(child);
        }
        let left = self.processes();
        assert!(left.is_empty(), "{told}: {left:?} are left: {}", self.house.logs());
    }

    /// Every attempt has an outcome, the last one is done, and nobody may still live.
    fn attempts_are_over(&self, told: &str) {
        let page = self.house.types(&["attempt", "list", "T-1"]);
        let items = page["items"].as_array().expect("a list");
        for item in items {
            assert!(item["outcome"].is_string(), "{told}: {page}");
            let attempt =
                self.house.types(&["attempt", "show", item["id"].as_str().expect("an id")]);
            assert_ne!(attempt["death"], "none", "{told}: {attempt}\n{}", self.house.logs());
        }
        assert_eq!(items.last().map(|last| &last["outcome"]), Some(&"completed".into()), "{page}");
    }

    /// Nobody works once the next one has begun, and nothing is done again that was noted as done.
    fn one_after_the_other(&self, told: &str) {
        let log = text_of(&self.house.path("log"));
        let mut gone: Vec<&str> = vec![];
        let mut far = 0;
        for (who, what) in log.lines().filter_map(|line| line.split_once(' ')) {
            if gone.last() != Some(&who) {
                assert!(!gone.contains(&who), "{told}: two at once:\n{log}");
                gone.push(who);
            }
            let here = ["one", "two", "three"].iter().position(|one| *one == what);
            let here = here.unwrap_or_else(|| panic!("{told}: {what}:\n{log}"));
            assert!(here >= far, "{told}: a checkpoint was lost:\n{log}");
            far = here;
        }
    }
}

fn end(mut child: Child) {
    drop(child.kill());
    drop(child.wait());
}
