//! WebSockets as the worker protocol uses them, at both ends: texts of a bounded length, in parts of a
//! bounded length, and nothing else.

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::protocol::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX};

/// What waits to be written at most: the largest message four times.
const WRITE_BUFFER_BYTES_MAX: usize = 1 << 20;
/// What is read and written at once: most frames are small, and most connections idle.
const BUFFER_BYTES: usize = 4 << 10;
/// The only version of the protocol below that there is.
pub const VERSION: &str = "13";

/// One end of a connection.
pub struct WebSocket<S>(WebSocketStream<S>);

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A text.
    Text(String),
    /// A sign of life, asked for or not.
    Alive,
    /// The other end has gone, in order or not.
    Gone,
    /// Something that this protocol has no place for.
    Wrong(&'static str),
}

/// The other end has gone, or takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end has gone")]
pub struct Gone;

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has come to its end.
    Done,
    /// The server goes away.
    Away,
    /// What was said is against the rules.
    Rules,
    /// What was said is no text.
    NoText,
    /// What was said is too long.
    TooLong,
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
}

/// What a server answers to the key of a handshake.
#[must_use]
pub fn accept(key: &str) -> String {
    derive_accept_key(key.as_bytes())
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// The end of a server, after the handshake; `read` is what came behind it.
    pub async fn serving(socket: S, read: Vec<u8>) -> Self {
        let config = Some(config());
        Self(WebSocketStream::from_partially_read(socket, read, Role::Server, config).await)
    }

    /// The end of a client. Shakes hands; a server that refuses says why with a status.
    pub async fn asking(
        socket: S,
        host: &str,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Self, Refused> {
        use tokio_tungstenite::tungstenite::{Error, client::IntoClientRequest as _};
        let url = format!("ws://{host}{path}");
        let request = url.into_client_request();
        let mut request = request.map_err(|error| Refused::Unreachable(error.to_string()))?;
        request.headers_mut().extend(headers);
        let shaking =
            tokio_tungstenite::client_async_with_config(request, socket, Some(config())).await;
        match shaking {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                let body = String::from_utf8_lossy(body).into_owned();
                Err(Refused::Answered { status: response.status().as_u16(), body })
            }
            Err(error) => Err(Refused::Unreachable(error.to_string())),
        }
    }

    /// Waits for what the other end says. Nothing is lost if it is dropped half-way.
    pub async fn hear(&mut self) -> Heard {
        use tokio_tungstenite::tungstenite::Error;
        use tokio_tungstenite::tungstenite::error::CapacityError;
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Heard::Text(text.as_str().to_owned()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Heard::Alive,
            Some(Ok(Message::Binary(_))) => Heard::Wrong("frames are texts, not bytes"),
            Some(Ok(Message::Close(_) | Message::Frame(_))) | None => Heard::Gone,
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                Heard::Wrong("the message or one of its frames is too long")
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection broke off");
                Heard::Gone
            }
        }
    }

    /// Sends a text, in parts if it is long.
    pub async fn say(&mut self, text: String) -> Result<(), Gone> {
        let mut rest = Bytes::from(text);
        let mut kind = OpCode::Data(Data::Text);
        while rest.len() > FRAME_BYTES_MAX {
            let part = rest.split_to(FRAME_BYTES_MAX);
            let frame = Message::Frame(Frame::message(part, kind, false));
            self.0.feed(frame).await.map_err(|_| Gone)?;
            kind = OpCode::Data(Data::Continue);
        }
        let last = Message::Frame(Frame::message(rest, kind, true));
        self.0.send(last).await.map_err(|_| Gone)
    }

    /// Asks for a sign of life.
    pub async fn ping(&mut self) -> Result<(), Gone> {
        self.0.send(Message::Ping(Bytes::new())).await.map_err(|_| Gone)
    }

    /// Says good-bye; whether it is heard is not waited for.
    pub async fn close(&mut self, why: Why) {
        let code = match why {
            Why::Done => CloseCode::Normal,
            Why::Away => CloseCode::Away,
            Why::Rules => CloseCode::Policy,
            Why::NoText => CloseCode::Unsupported,
            Why::TooLong => CloseCode::Size,
        };
        drop(self.0.close(Some(CloseFrame { code, reason: "".into() })).await);
    }
}

/// Why a server did not let a client in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It said so.
    #[error("the server answered with status {status}")]
    Answered {
        /// The status.
        status: u16,
        /// What it said, usually a problem.
        body: String,
    },
    /// It did not get that far.
    #[error("{0}")]
    Unreachable(String),
}
