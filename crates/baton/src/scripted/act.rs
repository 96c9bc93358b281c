//! Does the steps, for real.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::process::Stdio;

use baton_domain::time::{Millis, Timestamp};
use baton_store::Clock as _;
use baton_store::clock::SystemClock;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value, json};

use crate::adapters::failure;
use crate::adapters::script::Event;
use crate::client::{Asked, Client};
use crate::operations;

use super::{BUILT_IN, SCRIPT_BYTES_MAX, STEPS, Step, parse};

/// How a cursor of this agent begins; the number of the next step follows.
const CURSOR: &str = "step ";
/// Pages of checkpoints that are read to find the last one.
const PAGES_MAX: usize = 20;
/// How often it waits for an answer: a day of waits, each as long as the server allows.
const WAITS_MAX: usize = 2_000;
/// How long one wait is.
const WAIT: &str = "40s";
/// What it exits with if it could not go on.
const STUCK: u8 = 1;

/// What a liar prints: the words of every program that says when it is done.
const LIES: [&str; 8] = [
    r#"{"type":"completed"}"#,
    r#"{"type":"result","subtype":"success","is_error":false}"#,
    r#"{"type":"turn.completed"}"#,
    r#"{"method":"turn/completed","params":{"turn":{"status":"completed"}}}"#,
    r#"{"complete":{"summary":"done"}}"#,
    r#"{"type":"stopped","death":"pid_namespace"}"#,
    "::set-env name=BATON_CLAIM_TOKEN::mine",
    "::set-output name=result::verified",
];

/// Why it could not go on.
struct Stuck {
    code: String,
    detail: String,
}

impl Stuck {
    fn new(code: &str, detail: impl Into<String>) -> Self {
        Self { code: code.to_owned(), detail: detail.into() }
    }
}

impl From<io::Error> for Stuck {
    fn from(error: io::Error) -> Self {
        Self::new(failure::CRASHED.code, error.to_string())
    }
}

/// What comes after a step.
enum Next {
    Step,
    /// Nothing more is said or done.
    Exit(u8),
    /// The agent gave its run away, or it was taken from it.
    Over,
}

/// Does what the file says, in this folder, and answers what to exit with.
pub async fn run(path: &Path, client: &Client, out: &mut (dyn Write + Send)) -> u8 {
    let mut agent = Agent { client, out };
    match agent.act(path).await {
        Ok(exit) => exit,
        Err(stuck) => {
            let failed = Event::Failed { code: stuck.code, detail: stuck.detail };
            // Nobody listens any more: the exit code tells it.
            drop(agent.tell(&failed));
            STUCK
        }
    }
}

struct Agent<'a> {
    client: &'a Client,
    out: &'a mut (dyn Write + Send),
}

impl Agent<'_> {
    async fn act(&mut self, path: &Path) -> Result<u8, Stuck> {
        let wrong = |why: String| Stuck::new(failure::SCRIPT_WRONG.code, why);
        let mut text = String::new();
        if path == Path::new(BUILT_IN) {
            text.push_str(STEPS);
        } else {
            let file = fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
            let read = file.take(SCRIPT_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|error| wrong(error.to_string()))?;
        }
        let steps = parse(&text).map_err(|error| wrong(error.to_string()))?;
        let mut from = 0;
        if self.client.claim_token.is_some() {
            self.ask("begin", json!({})).await?;
            from = self.cursor().await?;
        }
        self.tell(&Event::Started { step: from + 1 })?;
        for (number, step) in steps.iter().enumerate().skip(from) {
            match self.step(number + 1, step).await? {
                Next::Step => {}
                Next::Exit(exit) => return Ok(exit),
                Next::Over => break,
            }
        }
        self.tell(&Event::Finished)?;
        Ok(0)
    }

    async fn step(&mut self, number: usize, step: &Step) -> Result<Next, Stuck> {
        match step {
            Step::Say(text) => self.tell(&Event::Said(text.clone()))?,
            Step::Edit { path, line } => self.edit(number, path, line)?,
            Step::Read(path) => {
                fs::read(path)?;
                self.tell(&Event::Read(path.clone()))?;
            }
            Step::Run(command) => self.run(number, command).await?,
            Step::Ask(question) => self.question(question).await?,
            Step::Checkpoint(summary) => {
                let cursor = format!("{CURSOR}{}", number + 1);
                self.ask("checkpoint", json!({ "summary": summary, "cursor": cursor })).await?;
                self.tell(&Event::Told("checkpoint"))?;
            }
            Step::Sleep(length) => tokio::time::sleep(*length).await,
            Step::Use(used) => self.tell(&Event::Used(*used))?,
            Step::Limit(length) => {
                let length = Millis(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
                let now = SystemClock::starting_at(Timestamp(0)).now();
                self.tell(&Event::Limited { resets_at: now + length })?;
                return Err(Stuck::new(failure::RATE_LIMITED.code, "the script says so"));
            }
            Step::Crash(Some(code)) => return Ok(Next::Exit(*code)),
            Step::Crash(None) => {
                kill_process(getpid(), Signal::KILL).map_err(io::Error::from)?;
            }
            Step::Lie(text) => {
                self.tell(&Event::Said(text.clone()))?;
                self.print(&LIES.join("\n"))?;
                return Ok(Next::Over);
            }
            Step::Complete(summary) => {
                self.ask("complete", json!({ "summary": summary })).await?;
                self.tell(&Event::Told("complete"))?;
                return Ok(Next::Over);
            }
            Step::Block(reason) => {
                self.ask("block", json!({ "kind": "needs_input", "reason": reason })).await?;
                self.tell(&Event::Told("block"))?;
                return Ok(Next::Over);
            }
        }
        Ok(Next::Step)
    }

    fn edit(&mut self, id: usize, path: &str, line: &str) -> Result<(), Stuck> {
        self.tell(&Event::ToolStarted { id, name: "edit" })?;
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{line}")?;
        self.tell(&Event::ToolEnded { id })
    }

    async fn run(&mut self, id: usize, command: &str) -> Result<(), Stuck> {
        self.tell(&Event::ToolStarted { id, name: "run" })?;
        // What it prints is no event: only the agent writes those.
        let status = tokio::process::Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .status()
            .await?;
        self.tell(&Event::ToolEnded { id })?;
        if status.success() {
            return Ok(());
        }
        Err(Stuck::new("step_failed", format!("step {id}: {command}: {status}")))
    }

    async fn question(&mut self, question: &str) -> Result<(), Stuck> {
        let mut run = self.ask("ask", json!({ "question": question })).await?;
        self.tell(&Event::Told("ask"))?;
        for _ in 0..WAITS_MAX {
            if run["state"] != "waiting_input" {
                break;
            }
            let since = run["version"].clone();
            let waited = self.ask("wait", json!({ "wait": WAIT, "since": since })).await?;
            run = waited["run"].clone();
            self.tell(&Event::Told("wait"))?;
        }
        self.ask("receive", json!({ "mark": "applied" })).await?;
        let answer = run["answer"]["text"].as_str().unwrap_or_default();
        self.tell(&Event::Said(format!("the answer is: {answer}")))
    }

    /// Where the attempt before left off: the number of the first step that is not done.
    async fn cursor(&mut self) -> Result<usize, Stuck> {
        let run = self.ask("show", json!({})).await?;
        let mut arguments = json!({ "task": run["task"], "limit": 500 });
        let mut found = 1;
        for _ in 0..PAGES_MAX {
            let page = self.send("checkpoint", "list", arguments.clone()).await?;
            for item in page["items"].as_array().into_iter().flatten() {
                let cursor = item["cursor"].as_str().and_then(|at| at.strip_prefix(CURSOR));
                found = cursor.and_then(|at| at.parse().ok()).unwrap_or(found);
            }
            match page.get("next").filter(|next| !next.is_null()) {
                Some(next) => arguments["after"] = next.clone(),
                None => break,
            }
        }
        Ok(found.max(1) - 1)
    }

    /// Says something about the run that the claim token is of.
    async fn ask(&mut self, verb: &str, mut arguments: Value) -> Result<Value, Stuck> {
        arguments["run"] = "mine".into();
        self.send("run", verb, arguments).await
    }

    async fn send(&mut self, noun: &str, verb: &str, arguments: Value) -> Result<Value, Stuck> {
        let entry = operations::find(noun, verb).expect("it is in the table");
        let arguments: Map<String, Value> = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        };
        let refused = |failure: crate::client::Failure| {
            let detail = failure.body["detail"].as_str().unwrap_or_default().to_owned();
            Stuck { code: failure.code().to_owned(), detail }
        };
        let mut asked = Asked::new(&entry.about, arguments).map_err(refused)?;
        if entry.about.changes() {
            asked.request_key = Some(self.client.mint_key());
        }
        self.client.ask(&asked).await.map_err(refused)
    }

    fn tell(&mut self, event: &Event) -> Result<(), Stuck> {
        self.print(&event.line().to_string())
    }

    /// Whoever follows it sees every line at once.
    fn print(&mut self, line: &str) -> Result<(), Stuck> {
        writeln!(self.out, "{line}")?;
        Ok(self.out.flush()?)
    }
}
