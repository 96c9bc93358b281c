//! A model to talk to: a loopback server that speaks the streaming APIs of three providers and says
//! what a script tells it to. Real agent programs are driven by it without any network.
//!
//! The turn of a request is told by what the request holds, not by how many came: agent programs ask
//! beside the conversation (for titles, for quotas), repeat, and append remarks of their own. A
//! request that offers no tools is answered with a word and is no turn.

use std::fmt;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use http::Request;

mod anthropic;
mod gemini;
mod http;
mod openai;
#[cfg(test)]
mod tests;

/// Requests that are kept for a test to look at; more would be a runaway that nobody stopped.
const RECORDED_MAX: usize = 5_000;
/// The status of a limit.
const LIMITED: u16 = 429;

/// What the model says at one point of the conversation.
pub enum Turn {
    /// Words, and the end of the turn.
    Text(String),
    /// The use of a tool, found among those offered by how its name ends.
    Call {
        /// `run_claim` finds `mcp__baton__run_claim`.
        tool: &'static str,
        /// The arguments, from what the tools have answered so far.
        arguments: Arguments,
    },
    /// No answer but this status; the next request gets the turn after it.
    Status {
        /// 401, 429, 500.
        code: u16,
        /// Seconds after which to ask again, if the provider says so.
        retry_after: Option<u64>,
    },
    /// No answer but this status, however often it is asked.
    Shut {
        /// 429, 500.
        code: u16,
        /// When the limit of the account ends, in seconds since 1970, if the provider says so in its own way.
        resets_at: Option<u64>,
    },
    /// The same as the next turn, but only after a while.
    Slow(Duration),
    /// The same tool again and again, whatever it answers.
    Runaway {
        /// Which.
        tool: &'static str,
        /// The arguments.
        arguments: Arguments,
    },
}

/// Arguments of a tool, from the answers of the tools so far, oldest first.
pub type Arguments = Box<dyn Fn(&[Value]) -> Value + Send>;

/// Arguments that are always the same.
#[must_use]
pub fn always(arguments: Value) -> Arguments {
    Box::new(move |_| arguments.clone())
}

/// A request that came in.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Method and target.
    pub target: String,
    /// The body, if it was JSON.
    pub body: Value,
}

/// What a provider's request says, whichever provider it is.
struct Asked {
    /// Names of the tools that it offers.
    tools: Vec<String>,
    /// What tools have answered in this conversation, oldest first.
    results: Vec<Value>,
    /// Whether the answer is wanted piece by piece.
    streamed: bool,
}

/// What is said, whichever provider says it.
enum Said {
    Text(String),
    Call { id: String, name: String, arguments: Value },
}

/// Headers of an answer.
type Headers = Vec<(&'static str, String)>;

/// A provider's way of asking and saying.
struct Dialect {
    asked: fn(&Request) -> Asked,
    say: fn(&Said, streamed: bool) -> http::Answer,
    refuse: fn(code: u16) -> Value,
    /// The limit of an account that ends then: what is said, and in which headers.
    shut: fn(resets_at: u64) -> (Value, Headers),
}

/// A model that runs until it is dropped.
pub struct Model {
    address: SocketAddr,
    stage: Arc<Stage>,
}

struct Stage {
    script: Mutex<Script>,
    recorded: Mutex<Vec<Recorded>>,
}

struct Script {
    turns: Vec<Turn>,
    /// Turns that were no part of the conversation and are over.
    passed: usize,
    calls: usize,
    /// Tools that were called for but not offered.
    missing: Vec<String>,
}

impl Model {
    /// Starts to listen on loopback.
    pub fn start(turns: Vec<Turn>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let script = Mutex::new(Script { turns, passed: 0, calls: 0, missing: vec![] });
        let stage = Arc::new(Stage { script, recorded: Mutex::default() });
        let own = Arc::clone(&stage);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                let stage = Arc::clone(&own);
                // Whoever hangs up early is no trouble of ours.
                thread::spawn(move || drop(stage.serve(&stream)));
            }
        });
        Ok(Self { address, stage })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that was asked so far.
    #[must_use]
    pub fn recorded(&self) -> Vec<Recorded> {
        lock(&self.stage.recorded).clone()
    }

    /// Tools that the script wanted and no request offered.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        lock(&self.stage.script).missing.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut writer = stream;
        while let Some(request) = http::read(&mut reader)? {
            let answer = self.answer(&request);
            answer.write(&mut writer)?;
            writer.flush()?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> http::Answer {
        let mut recorded = lock(&self.recorded);
        if recorded.len() < RECORDED_MAX {
            let target = format!("{} {}", request.method, request.target);
            recorded.push(Recorded { target, body: request.body.clone() });
        }
        drop(recorded);
        match dialect(request) {
            Some(dialect) => self.turn(&dialect, request),
            None => {
                http::Answer::json(if request.method == "HEAD" { 200 } else { 404 }, Value::Null)
            }
        }
    }

    fn turn(&self, dialect: &Dialect, request: &Request) -> http::Answer {
        let asked = (dialect.asked)(request);
        if asked.tools.is_empty() {
            return (dialect.say)(&Said::Text("ok".to_owned()), asked.streamed);
        }
        let mut script = lock(&self.script);
        let step = script.step(&asked);
        drop(script);
        let answer = match step.then {
            Then::Say(said) => (dialect.say)(&said, asked.streamed),
            Then::Refuse { code, retry_after } => {
                let answer = http::Answer::json(code, (dialect.refuse)(code));
                match retry_after {
                    Some(seconds) => answer.with("retry-after", &seconds.to_string()),
                    None => answer,
                }
            }
            Then::Shut { resets_at } => {
                let (body, headers) = (dialect.shut)(resets_at);
                let answer = http::Answer::json(LIMITED, body);
                headers.iter().fold(answer, |answer, (name, value)| answer.with(name, value))
            }
        };
        answer.after(step.wait)
    }
}

struct Step {
    wait: Duration,
    then: Then,
}

enum Then {
    Say(Said),
    Refuse { code: u16, retry_after: Option<u64> },
    Shut { resets_at: u64 },
}

impl Script {
    /// What comes next in a conversation that is this far.
    fn step(&mut self, asked: &Asked) -> Step {
        let mut wait = Duration::ZERO;
        loop {
            let at = asked.results.len() + self.passed;
            // Whoever runs away never gets past it.
            let last = self.turns.last().filter(|turn| matches!(turn, Turn::Runaway { .. }));
            let (tool, arguments) = match self.turns.get(at).or(last) {
                Some(Turn::Slow(more)) => {
                    wait += *more;
                    self.passed += 1;
                    continue;
                }
                Some(Turn::Status { code, retry_after }) => {
                    let (code, retry_after) = (*code, *retry_after);
                    self.passed += 1;
                    return Step { wait, then: Then::Refuse { code, retry_after } };
                }
                Some(Turn::Shut { code, resets_at }) => {
                    let then = match *resets_at {
                        Some(resets_at) => Then::Shut { resets_at },
                        None => Then::Refuse { code: *code, retry_after: None },
                    };
                    return Step { wait, then };
                }
                Some(Turn::Text(text)) => return Step::say(wait, Said::Text(text.clone())),
                Some(Turn::Call { tool, arguments } | Turn::Runaway { tool, arguments }) => {
                    (*tool, arguments(&asked.results))
                }
                None => return Step::say(wait, Said::Text("That is all.".to_owned())),
            };
            let Some(name) = asked.tools.iter().find(|name| name.ends_with(tool)) else {
                self.missing.push(format!("{tool} among {}", asked.tools.join(" ")));
                let text = format!("There is no tool {tool}.");
                return Step::say(wait, Said::Text(text));
            };
            self.calls += 1;
            let id = format!("call_{}", self.calls);
            return Step::say(wait, Said::Call { id, name: name.clone(), arguments });
        }
    }
}

impl Step {
    fn say(wait: Duration, said: Said) -> Self {
        Self { wait, then: Then::Say(said) }
    }
}

fn dialect(request: &Request) -> Option<Dialect> {
    let path = request.target.split('?').next().unwrap_or_default();
    if request.method != "POST" {
        return None;
    }
    if path.ends_with("/messages") {
        return Some(anthropic::DIALECT);
    }
    if path.ends_with("/responses") {
        return Some(openai::DIALECT);
    }
    (path.ends_with("enerateContent")).then_some(gemini::DIALECT)
}

/// What a tool answered: its JSON, or its words.
fn result(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("address", &self.address).finish_non_exhaustive()
    }
}
