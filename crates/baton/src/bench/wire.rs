//! One connection, as thin as a client can be: the bench is to measure the server.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Tells connections apart, so that no two use the same request key.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The version of MCP that is spoken.
const MODERN: &str = "2026-07-28";

/// One connection.
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    address: String,
    bearer: String,
    number: u64,
}

impl Wire {
    pub(super) async fn connect(address: &str, bearer: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            address: address.into(),
            bearer: bearer.into(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Asks and reads the answer; anything but a success ends the bench.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        key: &str,
        token: Option<&str>,
        body: &Value,
    ) -> io::Result<Value> {
        let token = token.map_or(String::new(), |token| format!("baton-claim-token: {token}\r\n"));
        self.send((method, path), &format!("idempotency-key: {key}\r\n{token}"), body).await
    }

    /// Calls a tool over MCP, in the modern era.
    pub(super) async fn call(
        &mut self,
        tool: &str,
        key: &str,
        arguments: &Value,
    ) -> io::Result<Value> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "baton/idempotency-key": key,
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = format!(
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\n\
             mcp-method: tools/call\r\nmcp-name: {tool}\r\n"
        );
        let answer = self.send(("POST", "/mcp"), &headers, &body).await?;
        if answer["result"]["isError"] == false {
            return Ok(answer["result"]["structuredContent"].clone());
        }
        Err(io::Error::other(format!("{tool}: {answer}")))
    }

    async fn send(
        &mut self,
        (method, path): (&str, &str),
        headers: &str,
        body: &Value,
    ) -> io::Result<Value> {
        let body = body.to_string();
        let words = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             {headers}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.bearer,
            body.len()
        );
        self.stream.get_mut().write_all(words.as_bytes()).await?;
        let (status, length) = self.head().await?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        if status >= 300 {
            let told = String::from_utf8_lossy(&body).into_owned();
            return Err(io::Error::other(format!("{method} {path}: {status} {told}")));
        }
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Turns the connection into a reader of events.
    pub(super) async fn listen(mut self, after: &str) -> io::Result<Self> {
        let words = format!(
            "GET /v1/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             accept: text/event-stream\r\nlast-event-id: {after}\r\n\r\n",
            self.address, self.bearer
        );
        self.stream.get_mut().write_all(words.as_bytes()).await?;
        let (status, _) = self.head().await?;
        if status == 200 { Ok(self) } else { Err(io::Error::other(format!("events: {status}"))) }
    }

    async fn head(&mut self) -> io::Result<(u16, usize)> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer: {line:?}")))?;
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let header = line.trim_end();
            if header.is_empty() {
                return Ok((status, length));
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
    }
}
