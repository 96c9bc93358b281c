//! The bench: what the engine does in a second, beside what the same rows cost without it, on the
//! same disk and in the same run. Ratios are what counts; the figures are this machine's.

mod agents;
mod empty;
mod http;
mod load;
mod pages;
mod postgres;
mod refusals;
mod secrets;
mod table;
mod wire;

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use baton_store::sqlite::bare::{Bare, Finds};
use baton_store::sqlite::{OpenError, Options};

use crate::chance::{Chance, SystemChance};
use crate::clock::{Stopwatch, SystemStopwatch};
use crate::home;

use load::Load;
use table::Table;

pub use agents::run as run_agents;
pub use empty::serve as serve_nothing;
pub use postgres::run as run_on_postgres;

/// Orders per commit of the bare loops.
const BATCH: u64 = 100;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many callers at once.
    pub callers: Vec<u64>,
    /// Claim-and-complete cycles per measurement.
    pub cycles: u64,
    /// How many finished tasks to measure beside.
    pub finished: Vec<u64>,
}

/// Why the bench stopped.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The temporary folder failed.
    #[error("the bench needs a temporary folder: {0}")]
    Folder(#[from] io::Error),
    /// The store could not be opened.
    #[error(transparent)]
    Home(#[from] home::Error),
    /// The bare loop could not be opened.
    #[error(transparent)]
    Bare(#[from] OpenError),
    /// The bare loop failed.
    #[error("the bare loop failed: {0}")]
    Loop(String),
    /// The hand-written queue failed.
    #[error(transparent)]
    Yardstick(#[from] baton_store::postgres::bare::Failed),
    /// Somebody keeps something there.
    #[error("the database is not empty, and a bench writes a great deal: name one that is")]
    InUse,
    /// An order was not carried out.
    #[error(transparent)]
    Order(#[from] baton_store::Error),
}

/// Measures everything and prints one table.
pub async fn run(plan: &Plan, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let watch: Arc<dyn Stopwatch> = Arc::new(SystemStopwatch::start());
    let mut table = Table::new(out);
    let sync = fsync_micros(folder.path(), watch.as_ref())?;
    table.title(&format!("SQLite, synchronous=FULL; one fdatasync here: {sync} µs"))?;

    secrets::run(watch.as_ref(), &mut table)?;
    let bare = bare(folder.path(), plan.cycles, watch.as_ref(), &mut table)?;
    let load = Load::open(&folder.path().join("home"), Arc::clone(&watch)).await?;
    probe(&folder.path().join("empty"), "empty", &mut table).await?;
    let mut engine = vec![];
    for callers in &plan.callers {
        load.create(plan.cycles, 64).await?;
        let (rate, times) = load.cycle(plan.cycles, *callers).await?;
        let name = format!("engine, claim and complete, {callers} callers");
        table.rate(&name, rate, Some(bare), Some(&times))?;
        engine.push((*callers, rate));
    }
    let http = (plan.callers.as_slice(), plan.cycles / 4);
    http::run(http, &engine, &watch, &folder.path().join("served"), &mut table).await?;
    let (rate, times) = load.renew(plan.cycles, 64).await?;
    table.rate("engine, renewals, 64 callers", rate, None, Some(&times))?;
    let times = load.pick_up(2_000).await?;
    table.times("engine, from adding a task to a waiting claimer holding it", &times)?;
    refusals::run(&folder.path().join("keys"), &watch, &mut table).await?;
    grow(plan, &load, &mut table).await?;
    let place = load.close();
    probe(&place, "with all of the above finished", &mut table).await?;
    pages::run(&place, &watch, &mut table).await
}

/// The same at growing numbers of finished tasks.
async fn grow(plan: &Plan, load: &Load, table: &mut Table<'_>) -> Result<(), Failure> {
    let mut first = None;
    for finished in &plan.finished {
        let missing = finished.saturating_sub(load.finished().await?);
        load.create(missing, 64).await?;
        load.cycle(missing, 64).await?;
        load.create(plan.cycles, 64).await?;
        let (rate, times) = load.cycle(plan.cycles, 64).await?;
        let name = format!("engine, 64 callers, beside {finished} finished");
        table.rate(&name, rate, first, Some(&times))?;
        first = first.or(Some(rate));
    }
    Ok(())
}

/// The yardsticks: the rows alone, and the rows found by a query.
fn bare(
    folder: &Path,
    cycles: u64,
    watch: &dyn Stopwatch,
    table: &mut Table<'_>,
) -> Result<f64, Failure> {
    let mut rates = vec![];
    for (finds, name) in [
        (Finds::ByNumber, "bare rows, group commit, batches of 100"),
        (Finds::ByQuery, "bare loop that claims by query, batches of 100"),
    ] {
        let place = folder.join(format!("{finds:?}"));
        std::fs::create_dir(&place)?;
        let fill = Box::new(|bytes: &mut [u8]| SystemChance.fill(bytes));
        let options = Options::new(baton_domain::decide, fill, &place);
        let mut bare = Bare::open(&place, options)?;
        let broken = |error: &dyn std::fmt::Display| Failure::Loop(error.to_string());
        bare.create(cycles, BATCH).map_err(|error| broken(&error))?;
        let began = watch.micros();
        bare.cycle(cycles, BATCH, finds).map_err(|error| broken(&error))?;
        let rate = table::per_second(cycles, watch.micros() - began);
        table.rate(name, rate, rates.first().copied(), None)?;
        rates.push(rate);
    }
    Ok(rates[1])
}

/// What one small durable write costs on this disk.
fn fsync_micros(folder: &Path, watch: &dyn Stopwatch) -> io::Result<u64> {
    const TRIES: u64 = 200;
    let mut file = std::fs::File::create(folder.join("sync"))?;
    let began = watch.micros();
    for _ in 0..TRIES {
        file.write_all(&[7; 256])?;
        file.sync_data()?;
    }
    Ok((watch.micros() - began) / TRIES)
}

/// Opens a folder in a process of its own: how long until it is ready, and how much it holds.
async fn probe(folder: &Path, name: &str, table: &mut Table<'_>) -> Result<(), Failure> {
    let this = std::env::current_exe()?;
    let told = Command::new(this).arg("bench").arg("--probe").arg(folder).output()?;
    if !told.status.success() {
        return Err(Failure::Loop(String::from_utf8_lossy(&told.stderr).into_owned()));
    }
    let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    Ok(table.line(&format!("fresh process, {name}"), &told)?)
}

/// The other side of the probe.
pub async fn answer_probe(folder: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let watch = SystemStopwatch::start();
    let engine = home::open(folder, None, Arc::new(SystemChance))?;
    let health = engine.health().await;
    let ready = watch.micros();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss = rss.and_then(|rss| rss.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let megabytes = rss.map_or("unknown".into(), |kilobytes| format!("{} MB", kilobytes / 1_024));
    writeln!(out, "ready in {} ms, RSS {megabytes}", ready / 1_000)?;
    drop(health);
    Ok(())
}
