//! Asks a server, over its socket or over TCP, and does not let go of a request whose outcome is
//! unknown: the same request under the same key is asked again until it is known, a few times.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::chance::Chance;
use crate::declaration::{Declaration, Method};
use crate::problem::{CODES, Problem};
use crate::surroundings::Hidden;

mod address;
mod blobs;
mod dial;
mod exchange;
mod tls;

pub use address::Address;
pub use blobs::{Handed, digest_of};
pub use dial::Wire;
pub use tls::Trust;

use exchange::{Answer, Lost};

/// How often a request is sent at most. With the waits between them this bridges a server that is
/// killed and started again by its supervisor.
const TRIES_MAX: u32 = 8;
/// The first wait between two tries; the next ones double.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// The longest wait between two tries, also if the server asks for a longer one.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Somebody who asks a server.
pub struct Client {
    /// Where the server is.
    pub address: Address,
    /// Whom it is believed that it is.
    pub trust: Trust,
    /// Who calls.
    pub key: Option<Hidden>,
    /// Which attempt calls.
    pub claim_token: Option<Hidden>,
    /// By which way it asks, as history keeps it.
    pub origin: Origin,
    /// Where request keys and jitter come from.
    pub chance: Arc<dyn Chance>,
}

/// By which of our own ways a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By commands.
    Cli,
    /// By the tools of `baton mcp`.
    Mcp,
    /// By whoever runs agents.
    Worker,
}

impl Origin {
    /// As it is said and kept.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Mcp => "mcp",
            Self::Worker => "worker",
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// By which method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// What it carries.
    pub body: Option<Value>,
    /// Only if the task is still at this version.
    pub if_match: Option<u64>,
    /// So that it is carried out once, however often it is sent.
    pub request_key: Option<String>,
}

/// Why there is no answer, as RFC 9457 writes it, with what to exit with.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What the server said, or would have said.
    pub body: Value,
    /// What the command line exits with.
    pub exit: u8,
}

impl Asked {
    /// The request for an operation: what stands in the path is taken from the arguments, the rest
    /// goes into the query of what only reads and into the body of everything else.
    pub fn new(about: &Declaration, mut arguments: Map<String, Value>) -> Result<Self, Failure> {
        let mut target = String::new();
        for part in about.path.split('/').skip(1) {
            target.push('/');
            match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                None => target.push_str(part),
                Some(name) => {
                    let value = arguments.remove(name).ok_or_else(|| missing(name))?;
                    escape(&plain(&value), &mut target);
                }
            }
        }
        let body = match about.method {
            Method::Get => {
                push_query(&arguments, &mut target);
                None
            }
            Method::Post | Method::Put | Method::Patch | Method::Delete => {
                Some(Value::Object(arguments))
            }
        };
        Ok(Self { method: about.method, target, body, if_match: None, request_key: None })
    }
}

fn missing(name: &str) -> Failure {
    let wrong = |rule: &str| {
        Problem::invalid(vec![crate::shape::Violation { field: name.into(), rule: rule.into() }])
    };
    // A run need not be named by whoever shows a claim token.
    match name {
        "run" => wrong("is missing: name one like R-128.2, or show the claim token of yours")
            .next("export BATON_CLAIM_TOKEN=…"),
        _ => wrong("is missing"),
    }
    .into()
}

/// A list is written as the same name several times.
fn push_query(arguments: &Map<String, Value>, target: &mut String) {
    let mut mark = '?';
    for (name, value) in arguments {
        let one = std::slice::from_ref(value);
        for value in value.as_array().map_or(one, Vec::as_slice) {
            target.push(mark);
            escape(name, target);
            target.push('=');
            escape(&plain(value), target);
            mark = '&';
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Writes everything that could mean something in a URL as its bytes.
fn escape(text: &str, target: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            target.push(char::from(byte));
        } else {
            target.push_str(&format!("%{byte:02X}"));
        }
    }
}

impl Client {
    /// A key that no other request has.
    #[must_use]
    pub fn mint_key(&self) -> String {
        let mut bytes = [0; 16];
        self.chance.fill(&mut bytes);
        format!("{}-{:032x}", self.origin.word(), u128::from_be_bytes(bytes))
    }

    /// A connection to the server, for whoever speaks more than HTTP over it.
    pub async fn dial(&self) -> Result<Box<dyn Wire>, Failure> {
        dial::dial(&self.address, &self.trust).await.map_err(|lost| match lost {
            Lost::Nobody => self.nobody(),
            Lost::Before(why) | Lost::After(why) | Lost::NotUnderstood(why) => {
                self.unreachable(&why, "baton doctor")
            }
        })
    }

    /// Asks until the outcome is known, a few times at most.
    pub async fn ask(&self, asked: &Asked) -> Result<Value, Failure> {
        // Once a request may have happened, only its own outcome tells otherwise: a later refusal
        // that never looked at the order says nothing about the earlier try.
        let (mut unsure, mut refused) = (None, None);
        for tries in 1..=TRIES_MAX {
            let wait = match self.exchange(asked).await {
                Ok(answer) if answer.is_success() => return Ok(answer.body),
                Ok(answer) => {
                    let (again, decided) = (answer.ask_again_after(), answer.is_of_the_order());
                    let kept = if answer.is_unknown() { &mut unsure } else { &mut refused };
                    let failure = Failure::of(answer);
                    match again {
                        Some(wait) => {
                            *kept = Some(failure);
                            wait
                        }
                        None if decided => return Err(failure),
                        None => return Err(unsure.unwrap_or(failure)),
                    }
                }
                Err(Lost::NotUnderstood(why)) => {
                    return Err(unsure.unwrap_or_else(|| not_baton(&self.address, &why)));
                }
                // Nothing was sent; unless an earlier try was, nothing can have happened.
                Err(Lost::Before(why)) if unsure.is_none() && refused.is_none() => {
                    return Err(self.unreachable(&why, "baton doctor"));
                }
                Err(Lost::Nobody) if unsure.is_none() && refused.is_none() => {
                    return Err(self.nobody());
                }
                Err(Lost::Before(_) | Lost::Nobody) => Duration::ZERO,
                Err(Lost::After(why)) => {
                    unsure = Some(unknown(asked, &why));
                    Duration::ZERO
                }
            };
            if tries < TRIES_MAX {
                tokio::time::sleep(self.pause(tries, wait)).await;
            }
        }
        let often = || self.unreachable("it was asked too often", "baton doctor");
        Err(unsure.or(refused).unwrap_or_else(often))
    }

    /// How long to wait: longer each time, at least what the server asked for, and never as long as
    /// everybody else.
    fn pause(&self, tries: u32, asked_for: Duration) -> Duration {
        let usual = WAIT_FIRST.saturating_mul(1 << tries.min(16).saturating_sub(1));
        let longest = usual.max(asked_for).min(WAIT_MAX);
        let mut byte = [0];
        self.chance.fill(&mut byte);
        longest / 2 + longest * u32::from(byte[0]) / 512
    }

    fn unreachable(&self, why: &str, next: &str) -> Failure {
        let detail = format!("no server answers at {}: {why}", self.address);
        Problem::new("unreachable", detail).next(next).into()
    }

    /// What does not run on this machine can be started here; elsewhere somebody else must look.
    fn nobody(&self) -> Failure {
        match self.address.is_local() {
            true => self.unreachable("nothing listens there", "baton serve"),
            false => {
                let why = "nothing listens there, on another machine: is the address right, and does \
                           the server run?";
                self.unreachable(why, "baton doctor")
            }
        }
    }
}

fn unknown(asked: &Asked, why: &str) -> Failure {
    let mut failure: Failure = Problem::from(baton_store::Error::Unknown(why.to_owned())).into();
    if let Some(key) = &asked.request_key {
        // The same key makes asking again safe, whatever became of the first time.
        failure.body["request_key"] = key.as_str().into();
        failure.body["next"] =
            vec![format!("the same command with --idempotency-key {key}")].into();
    }
    failure
}

fn not_baton(address: &Address, why: &str) -> Failure {
    let detail = format!("what answers at {address} is no baton server: {why}");
    Problem::new("unreachable", detail).next("baton doctor").into()
}

impl Failure {
    fn of(answer: Answer) -> Self {
        let code = answer.body["code"].as_str().unwrap_or("internal");
        let exit = exit_of(code);
        Self { body: answer.body, exit }
    }

    /// The stable word.
    #[must_use]
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("internal")
    }
}

/// What the command line exits with for a code; one of a newer server is some failure.
#[must_use]
pub fn exit_of(code: &str) -> u8 {
    CODES.iter().find(|known| known.word == code).map_or(1, |known| known.exit)
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { exit: problem.exit(), body: problem.body() }
    }
}

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    /// From here.
    Text(Hidden),
    /// From this file.
    File(PathBuf),
    /// From nowhere: the socket tells who we are.
    Nowhere,
}

/// The longest key there is, with room for a line's end.
const KEY_BYTES_MAX: u64 = 1_024;

impl KeyFrom {
    /// Reads the key. A file that others may read is no secret, and is refused.
    pub fn read(&self) -> Result<Option<Hidden>, Failure> {
        use std::io::Read as _;
        use std::os::unix::fs::MetadataExt as _;
        let path = match self {
            Self::Text(key) => return Ok(Some(key.clone())),
            Self::Nowhere => return Ok(None),
            Self::File(path) => path,
        };
        let shown = path.display();
        let refuse = |detail: String, next: String| -> Failure {
            Problem::new("unauthenticated", detail).next(next).into()
        };
        let broken = |error: std::io::Error| {
            refuse(format!("the key file {shown} cannot be read: {error}"), "baton doctor".into())
        };
        let file = std::fs::File::open(path).map_err(broken)?;
        if file.metadata().map_err(broken)?.mode() & 0o077 != 0 {
            let detail = format!("the key file {shown} may be read by others");
            return Err(refuse(detail, format!("chmod 600 {shown}")));
        }
        let mut text = String::new();
        file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(broken)?;
        let key = text.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let detail = format!("the key file {shown} must hold one key and nothing else");
            return Err(refuse(detail, "baton key create".into()));
        }
        Ok(Some(Hidden::new(key)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
