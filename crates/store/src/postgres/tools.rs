//! The tools that come with Postgres. Where to go and what opens it they are told by their
//! environment, where no list of processes shows it; of ours they get nothing that is meant for them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Output;

use tokio::process::Command;

use super::address::Address;
use super::backup::Error;

/// Where distributions keep the tools, beside the path: one folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Versions that are looked through.
const VERSIONS_MAX: usize = 64;
/// Signs of what a tool says when it fails.
const SAID_MAX: usize = 400;

/// What the tools would take from whoever started us: another place, another user, other settings.
const FOREIGN: [&str; 45] = [
    "PGHOST",
    "PGHOSTADDR",
    "PGPORT",
    "PGDATABASE",
    "PGUSER",
    "PGPASSWORD",
    "PGPASSFILE",
    "PGREQUIREAUTH",
    "PGCHANNELBINDING",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGOPTIONS",
    "PGAPPNAME",
    "PGSSLMODE",
    "PGREQUIRESSL",
    "PGSSLNEGOTIATION",
    "PGSSLCOMPRESSION",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGSSLCERTMODE",
    "PGSSLROOTCERT",
    "PGSSLCRL",
    "PGSSLCRLDIR",
    "PGSSLSNI",
    "PGSSLMINPROTOCOLVERSION",
    "PGSSLMAXPROTOCOLVERSION",
    "PGSSLKEYLOGFILE",
    "PGREQUIREPEER",
    "PGGSSENCMODE",
    "PGGSSDELEGATION",
    "PGGSSLIB",
    "PGKRBSRVNAME",
    "PGCONNECT_TIMEOUT",
    "PGCLIENTENCODING",
    "PGTARGETSESSIONATTRS",
    "PGLOADBALANCEHOSTS",
    "PGMINPROTOCOLVERSION",
    "PGMAXPROTOCOLVERSION",
    "PGDATESTYLE",
    "PGTZ",
    "PGGEQO",
    "PGSYSCONFDIR",
    "PGLOCALEDIR",
    "PGOAUTHDEBUG",
    "PG_COLOR",
];

/// Runs a tool, and gives what it printed.
pub(super) async fn run(
    tool: &'static str,
    address: &Address,
    arguments: &[OsString],
) -> Result<String, Error> {
    let mut candidates = vec![PathBuf::from(tool)];
    candidates.extend(installed().into_iter().map(|folder| folder.join(tool)));
    for candidate in candidates {
        let mut command = Command::new(&candidate);
        command.args(arguments).kill_on_drop(true);
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.envs(address.environment());
        match command.output().await {
            Ok(output) if output.status.success() => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Ok(output) => return Err(Error::Tool(tool, said(&output))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::Io(candidate, error)),
        }
    }
    Err(Error::NoTool(tool))
}

/// Folders of tools, the newest version first.
fn installed() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(VERSIONS) else { return vec![] };
    let version = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let paths = entries.take(VERSIONS_MAX).flatten().map(|entry| entry.path());
    let mut versions: Vec<_> = paths.filter_map(|path| Some((version(&path)?, path))).collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, path)| path.join("bin")).collect()
}

/// What a tool said when it failed, on one line.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty());
    line.collect::<Vec<_>>().join("; ").chars().take(SAID_MAX).collect()
}
