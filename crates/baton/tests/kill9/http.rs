//! A plain client: one connection at a time, and an honest word for every way in which a request
//! can end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longer than anything that a healthy server takes here; a dead one is noticed by its socket.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a request ended.
#[derive(Debug)]
pub enum Heard {
    /// With an answer.
    Answer(Answer),
    /// Nothing was sent, so nothing happened.
    Unsent,
    /// It was sent, at least in part, and no answer came.
    Unknown,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub replayed: bool,
    pub body: Value,
}

/// What is asked.
pub struct Asked<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub key: Option<&'a str>,
    pub token: Option<&'a str>,
    pub body: Value,
}

/// Who asks.
pub struct Client {
    address: String,
    bearer: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub fn new(address: &str, bearer: &str) -> Self {
        Self { address: address.into(), bearer: bearer.into(), connection: None }
    }

    /// Asks once.
    pub fn ask(&mut self, asked: &Asked<'_>) -> Heard {
        let Some(mut connection) = self.connection.take().or_else(|| self.connect()) else {
            return Heard::Unsent;
        };
        if connection.get_mut().write_all(&self.words(asked)).is_err() {
            return Heard::Unknown;
        }
        match answer(&mut connection) {
            Ok(answer) => {
                self.connection = Some(connection);
                Heard::Answer(answer)
            }
            Err(_) => Heard::Unknown,
        }
    }

    fn connect(&self) -> Option<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(BufReader::new(stream))
    }

    fn words(&self, asked: &Asked<'_>) -> Vec<u8> {
        let body = if asked.method == "GET" { String::new() } else { asked.body.to_string() };
        let mut words = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n",
            asked.method, asked.path, self.address, self.bearer
        );
        if let Some(key) = asked.key {
            words.push_str(&format!("idempotency-key: {key}\r\n"));
        }
        if let Some(token) = asked.token {
            words.push_str(&format!("baton-claim-token: {token}\r\n"));
        }
        if asked.method != "GET" {
            let length = body.len();
            words.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {length}\r\n"
            ));
        }
        words.push_str("\r\n");
        words.push_str(&body);
        words.into_bytes()
    }
}

fn answer(connection: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let status = line(connection)?;
    let status = status.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let (mut length, mut replayed) = (0, false);
    loop {
        let header = line(connection)?;
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "idempotent-replayed" => replayed = value.trim() == "true",
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Answer { status, replayed, body })
}

fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut text = String::new();
    if connection.read_line(&mut text)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text.trim_end().to_owned())
}
