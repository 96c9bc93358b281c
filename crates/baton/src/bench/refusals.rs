//! Whether the time of a refusal tells what is wrong with a key.

use std::path::Path;
use std::sync::Arc;

use baton_domain::ids::{KeyName, PrincipalId};
use baton_domain::key::{KeyId, Kind};
use baton_domain::text::{Reason, Text};
use baton_domain::time::Millis;
use baton_store::Error;

use super::Failure;
use super::table::Table;
use crate::chance::SystemChance;
use crate::clock::Stopwatch;
use crate::home;
use crate::identity::{How, Identity, KeyWish};
use crate::operations;
use crate::tokens::KeyToken;

/// Refusals per sample: one alone is shorter than the stopwatch tells.
const BATCH: usize = 16;
/// Samples of each sort, so that a difference of a hundredth shows.
const SAMPLES: usize = 2_000;
/// Above this a difference is no accident, and would be a way to tell keys apart.
const WELCH_T_MAX: f64 = 4.5;

/// Measures refusals of every sort, by turns, and prints how far their means are apart.
pub(super) async fn run(
    folder: &Path,
    watch: &Arc<dyn Stopwatch>,
    table: &mut Table<'_>,
) -> Result<(), Failure> {
    let engine = Arc::new(home::open(folder, None, Arc::new(SystemChance))?);
    let identity = Identity::new(engine, Arc::new(SystemChance), operations::scopes());
    let identity = Arc::new(identity);
    let shown = keys(&identity).await?;
    let mut samples = vec![Vec::with_capacity(SAMPLES); shown.len()];
    for round in 0..SAMPLES {
        // They take turns at being first.
        for turn in 0..shown.len() {
            let at = (round + turn) % shown.len();
            let began = watch.micros();
            for _ in 0..BATCH {
                if identity.authenticate(&shown[at].1).await.is_ok() {
                    return Err(Failure::Loop(format!("{} was let in", shown[at].0)));
                }
            }
            samples[at].push(watch.micros() - began);
        }
    }
    let (first, error) = spread(&samples[0]);
    for ((what, _), samples) in shown.iter().zip(&samples) {
        let (mean, other) = spread(samples);
        let t = (mean - first) / (error + other).sqrt();
        let told = if t.abs() < WELCH_T_MAX { "" } else { "  (tells it apart)" };
        let each = mean / BATCH as f64;
        table
            .line(&format!("refused: {what}"), &format!("{each:.2} µs, Welch's t {t:.1}{told}"))?;
    }
    Ok(())
}

/// Keys that are refused, each for another reason; the first is what the others are compared with.
async fn keys(identity: &Arc<Identity>) -> Result<Vec<(&'static str, String)>, Error> {
    let owner = identity.local_owner();
    let mut made = vec![];
    for (name, lifetime) in [("known", None), ("revoked", None), ("expired", Some(Millis(1)))] {
        let wish = KeyWish {
            name: KeyName::new(name)?,
            principal: PrincipalId::new(name)?,
            kind: Kind::Agent,
            scopes: vec!["all".into()],
            lifetime,
        };
        let key = identity.create(&owner, how()?, wish).await?;
        let token = key.token.ok_or_else(|| Error::Internal("a new key has a secret".into()))?;
        made.push((key.row.key.id, token.reveal().to_owned()));
    }
    let reason = Reason::new("reason", "measured")?;
    identity.revoke(&owner, how()?, &made[1].0, reason).await?;
    let other = |id: &KeyId| KeyToken::mint(id, &SystemChance).reveal().to_owned();
    let nobody = KeyId::new("nobodyhasit0")?;
    Ok(vec![
        ("an id that nobody has", other(&nobody)),
        ("another id that nobody has", other(&KeyId::new("Nobodyhasit1")?)),
        ("a wrong secret", other(&made[0].0)),
        ("a revoked key", made[1].1.clone()),
        ("an expired key", made[2].1.clone()),
    ])
}

fn how() -> Result<How, Error> {
    Ok(How { origin: Text::new("origin", "bench")?, trace: None, request: None })
}

/// Mean, and the square of its error.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn spread(samples: &[u64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<u64>() as f64 / count;
    let squares = samples.iter().map(|sample| (*sample as f64 - mean).powi(2)).sum::<f64>();
    (mean, squares / (count - 1.0) / count)
}
