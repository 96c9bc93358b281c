//! A network between a worker and its server that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Carries bytes to a server, unless it is cut.
pub struct Proxy {
    at: SocketAddr,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    /// Where the server is; while the network is cut, nowhere.
    server: Option<SocketAddr>,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// One that leads nowhere yet. It lives as long as the test does.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let at = listener.local_addr().expect("it is bound");
        let lines = Arc::new(Mutex::new(Lines::default()));
        let known = Arc::clone(&lines);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut lines = known.lock().expect("nobody panicked");
                let Some(Ok(other)) = lines.server.map(TcpStream::connect) else { continue };
                let copies = [&client, &other].map(|one| one.try_clone().expect("it is open"));
                lines.open.extend(copies);
                carry(&client, &other);
                carry(&other, &client);
            }
        });
        Self { at, lines }
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.at.to_string()
    }

    /// Lets everybody through to the server of this URL.
    pub fn lead_to(&self, url: &str) {
        let server = url.trim_start_matches("http://").parse().expect("it listens somewhere");
        self.lines.lock().expect("nobody panicked").server = Some(server);
    }

    /// Ends every connection, and lets nobody through.
    pub fn cut(&self) {
        let mut lines = self.lines.lock().expect("nobody panicked");
        lines.server = None;
        for line in lines.open.drain(..) {
            // Whoever has gone need not be cut off.
            line.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

fn carry(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) =
        (from.try_clone().expect("it is open"), to.try_clone().expect("it is open"));
    thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        to.shutdown(Shutdown::Write).unwrap_or_default();
    });
}
