//! As much of HTTP as agent programs need: one request after another, answers of a known length.

use std::io::{self, BufRead, Read, Write};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Bytes of the longest body that is read: a long conversation with all of its tools.
const BODY_MAX: usize = 32 * 1024 * 1024;
/// Lines of a head.
const HEAD_MAX: usize = 200;

/// A request.
pub struct Request {
    pub method: String,
    pub target: String,
    /// The body, if it was JSON.
    pub body: Value,
}

/// An answer to be.
pub struct Answer {
    status: u16,
    kind: &'static str,
    headers: Vec<(String, String)>,
    body: String,
    wait: Duration,
}

impl Answer {
    pub fn json(status: u16, body: Value) -> Self {
        let (kind, body) = ("application/json", body.to_string());
        Self { status, kind, headers: vec![], body, wait: Duration::ZERO }
    }

    /// Events, each with a name if the provider gives them names.
    pub fn events(events: &[(Option<&str>, Value)]) -> Self {
        let mut body = String::new();
        for (name, data) in events {
            if let Some(name) = name {
                body.push_str(&format!("event: {name}\n"));
            }
            body.push_str(&format!("data: {data}\n\n"));
        }
        let kind = "text/event-stream";
        Self { status: 200, kind, headers: vec![], body, wait: Duration::ZERO }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same after a while.
    pub fn after(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    #[expect(clippy::disallowed_methods, reason = "a slow model is slow by the clock")]
    pub fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        if !self.wait.is_zero() {
            thread::sleep(self.wait);
        }
        let mut head = format!(
            "HTTP/1.1 {} scripted\r\ncontent-type: {}\r\ncontent-length: {}\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        writer.write_all(format!("{head}\r\n{}", self.body).as_bytes())
    }
}

/// Reads one request; none at the end of the connection.
pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let first = line(reader)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let (mut length, mut chunked) = (0, false);
    for _ in 0..HEAD_MAX {
        let header = line(reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap_or(0);
        }
        chunked |= name.eq_ignore_ascii_case("transfer-encoding") && value.contains("chunked");
    }
    let bytes = if chunked { chunks(reader)? } else { exactly(reader, length)? };
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Ok(Some(Request { method: method.to_owned(), target: target.to_owned(), body }))
}

fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    loop {
        let size = line(reader)?;
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16);
        let size = size.map_err(|_| io::Error::other("the size of a chunk is no number"))?;
        bytes.extend(exactly(reader, size)?);
        line(reader)?;
        if size == 0 || bytes.len() > BODY_MAX {
            return Ok(bytes);
        }
    }
}

fn exactly(reader: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    if length > BODY_MAX {
        return Err(io::Error::other("the body is too long"));
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(64 * 1024).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
