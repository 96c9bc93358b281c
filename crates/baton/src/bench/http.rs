//! The same over HTTP: a real server in a process of its own, real connections, and beside it a
//! server that answers every POST with nothing, which is what HTTP alone costs here.
//!
//! Client and server share this machine, so a raw rate counts the client's work against the
//! server. The fair rate gives the client's processor time back: cycles per second, times the
//! whole of both processes' processor time, over the server's own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Failure;
use super::load::histogram;
use super::table::{Table, per_second};
use super::wire::Wire;
use crate::clock::Stopwatch;

/// Readers that hear nothing.
const IDLE_READERS: u64 = 900;

/// Readers that show the same key: fewer than one key may have.
const READERS_PER_KEY: u64 = 50;

/// How long the idle readers are watched: they say twice that they are there.
const WATCHED: Duration = Duration::from_secs(30);

/// A server in a process of its own.
pub(super) struct Server {
    process: Child,
    pub(super) address: String,
    bearer: String,
}

impl Server {
    pub(super) fn start(folder: &Path) -> Result<Self, Failure> {
        let socket = folder.join("run").join("baton.sock");
        let mut command = Command::new(std::env::current_exe()?);
        // One key asks for all of them here, as fast as it can.
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--key-rate", "0", "--data"]);
        command.arg(folder);
        let (process, ready) = spoken(command.arg("--socket").arg(socket))?;
        let ready: Value =
            serde_json::from_str(&ready).map_err(|error| Failure::Loop(error.to_string()))?;
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        let bearer = std::fs::read_to_string(text("key_file"))?.trim().to_owned();
        let address = text("url").trim_start_matches("http://").to_owned();
        Ok(Self { process, address, bearer })
    }

    fn start_empty() -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let (process, address) = spoken(command.args(["bench", "--empty-post"]))?;
        Ok(Self { process, address: address.trim().to_owned(), bearer: String::new() })
    }

    pub(super) async fn connect(&self) -> Result<Wire, Failure> {
        Ok(Wire::connect(&self.address, &self.bearer).await?)
    }

    /// Processor time so far, in microseconds.
    pub(super) fn cpu_micros(&self) -> u64 {
        cpu_micros(&self.process.id().to_string())
    }

    fn rss_kilobytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        rss.and_then(|rss| rss.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Starts a process and hears its first line.
pub(super) fn spoken(command: &mut Command) -> Result<(Child, String), Failure> {
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let out = process.stdout.take().ok_or_else(|| Failure::Loop("no output".into()))?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    Ok((process, line))
}

/// The processor time of a process; the kernel counts it in hundredths of a second.
fn cpu_micros(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field =
        |at: usize| after_name.split_whitespace().nth(at).and_then(|text| text.parse::<u64>().ok());
    (field(11).unwrap_or(0) + field(12).unwrap_or(0)) * 10_000
}

/// Measures everything over HTTP; `engine` is what the engine did in this run, by callers.
pub(super) async fn run(
    plan: (&[u64], u64),
    engine: &[(u64, f64)],
    watch: &Arc<dyn Stopwatch>,
    folder: &Path,
    table: &mut Table<'_>,
) -> Result<(), Failure> {
    let (connections, cycles) = plan;
    let empty = Server::start_empty()?;
    for count in connections {
        let (rate, times) = share(&empty, 4 * cycles, *count, watch, Work::Empty).await?.spread();
        table.rate(&format!("HTTP, empty POST, {count} connections"), rate, None, Some(&times))?;
    }
    drop(empty);
    let server = Server::start(folder)?;
    prepare(&server).await?;
    for count in connections {
        share(&server, cycles, 16, watch, Work::Create).await?;
        let done = share(&server, cycles, *count, watch, Work::Cycle).await?;
        let yardstick = engine.iter().find(|(callers, _)| callers == count).map(|(_, rate)| *rate);
        let name = format!("HTTP, claim and complete, {count} connections, as it is");
        table.rate(&name, done.rate, yardstick, Some(&done.times))?;
        let name = "  the same, the client's processor time given back";
        table.rate(name, done.rate * done.fairness(), yardstick, None)?;
    }
    for count in connections {
        // The same operation in one run: what the agents' protocol costs beside REST.
        let rest = share(&server, cycles, *count, watch, Work::Create).await?;
        let name = format!("HTTP, create a task, {count} connections");
        table.rate(&name, rest.rate, None, Some(&rest.times))?;
        let tool = share(&server, cycles, *count, watch, Work::Tool).await?;
        let name = format!("MCP, the tool task_create, {count} connections");
        table.rate(&name, tool.rate, Some(rest.rate), Some(&tool.times))?;
    }
    table.line("HTTP, RSS of the server", &format!("{} MB", server.rss_kilobytes() / 1_024))?;
    idle_readers(&server, table).await
}

pub(super) async fn prepare(server: &Server) -> Result<String, Failure> {
    let body = json!({ "stages": [{ "name": "coding" }] });
    let mut wire = server.connect().await?;
    let key = format!("project-{}", wire.number());
    let answer = wire.ask("PUT", "/v1/projects/bench", &key, None, &body).await?;
    Ok(answer["as_of"].as_str().unwrap_or_default().to_owned())
}

/// A key that may read.
async fn reading_key(server: &Server, number: u64) -> Result<String, Failure> {
    let mut wire = server.connect().await?;
    let (key, name) = (format!("key-{}", wire.number()), format!("reader-{number}"));
    let body = json!({ "name": name, "principal": name, "scopes": ["read"] });
    let answer = wire.ask("POST", "/v1/keys", &key, None, &body).await?;
    Ok(answer["key"].as_str().unwrap_or_default().to_owned())
}

/// Many who listen and hear nothing: what they hold and what they cost.
async fn idle_readers(server: &Server, table: &mut Table<'_>) -> Result<(), Failure> {
    let mut bearers = vec![];
    for number in 0..IDLE_READERS.div_ceil(READERS_PER_KEY) {
        bearers.push(reading_key(server, number).await?);
    }
    // Asking for what is so changes nothing, and tells how far the events are.
    let after = prepare(server).await?;
    let before = server.rss_kilobytes();
    let mut readers = vec![];
    for bearer in bearers.iter().cycle().zip(0..IDLE_READERS).map(|(bearer, _)| bearer) {
        let wire = Wire::connect(&server.address, bearer).await?;
        readers.push(wire.listen(&after).await?);
    }
    let began = server.cpu_micros();
    sleep(WATCHED).await;
    let spent = server.cpu_micros() - began;
    let grown = server.rss_kilobytes().saturating_sub(before);
    let seconds = WATCHED.as_secs();
    let figures = format!(
        "{} MB, {}.{} % of a core",
        grown / 1_024,
        spent / seconds / 10_000,
        spent / seconds / 1_000 % 10
    );
    drop(readers);
    Ok(table.line(&format!("HTTP, {IDLE_READERS} idle readers of events"), &figures)?)
}

/// What every connection does again and again.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Empty,
    Create,
    Tool,
    Cycle,
}

/// What was measured.
pub(super) struct Measured {
    rate: f64,
    times: Histogram<u64>,
    server: u64,
    client: u64,
}

impl Measured {
    fn spread(self) -> (f64, Histogram<u64>) {
        (self.rate, self.times)
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn fairness(&self) -> f64 {
        (self.server + self.client) as f64 / self.server.max(1) as f64
    }
}

pub(super) async fn share(
    server: &Server,
    count: u64,
    connections: u64,
    watch: &Arc<dyn Stopwatch>,
    work: Work,
) -> Result<Measured, Failure> {
    let left = Arc::new(AtomicU64::new(count));
    let mut wires = vec![];
    for _ in 0..connections {
        wires.push(server.connect().await?);
    }
    let (own, theirs) = (cpu_micros("self"), server.cpu_micros());
    let began = watch.micros();
    let mut crowd = JoinSet::new();
    for wire in wires {
        crowd.spawn(one_connection(wire, Arc::clone(&left), Arc::clone(watch), work));
    }
    let mut times = histogram();
    while let Some(joined) = crowd.join_next().await {
        let own = joined.map_err(|error| Failure::Loop(error.to_string()))??;
        times.add(own).map_err(|error| Failure::Loop(error.to_string()))?;
    }
    let rate = per_second(count, watch.micros() - began);
    let (server, client) = (server.cpu_micros() - theirs, cpu_micros("self") - own);
    Ok(Measured { rate, times, server, client })
}

async fn one_connection(
    mut wire: Wire,
    left: Arc<AtomicU64>,
    watch: Arc<dyn Stopwatch>,
    work: Work,
) -> Result<Histogram<u64>, Failure> {
    let mut times = histogram();
    let take = |left: u64| left.checked_sub(1);
    while let Ok(left) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        let began = watch.micros();
        one_piece(&mut wire, work, left).await?;
        times.saturating_record(watch.micros() - began);
    }
    Ok(times)
}

/// A task to be.
fn wish() -> Value {
    json!({ "project": "bench", "title": "Something to do", "stage": "coding" })
}

async fn one_piece(wire: &mut Wire, work: Work, number: u64) -> Result<(), Failure> {
    let connection = wire.number();
    let key = |what: &str| format!("{what}-{connection}-{number}");
    match work {
        Work::Empty => {
            wire.ask("POST", "/", "none", None, &json!({})).await?;
        }
        Work::Create => {
            let key = key("create");
            wire.ask("POST", "/v1/tasks", &key, None, &wish()).await?;
        }
        Work::Tool => {
            wire.call("task_create", &key("tool"), &wish()).await?;
        }
        Work::Cycle => {
            let (claim, complete) = (key("claim"), key("complete"));
            let claimed = wire.ask("POST", "/v1/runs/claim", &claim, None, &json!({})).await?;
            let token = claimed["claim_token"].as_str().unwrap_or_default().to_owned();
            let path = "/v1/runs/mine/complete";
            wire.ask("POST", path, &complete, Some(&token), &json!({})).await?;
        }
    }
    Ok(())
}
