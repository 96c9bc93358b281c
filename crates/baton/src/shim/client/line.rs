//! The line to a shim: one task that writes requests and reads answers.

use std::collections::VecDeque;
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::super::control::{Answer, OUTBOX_BYTES_MAX, Request};
use super::{ASKED_MAX, CHANGES_MAX, Change};

/// Keeps the line until one of both ends is gone.
pub(super) async fn keep(
    stream: UnixStream,
    mut asked: mpsc::Receiver<(Request, oneshot::Sender<Answer>)>,
    tell: mpsc::Sender<Change>,
) {
    let (mut from, mut to) = stream.into_split();
    let mut waiting: VecDeque<oneshot::Sender<Answer>> = VecDeque::new();
    let mut news = News::default();
    let mut bytes = vec![];
    let mut is_over = false;
    while !is_over || !news.0.is_empty() {
        tokio::select! {
            ask = asked.recv(), if !is_over && waiting.len() < ASKED_MAX => match ask {
                None => return,
                Some((request, reply)) => {
                    let sent = send(&mut to, &request).await;
                    is_over |= sent.is_err();
                    waiting.push_back(reply);
                }
            },
            read = from.read_buf(&mut bytes), if !is_over && !news.is_full() => {
                is_over |= !matches!(read, Ok(1..));
                for answer in answers(&mut bytes) {
                    match answer {
                        Ok(answer) if answer.is_reply() => {
                            // Whoever gave up waiting is not told.
                            waiting.pop_front().map(|reply| reply.send(answer));
                        }
                        Ok(answer) => news.add(&answer),
                        Err(_) => is_over = true,
                    }
                }
                is_over |= bytes.len() > OUTBOX_BYTES_MAX;
                if is_over {
                    waiting.clear();
                    asked.close();
                }
            }
            room = tell.reserve(), if !news.0.is_empty() => match room {
                Ok(room) => {
                    if let Some(change) = news.0.pop_front() {
                        room.send(change);
                    }
                }
                Err(_) => return,
            },
        }
    }
}

async fn send(to: &mut (impl AsyncWriteExt + Unpin), request: &Request) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    to.write_all(&line).await
}

/// The whole lines of what was read.
fn answers(bytes: &mut Vec<u8>) -> Vec<Result<Answer, serde_json::Error>> {
    let mut answers = vec![];
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        answers.push(serde_json::from_slice(&bytes[..end]));
        bytes.drain(..=end);
    }
    answers
}

/// What nobody has heard yet.
#[derive(Default)]
struct News(VecDeque<Change>);

impl News {
    fn is_full(&self) -> bool {
        self.0.len() >= CHANGES_MAX
    }

    fn add(&mut self, answer: &Answer) {
        let change = match answer {
            Answer::Spool(end) => Change::Spool(*end),
            Answer::Exited(exit) => Change::Exited(*exit),
            Answer::Stopped(proof) => Change::Stopped(*proof),
            Answer::Done {} | Answer::Refused { .. } | Answer::State { .. } => return,
        };
        // How far the spool was a moment ago is of no interest any more.
        if let (Change::Spool(_), Some(Change::Spool(_))) = (change, self.0.back()) {
            self.0.pop_back();
        }
        self.0.push_back(change);
    }
}
