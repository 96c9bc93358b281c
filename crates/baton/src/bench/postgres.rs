//! The same on Postgres: the engine beside a hand-written queue that `pgbench` drives, in the same
//! database and in the same run, one by one and in batches of ten.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use baton_store::postgres::bare::{Bare, IN_TENS, ONE_BY_ONE};

use super::load::{Load, tenant};
use super::table::Table;
use super::{Failure, Plan};
use crate::clock::{Stopwatch, SystemStopwatch};

/// Callers beside growing numbers of finished tasks: where the bars are set.
const GROWING: u64 = 16;

/// What the script does at once, in its second form.
const TEN: u64 = 10;

/// Measures everything in an empty database and prints one table.
pub async fn run(plan: &Plan, url: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let watch: Arc<dyn Stopwatch> = Arc::new(SystemStopwatch::start());
    let bare = Bare::open(url).await?;
    if !bare.is_empty().await? {
        return Err(Failure::InUse);
    }
    bare.lay_out(1).await?;
    let mut table = Table::new(out);
    let commit = commit_micros(&bare, watch.as_ref()).await?;
    table.title(&format!("{}; one commit here: {commit} µs", bare.about().await?))?;
    let load = Load::on_database(url, &folder.path().join("home"), Arc::clone(&watch)).await?;
    for callers in &plan.callers {
        beside(plan, *callers, (&bare, url, folder.path()), &load, &mut table).await?;
    }
    bare.clear().await?;
    let (rate, times) = load.renew(plan.cycles, 64).await?;
    table.rate("engine, renewals, 64 callers", rate, None, Some(&times))?;
    let times = load.pick_up(2_000).await?;
    table.times("engine, from adding a task to a waiting claimer holding it", &times)?;
    grow(plan, &bare, &load, &mut table).await
}

/// The script in both forms, then the engine, so that all three meet the same weather.
async fn beside(
    plan: &Plan,
    callers: u64,
    (bare, url, folder): (&Bare, &str, &Path),
    load: &Load,
    table: &mut Table<'_>,
) -> Result<(), Failure> {
    let mut rates = vec![];
    for (script, batch, name) in [(ONE_BY_ONE, 1, "one by one"), (IN_TENS, TEN, "in tens")] {
        // A batch that meets another's may find fewer than ten.
        bare.lay_out(plan.cycles + 2 * batch * callers).await?;
        let each = (plan.cycles / batch / callers).max(1);
        let rate = pgbench(script, url, folder, callers, each)? * batch_size(batch);
        table.rate(&format!("pgbench, claim and complete {name}, {callers} callers"), rate, None, None)?;
        rates.push(rate);
    }
    load.create(plan.cycles, 64).await?;
    bare.settle().await?;
    let (rate, times) = load.cycle(plan.cycles, callers).await?;
    let name = format!("engine, claim and complete, {callers} callers");
    table.rate(&name, rate, Some(rates[0]), Some(&times))?;
    table.rate("  the same beside the script in tens", rate, Some(rates[1]), None)?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a batch is small")]
fn batch_size(batch: u64) -> f64 {
    batch as f64
}

/// The same at growing numbers of finished tasks.
async fn grow(plan: &Plan, bare: &Bare, load: &Load, table: &mut Table<'_>) -> Result<(), Failure> {
    let mut first = None;
    for finished in &plan.finished {
        let missing = finished.saturating_sub(load.finished().await?);
        bare.finish(&tenant(), missing).await?;
        load.add_finished(missing);
        load.create(plan.cycles, 64).await?;
        bare.settle().await?;
        let (rate, times) = load.cycle(plan.cycles, GROWING).await?;
        let name = format!("engine, {GROWING} callers, beside {finished} finished");
        table.rate(&name, rate, first, Some(&times))?;
        first = first.or(Some(rate));
    }
    Ok(())
}

/// What one small commit costs from here.
async fn commit_micros(bare: &Bare, watch: &dyn Stopwatch) -> Result<u64, Failure> {
    const TRIES: u64 = 200;
    let began = watch.micros();
    for _ in 0..TRIES {
        bare.write().await?;
    }
    Ok((watch.micros() - began) / TRIES)
}

/// Has `pgbench` run a script so many times by each of so many clients; how often a second it did.
fn pgbench(script: &str, url: &str, folder: &Path, callers: u64, each: u64) -> Result<f64, Failure> {
    let path = folder.join("script.sql");
    std::fs::write(&path, script)?;
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let told = Command::new("pgbench")
        .args(["--no-vacuum", "--protocol=prepared", "--client", &callers.to_string()])
        .args(["--jobs", &threads.min(callers).to_string(), "--transactions", &each.to_string()])
        .arg("--file")
        .arg(&path)
        .arg(url)
        .output()
        .map_err(|error| Failure::Loop(format!("pgbench is needed beside the bench: {error}")))?;
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    let rate = rate.and_then(|rate| rate.parse().ok()).filter(|_| told.status.success());
    rate.ok_or_else(|| Failure::Loop(String::from_utf8_lossy(&told.stderr).into_owned()))
}
