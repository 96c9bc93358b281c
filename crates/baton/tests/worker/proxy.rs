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
    is_cut: bool,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// Between whoever comes and the server of this URL. It lives as long as the test does.
    pub fn to(url: &str) -> Self {
        let server: SocketAddr =
            url.trim_start_matches("http://").parse().expect("it listens at an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let at = listener.local_addr().expect("it is bound");
        let lines = Arc::new(Mutex::new(Lines::default()));
        let known = Arc::clone(&lines);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut lines = known.lock().expect("nobody panicked");
                if lines.is_cut {
                    continue;
                }
                let Ok(other) = TcpStream::connect(server) else { continue };
                let copies = [&client, &other].map(|one| one.try_clone().expect("it is open"));
                lines.open.extend(copies);
                carry(&client, &other);
                carry(&other, &client);
            }
        });
        Self { at, lines }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Ends every connection, and lets nobody through.
    pub fn cut(&self) {
        let mut lines = self.lines.lock().expect("nobody panicked");
        lines.is_cut = true;
        for line in lines.open.drain(..) {
            drop(line.shutdown(Shutdown::Both));
        }
    }

    pub fn heal(&self) {
        self.lines.lock().expect("nobody panicked").is_cut = false;
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
        drop(to.shutdown(Shutdown::Write));
    });
}
