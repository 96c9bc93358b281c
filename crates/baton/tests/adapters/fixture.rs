//! Recorded streams. A line is one record: `<` it printed, `!` it complained, `>` it was told, `=`
//! it exited, `#` a remark of the recorder.

use std::fs;
use std::path::{Path, PathBuf};

use baton::adapters::{Consent, Exit, Follower, Heard, Program, Seen, Session, Turn, Usage};

/// The session that every recorded program was given where it takes one.
pub const SESSION: &str = "0b8f1d0a-6f0e-4c57-9a51-3f6a7f0c2d11";

/// What was recorded.
pub struct Fixture {
    pub name: String,
    pub program: Program,
    pub about: String,
    pub records: Vec<Record>,
}

/// One record.
#[derive(Clone, Debug)]
pub enum Record {
    Out(Vec<u8>),
    Err(Vec<u8>),
    In(Vec<u8>),
    Exited(Exit),
}

impl Record {
    pub fn heard(&self) -> Heard<'_> {
        match self {
            Self::Out(bytes) => Heard::Out(bytes),
            Self::Err(bytes) => Heard::Err(bytes),
            Self::In(bytes) => Heard::In(bytes),
            Self::Exited(exit) => Heard::Exited(*exit),
        }
    }
}

/// What a recorded program was started for.
pub struct Cause {
    program: Vec<String>,
    prompt: &'static str,
    session: Option<String>,
    resumed: bool,
    booked: Usage,
}

impl Cause {
    pub fn turn(&self) -> Turn<'_> {
        let session = match &self.session {
            Some(id) if self.resumed => Session::Resumed { id, booked: self.booked },
            id => Session::New(id.as_deref()),
        };
        Turn {
            program: &self.program,
            arguments: &[],
            prompt: self.prompt,
            session,
            folder: Path::new("/place/work"),
            home: Path::new("/place/home"),
            model: None,
            tools: None,
            consent: Consent::Ask,
            turns_max: None,
        }
    }
}

impl Fixture {
    /// All of them, by name.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapters/fixtures");
        let entries = fs::read_dir(folder).expect("the fixtures are there");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("it is read").path()).collect();
        paths.sort();
        paths.iter().map(Self::read).collect()
    }

    fn read(path: &PathBuf) -> Self {
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("it is text");
        let mut lines = text.lines();
        let about =
            lines.next().and_then(|line| line.strip_prefix("# ")).expect("it says what it is");
        let records = lines.filter_map(record).collect();
        Self { program: program(&name), about: about.to_owned(), name, records }
    }

    /// What the program was started for.
    pub fn cause(&self) -> Cause {
        let resumed = ["-resume", "-load", "-unknown-thread"];
        let resumed = resumed.iter().any(|end| self.name.ends_with(end));
        // Programs that choose their own names say them first, or were told them again.
        let counts_on = resumed && self.program == Program::CodexExec;
        let session = if self.program.takes_session_ids() || counts_on {
            Some(SESSION.to_owned())
        } else {
            self.told_session().filter(|_| resumed)
        };
        let prompt = if resumed && !self.name.ends_with("-unknown-thread") {
            "And now?"
        } else {
            "Write the file."
        };
        // What the process before it used: this program counts over both.
        let used = Usage { input: 20, output: 10, cached: 6, cost_micros: 0 };
        let booked = if counts_on { used } else { Usage::default() };
        let program = vec![self.program.word().to_owned()];
        Cause { program, prompt, session, resumed, booked }
    }

    /// The session that stands in what was written.
    fn told_session(&self) -> Option<String> {
        let written = self.records.iter().filter_map(|record| match record {
            Record::In(bytes) => serde_json::from_slice::<serde_json::Value>(bytes).ok(),
            Record::Out(_) | Record::Err(_) | Record::Exited(_) => None,
        });
        let told = written.filter_map(|message| {
            let params = &message["params"];
            let id = params["threadId"].as_str().or_else(|| params["sessionId"].as_str());
            id.map(str::to_owned)
        });
        told.take(1).next()
    }

    pub fn follow(&self) -> Follower {
        self.program.follow(&self.cause().turn())
    }

    /// Everything that is seen in it.
    pub fn seen(&self) -> (Vec<Seen>, Follower) {
        let mut follower = self.follow();
        let seen = self.records.iter().flat_map(|record| follower.fold(record.heard())).collect();
        (seen, follower)
    }
}

fn program(name: &str) -> Program {
    let word = if name.starts_with("codex-exec") {
        "codex-exec"
    } else {
        name.split('-').next().expect("a name has a first word")
    };
    Program::of(word).expect("a fixture is named after its program")
}

fn record(line: &str) -> Option<Record> {
    let (mark, rest) = line.split_at_checked(2).unwrap_or((line, ""));
    let bytes = || format!("{rest}\n").into_bytes();
    match mark.trim() {
        "<" => Some(Record::Out(bytes())),
        "!" => Some(Record::Err(bytes())),
        ">" => Some(Record::In(bytes())),
        "=" => {
            let (kind, number) = rest.split_once(' ').expect("an exit has a kind and a number");
            let number = number.parse().expect("it is a number");
            let exit = if kind == "code" { Exit::Code(number) } else { Exit::Signal(number) };
            Some(Record::Exited(exit))
        }
        "#" => None,
        other => panic!("no record begins with {other:?}"),
    }
}
