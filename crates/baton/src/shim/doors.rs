//! The control socket: who may come in, and what they say and hear.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::sockopt::socket_peercred;
use rustix::process::{geteuid, getpid};

use super::control::{Answer, CLIENTS_MAX, LINE_BYTES_MAX, OUTBOX_BYTES_MAX, Request};
use super::place::Place;
use super::processes;

/// Bytes that are read of a client at once.
const READ_BYTES: usize = 16 << 10;

/// The socket and whoever is connected.
#[derive(Debug)]
pub(super) struct Doors {
    listener: UnixListener,
    clients: Vec<Client>,
    had_clients: bool,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// How far it knows that the spool is.
    told: u64,
    /// Whether it has asked for anything: everybody asks who it is first.
    has_asked: bool,
    is_over: bool,
}

impl Doors {
    /// Opens the socket in the attempt's folder.
    pub(super) fn open(place: &Place) -> io::Result<Self> {
        match fs::remove_file(place.folder().join(Place::socket_name())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // A name in a socket's address is short; the folder's is not always.
        let folder = fs::File::open(place.folder())?;
        let short = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), Place::socket_name());
        let listener = UnixListener::bind(short)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, clients: vec![], had_clients: false })
    }

    pub(super) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Every connection, and whether something waits to be sent to it.
    pub(super) fn clients(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.clients.iter().map(|client| (client.stream.as_fd(), !client.outbox.is_empty()))
    }

    /// Lets in who may come in, and tells them what has happened so far.
    pub(super) fn admit(&mut self, so_far: &[Answer]) {
        while let Ok((stream, _)) = self.listener.accept() {
            let ours = stream.set_nonblocking(true).is_ok() && is_admitted(&stream);
            if ours && self.clients.len() < CLIENTS_MAX {
                let outbox = so_far.iter().flat_map(Answer::line).collect();
                let (inbox, has_asked, is_over) = (vec![], false, false);
                self.clients.push(Client { stream, inbox, outbox, told: 0, has_asked, is_over });
                self.had_clients = true;
            }
        }
    }

    /// What everybody asks, with the number of who asks.
    pub(super) fn requests(&mut self) -> Vec<(usize, Result<Request, String>)> {
        let mut requests = vec![];
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.read();
            for line in client.lines() {
                client.has_asked = true;
                let request = serde_json::from_slice(&line).map_err(|error| {
                    format!("no request: {error}; see docs/guides/supervision.md")
                });
                requests.push((number, request));
            }
        }
        requests
    }

    pub(super) fn answer(&mut self, number: usize, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(number) {
            client.outbox.extend(answer.line());
        }
    }

    /// Says something to everybody.
    pub(super) fn tell(&mut self, answer: &Answer) {
        for client in &mut self.clients {
            client.outbox.extend(answer.line());
        }
    }

    /// Says how far the spool is to whoever has heard everything else: nobody gets a line per record.
    pub(super) fn tell_spool(&mut self, end: u64) {
        for client in &mut self.clients {
            if client.told < end && client.outbox.is_empty() {
                client.told = end;
                client.outbox.extend(Answer::Spool(end).line());
            }
        }
    }

    /// Sends what waits, and lets go of whoever left or does not read.
    pub(super) fn send(&mut self) {
        for client in &mut self.clients {
            client.write();
        }
        self.clients.retain(|client| !client.is_over);
    }

    /// Whether somebody came, and everybody who did was answered and has heard everything.
    pub(super) fn is_done(&self) -> bool {
        let is_done = |client: &Client| client.has_asked && client.outbox.is_empty();
        self.had_clients && self.clients.iter().all(is_done)
    }
}

impl Client {
    fn read(&mut self) {
        let mut piece = [0; READ_BYTES];
        // What is longer than a line is read at the next turn, or is too long.
        while self.inbox.len() <= LINE_BYTES_MAX {
            match self.stream.read(&mut piece) {
                Ok(0) => return self.is_over = true,
                Ok(length) => self.inbox.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.is_over = true,
            }
        }
    }

    fn lines(&mut self) -> Vec<Vec<u8>> {
        let is_end = |byte: &u8| *byte == b'\n';
        let Some(end) = self.inbox.iter().rposition(is_end) else {
            self.is_over |= self.inbox.len() > LINE_BYTES_MAX;
            return vec![];
        };
        let begun = self.inbox.split_off(end + 1);
        let whole = std::mem::replace(&mut self.inbox, begun);
        whole[..end].split(is_end).map(<[u8]>::to_vec).collect()
    }

    fn write(&mut self) {
        while !self.outbox.is_empty() && !self.is_over {
            match self.stream.write(&self.outbox) {
                Ok(length) => drop(self.outbox.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_over = true,
            }
        }
        self.is_over |= self.outbox.len() > OUTBOX_BYTES_MAX;
    }
}

/// Our own user, and nobody of the tree: an agent does not renew its own fence.
fn is_admitted(stream: &UnixStream) -> bool {
    socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == geteuid() && !processes::descends(peer.pid, getpid()))
}
