//! Somebody who takes webhooks in, and checks what is claimed of them with nothing of ours.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Inbox, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// How long something may take to arrive before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing must arrive for nothing to have been sent: several looks of a server.
const SILENCE: Duration = Duration::from_secs(4);
const BLOCK: usize = 64;

/// A webhook that arrived.
pub struct Hook {
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// A receiver, which answers with what it is told to, and otherwise well.
pub struct Receiver {
    pub url: String,
    arrived: Inbox<Hook>,
    answers: Sender<Option<&'static str>>,
}

pub const GOOD: &str = "204 No Content";
pub const BROKEN: &str = "500 Internal Server Error";
pub const ELSEWHERE: &str = "302 Found\r\nLocation: http://127.0.0.1:1/";

impl Receiver {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        let (sender, arrived) = channel();
        let (answers, said) = channel::<Option<&'static str>>();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let Some(hook) = read(&socket) else { continue };
                if sender.send(hook).is_err() {
                    return;
                }
                let answer = said.try_recv().unwrap_or(Some(GOOD));
                // Whoever is not answered waits until the connection ends.
                let Some(answer) = answer else {
                    let _ = said.recv();
                    continue;
                };
                let text = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
                drop((&socket).write_all(text.as_bytes()));
            }
        });
        Self { url: format!("http://{address}/in"), arrived, answers }
    }

    /// The next answers; none is no answer until the one after it is said.
    pub fn will_answer(&self, answers: &[Option<&'static str>]) {
        answers.iter().for_each(|answer| self.answers.send(*answer).expect("it is there"));
    }

    /// Waits for the next webhook.
    pub fn next(&self) -> Hook {
        self.arrived.recv_timeout(PATIENCE).expect("it arrives")
    }

    pub fn hears_nothing(&self) {
        let more = self.arrived.recv_timeout(SILENCE);
        assert!(more.is_err(), "{}", more.map(|hook| hook.body).unwrap_or_default());
    }
}

fn read(socket: &TcpStream) -> Option<Hook> {
    let mut reader = BufReader::new(socket);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.insert(name.to_lowercase(), value.to_owned());
        }
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Hook { headers, body: String::from_utf8(body).ok()? })
}

impl Hook {
    pub fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("it is JSON")
    }

    /// Whether it is signed as the standard says with this secret.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = unbase64(secret.strip_prefix("whsec_").expect("secrets begin so"));
        let signed = format!("{}.{}.{}", self.id(), self.headers["webhook-timestamp"], self.body);
        let signature = self.headers["webhook-signature"].strip_prefix("v1,").expect("version 1");
        unbase64(signature) == hmac(&key, signed.as_bytes())
    }
}

/// RFC 2104, from the hash alone.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0; BLOCK];
    block[..key.len()].copy_from_slice(key);
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

fn unbase64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: u8| DIGITS.iter().position(|own| *own == byte).expect("it is base64");
    let mut bytes = vec![];
    let (mut bits, mut held) = (0_usize, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = (bits << 6 | digit(byte)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).expect("eight bits"));
        }
    }
    bytes
}
