//! Postgres to throw away: clusters on private sockets, databases that vanish with their case.
//!
//! [`Database::fresh`] is what most tests need: an empty database in a cluster that all tests of a
//! run share, without fsync, for nobody pulls a plug there. [`Cluster`] is one of its own, with
//! fsync, to be crashed and started again, or to be measured. Nothing listens on the network, but for a cluster that
//! speaks TLS, which listens to this machine; a server runs as a user
//! without rights even if the tests run as root; and nothing is left behind, even by a test that
//! was killed.

mod admin;
mod guardian;
mod network;
mod place;
mod pooler;
mod programs;
mod session;
mod shared;
mod template;

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub use network::Network;
pub use pooler::Pooler;
pub use programs::Programs;
pub use session::Session;

use guardian::Guardian;

/// Who may do everything in a cluster.
const ADMIN: &str = "postgres";

/// Who owns the databases: as much of a user as Baton's own in a real place.
const OWNER: &str = "baton";

/// The number in the name of the socket; there is no network that it could be a port of.
const PORT: u16 = 5432;

/// How often a server that recovers is looked at, and how many times: a minute is enough for any.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 3_000;

/// What a cluster stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Every commit is synced, and takes its time before it is, so that a crash may meet it. It is
    /// in memory where there is enough of it: crashes of processes cannot tell the difference.
    Careful,
    /// Nothing is ever synced, in memory or not: for what nobody crashes.
    Careless,
    /// Every commit is synced to a real disk: for measuring.
    Real,
}

/// A cluster of one test's own. Taken away when dropped, or when the process dies.
pub struct Cluster {
    home: PathBuf,
    disk: Disk,
    guardian: Guardian,
    /// Where it listens to this machine, if it speaks TLS.
    port: Option<u16>,
}

/// An empty database of one case's own. It goes with this, or with its cluster.
pub struct Database {
    home: PathBuf,
    disk: Disk,
    port: u16,
    name: String,
}

impl Cluster {
    /// Starts a fresh one.
    ///
    /// # Panics
    /// If there is no Postgres here, or if it does not start.
    #[must_use]
    pub fn start(disk: Disk) -> Self {
        Self::begin(disk, None)
    }

    /// Starts a fresh one that speaks TLS over the loopback address, with a certificate and its key
    /// as PEM.
    ///
    /// # Panics
    /// If there is no Postgres here, or if it does not start.
    #[must_use]
    pub fn encrypted(certificate: &str, key: &str) -> Self {
        Self::begin(Disk::Careful, Some((certificate, key)))
    }

    fn begin(disk: Disk, tls: Option<(&str, &str)>) -> Self {
        let programs = Programs::find();
        let home = place::fresh(disk);
        programs.hand_over(&home);
        let mut options = options(&home, disk);
        let port = tls.map(|tls| listening(&programs, &home, tls, &mut options));
        // The guardian comes first: from now on nothing is left behind, whatever happens.
        let guardian = Guardian::watch(&programs, &home, &options);
        template::pour(&programs, &home.join("data"));
        let mut cluster = Self { home, disk, guardian, port };
        cluster.resume();
        cluster
    }

    /// How Baton gets to a database of it from a host of this name, over TLS.
    ///
    /// # Panics
    /// If it was started without.
    #[must_use]
    pub fn url_by(&self, host: &str, database: &Database, query: &str) -> String {
        let port = self.port.expect("it was started with a certificate");
        format!("postgres://{OWNER}@{host}:{port}/{}?{query}", database.name)
    }

    /// An empty database in it.
    #[must_use]
    pub fn database(&self) -> Database {
        Database::create(&self.home, self.disk, self.port.unwrap_or(PORT))
    }

    /// Stops it as a crash does: nobody is told, nothing is flushed, the log is replayed at the next
    /// start.
    pub fn crash(&mut self) {
        assert!(self.guardian.tell("crash"), "a running cluster can be stopped");
    }

    /// Stops it in good order; open transactions are undone.
    pub fn stop(&mut self) {
        assert!(self.guardian.tell("stop"), "a running cluster can be stopped");
    }

    /// Starts it again.
    pub fn resume(&mut self) {
        let log = self.home.join("log");
        assert!(
            self.guardian.tell("start"),
            "Postgres did not start: {}",
            fs::read_to_string(log).unwrap_or_default()
        );
    }
}

impl Database {
    /// An empty one in the cluster that all tests share.
    #[must_use]
    pub fn fresh() -> Self {
        Self::create(shared::home(), Disk::Careless, PORT)
    }

    fn create(home: &Path, disk: Disk, port: u16) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("case_{}_{number}", std::process::id());
        // Files are copied faster than logged, unless they must be synced one by one.
        let strategy = match disk {
            Disk::Careful | Disk::Real => "wal_log",
            Disk::Careless => "file_copy",
        };
        // A process of the same number may have been killed with its database still there.
        let statements = [
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
            format!("CREATE DATABASE {name} OWNER {OWNER} STRATEGY {strategy}"),
        ];
        let said = admin::say(&url(home, port, ADMIN, ADMIN), &statements);
        said.unwrap_or_else(|error| panic!("no database: {error}"));
        Self { home: home.to_owned(), disk, port, name }
    }

    /// How Baton gets to it.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.home, self.port, OWNER, &self.name)
    }

    /// Somebody else in it, who may hold what others need.
    ///
    /// # Panics
    /// If the cluster does not answer.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::open(&url(&self.home, self.port, ADMIN, &self.name))
    }

    /// Ends every connection to it, as an administrator does.
    pub fn end_connections(&self) {
        self.say(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
    }

    /// Kills a process of the server that is at work for this database, in the middle of a commit if
    /// one is: the server then ends all others, and recovers. False if none was at work.
    ///
    /// # Panics
    /// If the cluster does not answer.
    pub fn kill_one_at_work(&self) -> bool {
        let found = self.say(
            "SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
             ORDER BY query ILIKE 'commit%' DESC LIMIT 1",
        );
        let found = found.first().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        // It may have ended meanwhile, which is as good as none.
        found.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }

    /// Waits until the server answers, for it may be recovering.
    ///
    /// # Panics
    /// If it never does.
    pub fn wait_until_up(&self) {
        wait_for(&url(&self.home, self.port, ADMIN, &self.name));
    }

    /// What the server said about this database so far, line by line.
    ///
    /// # Panics
    /// If the server keeps no log.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let log = fs::read(self.home.join("log")).expect("a server keeps a log");
        let log = String::from_utf8_lossy(&log);
        log.lines()
            .filter_map(|line| line.strip_prefix(&*format!("{}:", self.name)))
            .map(str::to_owned)
            .collect()
    }

    /// Has the administrator say something in this database; gives the first column of what it found.
    ///
    /// # Panics
    /// If the cluster does not answer.
    pub fn say(&self, statement: &str) -> Vec<String> {
        self.tries(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// The same of what may be refused, which is told.
    pub fn tries(&self, statement: &str) -> Result<Vec<String>, String> {
        admin::say(&url(&self.home, self.port, ADMIN, &self.name), &[statement.to_owned()])
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Where every file is synced, dropping is dear, and the whole cluster goes soon.
        if self.disk != Disk::Careless {
            return;
        }
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A cluster that is gone has taken the database along.
        drop(admin::say(&url(&self.home, self.port, ADMIN, ADMIN), &[statement]));
    }
}

#[expect(clippy::disallowed_methods, reason = "a server that starts tells nobody when it is done")]
fn wait_for(url: &str) {
    for _ in 0..LOOKS_MAX {
        if admin::say(url, &["SELECT 1".to_owned()]).is_ok() {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("nobody answers at {url}");
}

fn url(home: &Path, port: u16, user: &str, database: &str) -> String {
    format!("postgres:///{database}?host={}&port={port}&user={user}", home.display())
}

fn socket(home: &Path) -> PathBuf {
    home.join(format!(".s.PGSQL.{PORT}"))
}

/// Has a server listen to this machine alone, with a certificate; tells at which port.
fn listening(
    programs: &Programs,
    home: &Path,
    (certificate, key): (&str, &str),
    options: &mut String,
) -> u16 {
    for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
        let path = home.join(name);
        fs::write(&path, text).expect("a fresh folder is ours");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        programs.hand_over(&path);
    }
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.expect("the loopback address has a free port").port();
    let home = home.display();
    // The last word counts: the socket bears the number of the port.
    options.push_str(&format!(
        " -c listen_addresses=127.0.0.1 -c port={port} -c ssl=on -c ssl_cert_file={home}/tls.crt \
         -c ssl_key_file={home}/tls.key"
    ));
    port
}

/// What the server is started with. The folder is its runner's alone, and so is the socket in it.
fn options(home: &Path, disk: Disk) -> String {
    fs::set_permissions(home, Permissions::from_mode(0o700)).expect("a fresh folder is ours");
    let safety = match disk {
        Disk::Careful => {
            "-c recovery_init_sync_method=syncfs -c commit_delay=2000 -c commit_siblings=0"
        }
        Disk::Real => "-c recovery_init_sync_method=syncfs",
        Disk::Careless => "-c fsync=off -c full_page_writes=off",
    };
    format!(
        "-c listen_addresses= -c unix_socket_directories={} -c port={PORT} \
         -c unix_socket_permissions=0700 -c max_connections=400 -c log_line_prefix=%d: -c autovacuum_naptime=10s {safety}",
        home.display()
    )
}

#[cfg(test)]
mod tests;
