//! What agents cost Baton that do nothing: a real server, a real worker, and so many real agents, each
//! under a shim of its own. What the agents themselves use is not counted.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::Failure;
use super::http::spoken;
use super::table::Table;
use crate::shim::{Launch, Place};

/// An agent that says now and then that it is there, so that nobody takes it for hung.
const AGENT: &str = "while :; do echo here; sleep 30; done";
/// How long they are watched: each says something twice, and one heartbeat goes out for all.
const WATCHED: Duration = Duration::from_secs(60);
/// How long what happens at the beginning may take to be over.
const SETTLING: Duration = Duration::from_secs(10);
/// How often it is looked whether all of them run, and how many times.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOKS_MAX: u32 = 1_200;

/// A server and a worker in a folder of their own.
struct Yard {
    data: PathBuf,
    server: Child,
    worker: Child,
}

impl Drop for Yard {
    fn drop(&mut self) {
        // It stops its agents before it ends.
        if let Some(pid) = pid_of(&self.worker) {
            let _ = kill_process(pid, Signal::USR1);
        }
        drop(self.worker.wait());
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// Memory in KiB and processor time in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    kib: u64,
    micros: u64,
}

/// Measures so many agents and prints what one of them costs.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub async fn run(count: u64, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let mut table = Table::new(out);
    table.line(&format!("{count} idle agents; load of this machine: {}", load.trim()), "")?;
    let yard = Yard::open(folder.path(), count)?;
    let before = yard.of_worker();
    yard.add(count)?;
    let shims = yard.running(usize::try_from(count).unwrap_or(usize::MAX)).await?;
    sleep(SETTLING).await;
    let (worker, under, server) = (yard.of_worker(), of(&shims), yard.of_server());
    sleep(WATCHED).await;
    let (worker_then, under_then, server_then) = (yard.of_worker(), of(&shims), yard.of_server());
    let kib = |all: u64| format!("{:>8.0} KiB", all as f64 / count as f64);
    let busy = |from: Cost, to: Cost| {
        let micros = to.micros.saturating_sub(from.micros) as f64;
        format!("{:>8.4} % of a core", 100.0 * micros / WATCHED.as_micros() as f64 / count as f64)
    };
    let share = worker_then.kib.saturating_sub(before.kib);
    let figures = [
        ("shim and init, memory of their own, per agent", kib(under_then.kib)),
        ("worker, memory per agent", kib(share)),
        ("together, bar 1024 KiB", kib(under_then.kib + share)),
        ("shim and init, processor, per agent", busy(under, under_then)),
        ("worker, processor, per agent", busy(worker, worker_then)),
        ("server, processor, per agent", busy(server, server_then)),
    ];
    for (name, figure) in figures {
        table.line(name, &figure)?;
    }
    let both = |one: Cost, other: Cost| Cost { micros: one.micros + other.micros, ..one };
    let together = busy(both(worker, under), both(worker_then, under_then));
    Ok(table.line("worker and shim together, bar 0.2 %", &together)?)
}

impl Yard {
    fn open(folder: &Path, count: u64) -> Result<Self, Failure> {
        let data = folder.join("data");
        DirBuilder::new().mode(0o700).create(&data)?;
        let settings = format!(
            "slots = {count}\nmemory_floor = '0'\ndisk_floor = '0'\n\
             [agents.idle]\nprogram = 'command'\ncommand = ['/bin/sh', '-c', '{AGENT}']\n"
        );
        fs::write(data.join("worker.toml"), settings)?;
        let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--key-rate", "0"];
        let (server, _) = spoken(&mut typed(&data, &serve)?)?;
        let (worker, _) = spoken(&mut typed(&data, &["work", "--json"])?)?;
        Ok(Self { data, server, worker })
    }

    fn add(&self, count: u64) -> Result<(), Failure> {
        self.types(&["project", "add", "idle"])?;
        for _ in 0..count {
            self.types(&["add", "Nothing", "--project", "idle", "--stage", "coding"])?;
        }
        Ok(())
    }

    fn types(&self, words: &[&str]) -> Result<(), Failure> {
        let told = typed(&self.data, words)?.output()?;
        if told.status.success() {
            return Ok(());
        }
        Err(Failure::Loop(String::from_utf8_lossy(&told.stderr).into_owned()))
    }

    /// The processes that watch over agents, once all of those run.
    async fn running(&self, count: usize) -> Result<Vec<i32>, Failure> {
        let attempts = self.data.join("worker").join("attempts");
        for _ in 0..LOOKS_MAX {
            let found: Vec<Launch> = fs::read_dir(&attempts)?
                .filter_map(Result::ok)
                .filter_map(|entry| Place::at(entry.path()).launch().ok()?)
                .filter(|launch| launch.agent.is_some())
                .collect();
            if found.len() >= count {
                return Ok(found.iter().flat_map(watchers).collect());
            }
            sleep(LOOK_EVERY).await;
        }
        Err(Failure::Loop("not all of the agents began".to_owned()))
    }

    fn of_worker(&self) -> Cost {
        of(&[self.worker.id().cast_signed()])
    }

    fn of_server(&self) -> Cost {
        of(&[self.server.id().cast_signed()])
    }
}

/// The shim, and the init of the namespace if there is one.
fn watchers(launch: &Launch) -> impl Iterator<Item = i32> + use<> {
    let init = launch.root.filter(|root| Some(*root) != launch.agent);
    [launch.shim.pid].into_iter().chain(init.map(|init| init.pid))
}

/// This program with a data folder, as somebody would type it.
fn typed(data: &Path, words: &[&str]) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).env_clear().env("BATON_HOME", data);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
    Ok(command)
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().cast_signed())
}

/// What processes cost: memory of their own, where what two copies share is halved, and processor time.
fn of(pids: &[i32]) -> Cost {
    let kib = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let own = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
        own.and_then(|own| own.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    Cost { kib: pids.iter().map(kib).sum(), micros: pids.iter().map(|pid| busy_micros(*pid)).sum() }
}

/// How long a process has been on a processor. What is idle is far below the ticks that most counts are in.
fn busy_micros(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let nanos = |thread: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.filter_map(Result::ok).filter_map(nanos).sum::<u64>() / 1_000
}
