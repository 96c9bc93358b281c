//! A caller that says exactly what a test wants said.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// Longer than anything here takes: whoever waits longer waits for something that never comes.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// A request to be.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// One connection.
pub struct Caller {
    pub socket: BufReader<Box<dyn Socket>>,
}

impl Ask {
    pub fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, headers: vec![], body: vec![] }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// The same with a header line; a second one of the same name stands beside the first.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without the header lines of this name.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self
    }

    pub fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.with("content-type", "application/json").bytes(body.to_string())
    }

    /// A change: JSON under a request key.
    pub fn change(method: &str, target: &str, key: &str, body: &Value) -> Self {
        Self::new(method, target).json(body).with("idempotency-key", key)
    }

    fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let sized = self.headers.iter().any(|(name, _)| {
            ["content-length", "transfer-encoding"].contains(&name.to_lowercase().as_str())
        });
        if !sized && (!self.body.is_empty() || self.method != "GET") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head + "\r\n"
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Caller {
    pub fn new(socket: impl Socket + 'static) -> Self {
        Self { socket: BufReader::new(Box::new(socket)) }
    }

    /// Sends a request and reads the answer to it.
    pub async fn ask(&mut self, ask: &Ask) -> Answer {
        self.say(ask.head().as_bytes()).await;
        // A server that refuses by the head alone need not take the body in.
        drop(timeout(PATIENCE, self.socket.write_all(&ask.body)).await.expect("bytes go out"));
        self.hear().await.expect("there is an answer")
    }

    /// Sends a request without waiting for anything.
    pub async fn send(&mut self, ask: &Ask) {
        self.say(ask.head().as_bytes()).await;
        self.say(&ask.body).await;
    }

    pub async fn say(&mut self, bytes: &[u8]) {
        let said = timeout(PATIENCE, self.socket.write_all(bytes)).await;
        said.expect("bytes go out").expect("somebody listens");
    }

    /// Reads one answer; none if the connection ended instead.
    pub async fn hear(&mut self) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        let read = timeout(PATIENCE, self.socket.read_exact(&mut body)).await;
        read.expect("the body comes").expect("the body is whole");
        Some(Answer { status, headers, body })
    }

    /// Reads the head of an answer.
    pub async fn head(&mut self) -> Option<(u16, BTreeMap<String, String>)> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        Some((status.expect("an answer begins with a status"), headers))
    }

    /// Reads a line; none at the end, however it came.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.socket.read_line(&mut line)).await;
        let read = read.expect("something comes, or the end").unwrap_or(0);
        (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Reads the next event of a stream: its id, its kind and its data. None at the end.
    pub async fn event(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("event", kind)) => event.kind = kind.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).expect("JSON"),
                _ if line.is_empty() && event != Event::default() => return Some(event),
                // The sizes of chunks, and comments.
                _ => {}
            }
        }
    }
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub data: Value,
}
