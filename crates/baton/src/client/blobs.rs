//! Bytes by digest, from files and into files.
//!
//! The digest is the name, so asking again is always safe: the same name is the same bytes. Both
//! sides hash what they get, and a file gets its name only once it is whole, right and durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use baton_store::blobs::{BYTES_MAX, Digest};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::pieces::{Given, Giver, Pieces, intake, pour};
use crate::problem::Problem;

use super::exchange::{ANSWER_MAX, Answer, Lost, broken, put, read, silent};
use super::{Client, Failure, TRIES_MAX, dial, not_baton};

const OCTETS: &str = "application/octet-stream";
/// How long a server may take nothing, or give nothing, of a blob that is on its way.
const STILL_MAX: Duration = Duration::from_secs(60);
/// How much is hashed and written at once.
const CHUNK_BYTES: usize = 256 << 10;

/// What a server says of a blob that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// How many bytes it has.
    pub size: u64,
    /// Whether it was not there before.
    pub new: bool,
}

/// Why one try did not succeed.
enum Failed {
    /// The next one may.
    Again(Failure, Duration),
    /// No other will.
    ForGood(Failure),
}

impl Client {
    /// Hands in the bytes of a file, whose digest is known: see [`digest_of`]. Once it answers, the
    /// server keeps them, and whoever has the digest may refer to them.
    pub async fn put_blob(&self, file: &Path, digest: &Digest) -> Result<Handed, Failure> {
        let about = fs::metadata(file).map_err(|error| unusable(file, &error))?;
        let size = about.len();
        if size > BYTES_MAX {
            let detail = format!("{} has more than {BYTES_MAX} bytes", file.display());
            return Err(Problem::new("too_large", detail).into());
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let failed = match self.send(file, size, digest).await {
                Ok(handed) => return Ok(handed),
                Err(failed) => failed,
            };
            self.bear(failed, tries).await?;
        }
    }

    /// Fetches a blob into a file, which has its name once all of it is there; answers its size. What
    /// was under that name is replaced.
    pub async fn get_blob(&self, digest: &Digest, into: &Path) -> Result<u64, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let failed = match self.fetch(digest, into).await {
                Ok(size) => return Ok(size),
                Err(failed) => failed,
            };
            self.bear(failed, tries).await?;
        }
    }

    /// Waits for the next try, if there is one.
    async fn bear(&self, failed: Failed, tries: u32) -> Result<(), Failure> {
        match failed {
            Failed::Again(_, wait) if tries < TRIES_MAX => {
                tokio::time::sleep(self.pause(tries, wait)).await;
                Ok(())
            }
            Failed::Again(failure, _) | Failed::ForGood(failure) => Err(failure),
        }
    }

    async fn send(&self, file: &Path, size: u64, digest: &Digest) -> Result<Handed, Failed> {
        let opened = File::open(file).map_err(|error| Failed::ForGood(unusable(file, &error)))?;
        let (pieces, pouring) = pour(Box::new(opened.take(size)), size, STILL_MAX);
        let pouring = tokio::spawn(pouring);
        let answer = self.sent(digest, pieces, pouring).await;
        let answer = self.heard(answer)?;
        let body = &answer.body;
        match (body["digest"].as_str(), body["size"].as_u64(), body["new"].as_bool()) {
            (Some(told), Some(told_size), Some(new))
                if told_size == size && told == digest.to_string() =>
            {
                Ok(Handed { size, new })
            }
            _ => Err(Failed::ForGood(not_baton(&self.address, "it took in other bytes"))),
        }
    }

    async fn sent(
        &self,
        digest: &Digest,
        pieces: Pieces,
        mut pouring: tokio::task::JoinHandle<io::Result<()>>,
    ) -> Result<Answer, Lost> {
        let mut request = named(Method::PUT, digest, pieces);
        *request.headers_mut() = self.headers()?;
        put(request.headers_mut(), "content-type", OCTETS, false)?;
        let stream = TokioIo::new(dial::dial(&self.address, &self.trust).await?);
        let shaken = hyper::client::conn::http1::handshake(stream).await;
        let (mut sender, connection) = shaken.map_err(|error| Lost::Before(error.to_string()))?;
        let connection = tokio::spawn(connection);
        let mut answering =
            pin!(async { read(sender.send_request(request).await.map_err(broken)?).await });
        // A server that refuses may say so before everything is sent.
        let answer = tokio::select! {
            answer = &mut answering => answer,
            _ = &mut pouring => {
                timeout(ANSWER_MAX, answering).await.unwrap_or_else(|_| Err(silent()))
            }
        };
        connection.abort();
        pouring.abort();
        answer
    }

    async fn fetch(&self, digest: &Digest, into: &Path) -> Result<u64, Failed> {
        let (response, connection) = match self.head_of(digest).await {
            Ok(found) => found,
            Err(lost) => return Err(self.lost(lost)),
        };
        let fetched = match response.status().is_success() {
            true => self.written(response, digest, into).await,
            false => match self.heard(read(response).await) {
                Ok(_) => Err(Failed::ForGood(not_baton(&self.address, "it said nothing"))),
                Err(failed) => Err(failed),
            },
        };
        connection.abort();
        fetched
    }

    async fn head_of(
        &self,
        digest: &Digest,
    ) -> Result<(Response<Incoming>, tokio::task::JoinHandle<hyper::Result<()>>), Lost> {
        let mut request = named(Method::GET, digest, Empty::<Bytes>::new());
        *request.headers_mut() = self.headers()?;
        let stream = TokioIo::new(dial::dial(&self.address, &self.trust).await?);
        let shaken = hyper::client::conn::http1::handshake(stream).await;
        let (mut sender, connection) = shaken.map_err(|error| Lost::Before(error.to_string()))?;
        let connection = tokio::spawn(connection);
        match timeout(ANSWER_MAX, sender.send_request(request)).await {
            Ok(Ok(response)) => Ok((response, connection)),
            Ok(Err(error)) => Err(broken(error)),
            Err(_) => Err(silent()),
        }
    }

    /// Writes what comes into a file beside the one that is wanted, and renames it if it is right.
    async fn written(
        &self,
        response: Response<Incoming>,
        digest: &Digest,
        into: &Path,
    ) -> Result<u64, Failed> {
        let headers = response.headers();
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let size = length.and_then(|length| length.parse::<u64>().ok());
        let kind = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == OCTETS);
        if !kind || size.is_none_or(|size| size > BYTES_MAX) {
            let why = "it does not say how many bytes come, or too many";
            return Err(Failed::ForGood(not_baton(&self.address, why)));
        }
        let (giver, taken) = intake();
        let (digest, to, part) = (*digest, into.to_owned(), self.beside(into));
        let writing = spawn_blocking(move || write(taken, &digest, &part, &to));
        let carried = carry(response.into_body(), giver).await;
        let written = writing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        match (carried, written) {
            (Err(lost), _) => Err(self.lost(lost)),
            (Ok(()), Ok(size)) => Ok(size),
            (Ok(()), Err(error)) if error.kind() == ErrorKind::InvalidData => {
                Err(self.lost(Lost::After("the bytes were changed on their way".to_owned())))
            }
            (Ok(()), Err(error)) => Err(Failed::ForGood(unusable(into, &error))),
        }
    }

    /// A name that nobody else takes, for what is not whole yet.
    fn beside(&self, into: &Path) -> PathBuf {
        let mut nonce = [0; 8];
        self.chance.fill(&mut nonce);
        let name = into.file_name().unwrap_or_default().to_string_lossy();
        into.with_file_name(format!(".{name}.{:016x}.part", u64::from_be_bytes(nonce)))
    }

    fn heard(&self, answer: Result<Answer, Lost>) -> Result<Answer, Failed> {
        match answer {
            Ok(answer) if answer.is_success() => Ok(answer),
            Ok(answer) => {
                let again = answer.ask_again_after();
                let failure = Failure::of(answer);
                // One that was too slow may be faster the next time.
                let slow = (failure.code() == "too_slow").then_some(Duration::ZERO);
                Err(match again.or(slow) {
                    Some(wait) => Failed::Again(failure, wait),
                    None => Failed::ForGood(failure),
                })
            }
            Err(lost) => Err(self.lost(lost)),
        }
    }

    fn lost(&self, lost: Lost) -> Failed {
        let failure = match lost {
            Lost::NotUnderstood(why) => {
                return Failed::ForGood(not_baton(&self.address, &why));
            }
            Lost::Nobody => self.nobody(),
            Lost::Before(why) | Lost::After(why) => self.unreachable(&why, "baton doctor"),
        };
        Failed::Again(failure, Duration::ZERO)
    }
}

/// The digest of a file, and how many bytes it has. It blocks.
pub fn digest_of(file: &Path) -> io::Result<(Digest, u64)> {
    let mut hashing = Hashing { bytes: File::open(file)?, hasher: Sha256::new(), size: 0 };
    io::copy(&mut hashing, &mut io::sink())?;
    Ok((hashing.digest(), hashing.size))
}

/// A request about a blob.
fn named<B>(method: Method, digest: &Digest, body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    let target = format!("/v1/blobs/{digest}");
    *request.uri_mut() = target.parse().expect("hexadecimal digits are a path");
    request
}

/// Carries what comes to whoever writes it.
async fn carry(mut body: Incoming, giver: Giver) -> Result<(), Lost> {
    loop {
        let frame = match timeout(STILL_MAX, body.frame()).await {
            Err(_) => return Err(Lost::After("it stopped sending".to_owned())),
            Ok(None) => {
                giver.end().await;
                return Ok(());
            }
            Ok(Some(Err(error))) => return Err(broken(error)),
            Ok(Some(Ok(frame))) => frame,
        };
        // Whoever writes says by itself why it stopped.
        if giver.give(frame.into_data().unwrap_or_default()).await == Given::Refused {
            return Ok(());
        }
    }
}

/// Bytes that are hashed and counted while they are read.
struct Hashing<R> {
    bytes: R,
    hasher: Sha256,
    size: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.size += u64::try_from(count).unwrap_or(u64::MAX);
        Ok(count)
    }
}

impl<R> Hashing<R> {
    fn digest(&self) -> Digest {
        let hash: [u8; 32] = self.hasher.clone().finalize().into();
        hash.into()
    }
}

/// Writes all bytes, or leaves nothing.
fn write(bytes: impl Read, digest: &Digest, part: &Path, into: &Path) -> io::Result<u64> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let mut hashing = Hashing { bytes, hasher: Sha256::new(), size: 0 };
    let written = (|| {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = hashing.read(&mut chunk)?;
            if count == 0 {
                break;
            }
            file.write_all(&chunk[..count])?;
        }
        if hashing.digest() != *digest {
            return Err(ErrorKind::InvalidData.into());
        }
        file.sync_all()?;
        fs::rename(part, into)?;
        let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|parent| parent.sync_all())?;
        Ok(hashing.size)
    })();
    if written.is_err() {
        drop(fs::remove_file(part));
    }
    written
}

fn unusable(file: &Path, error: &io::Error) -> Failure {
    let detail = format!("{} cannot be used: {error}", file.display());
    Problem::new("internal", detail).next("baton doctor").into()
}
