//! A pooler before a database that lends a connection for one transaction at a time, as many places
//! have it.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::place::{fresh, target};
use super::programs::Programs;
use super::{ADMIN, Database, Disk, OWNER, PORT};

/// Connections to the database that all clients share: far fewer than there are clients.
const SHARED: u32 = 8;

/// Ends the pooler, and takes everything of it away, when the input ends.
const SCRIPT: &str = r#"
home=$1 program=$2
trap : HUP INT TERM
cd / || exit 1
"$program" -q "$home/pgbouncer.ini" </dev/null >"$home/log" 2>&1 &
read -r _
kill -9 $!
wait
rm -rf "$home"
"#;

/// A running pooler. It goes when this is dropped, or when the process dies.
pub struct Pooler {
    home: PathBuf,
    name: String,
    guardian: Child,
}

impl Pooler {
    /// Starts one before a database.
    ///
    /// # Panics
    /// If there is no pgbouncer here, or if it does not start.
    #[must_use]
    pub fn before(database: &Database) -> Self {
        let (program, libraries) = find();
        let programs = Programs::find();
        let home = fresh(Disk::Careless);
        let settings = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\n\
             unix_socket_dir = {}\nauth_type = trust\nauth_file = {}/users\npool_mode = transaction\n\
             default_pool_size = {SHARED}\nmax_client_conn = 400\nlogfile = {}/log\n",
            database.home.display(),
            database.port,
            home.display(),
            home.display(),
            home.display()
        );
        fs::write(home.join("pgbouncer.ini"), settings).expect("a fresh folder is ours");
        let users = format!("\"{OWNER}\" \"\"\n\"{ADMIN}\" \"\"\n");
        fs::write(home.join("users"), users).expect("a fresh folder is ours");
        programs.hand_over(&home);
        let mut shell = programs.as_runner(Command::new("sh"));
        shell.args(["-c", SCRIPT, "guardian"]).arg(&home).arg(program);
        shell.env("LD_LIBRARY_PATH", libraries).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let guardian = shell.spawn().expect("every machine has a shell");
        let pooler = Self { home, name: database.name.clone(), guardian };
        super::wait_for(&super::url(&pooler.home, PORT, OWNER, &pooler.name));
        pooler
    }

    /// How Baton gets to the database through it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}&pooler=transaction", self.url_unsaid())
    }

    /// The same, from somebody who does not know of the pooler.
    #[must_use]
    pub fn url_unsaid(&self) -> String {
        super::url(&self.home, PORT, OWNER, &self.name)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if let Some(mut input) = self.guardian.stdin.take() {
            drop(input.write_all(b"end\n"));
        }
        drop(self.guardian.wait());
    }
}

/// The program, and where libraries of its own are: what `./check` unpacked, or what is installed.
fn find() -> (PathBuf, PathBuf) {
    let own = target().join("tools/pgbouncer/usr");
    let libraries = fs::read_dir(own.join("lib")).into_iter().flatten().flatten();
    let libraries = libraries.map(|entry| entry.path()).next().unwrap_or_default();
    let places = [own.join("sbin"), "/usr/sbin".into(), "/usr/bin".into(), "/usr/local/bin".into()];
    let found = places.iter().map(|place| place.join("pgbouncer")).find(|path| path.exists());
    let found = found.unwrap_or_else(|| {
        panic!(
            "pgbouncer is needed and not there: run ./check, which unpacks it, or `apt-get install \
             pgbouncer`"
        )
    });
    (resolved(&found), resolved(&libraries))
}

/// The path without links, which whoever runs the server may not be able to follow.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
