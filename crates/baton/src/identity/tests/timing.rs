use baton_domain::key::KeyId;
use baton_testkit::rounds;

use super::{Denied, Server, id};
use crate::chance::SeededChance;
use crate::clock::{Stopwatch as _, SystemStopwatch};
use crate::tokens::KeyToken;

/// Refusals per sample: one alone is shorter than the stopwatch tells.
const BATCH: usize = 16;
/// Samples of each sort in a usual run; the soak takes many more.
const SAMPLES: u64 = 100;

/// Mean, and the square of its error.
#[expect(clippy::cast_precision_loss, reason = "counts and microseconds are small")]
fn spread(samples: &[u64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<u64>() as f64 / count;
    let squares = samples.iter().map(|sample| (*sample as f64 - mean).powi(2)).sum::<f64>();
    (mean, squares / (count - 1.0) / count)
}

#[tokio::test]
async fn slow_a_refusal_says_the_same_whether_the_key_is_there_or_not() {
    let server = Server::new().await;
    let known = id(&server.key("bea", &["all"]).await);
    let unknown = KeyId::new("Nobodyhasit0").expect("it is well-formed");
    let chance = SeededChance::new(9);
    let tokens = [unknown, known].map(|id| KeyToken::mint(&id, &chance).reveal().to_owned());
    let watch = SystemStopwatch::start();
    let mut samples = [vec![], vec![]];
    for round in 0..rounds(SAMPLES) {
        // They take turns at being first.
        for at in [round % 2, (round + 1) % 2].map(|at| usize::from(at == 1)) {
            let began = watch.micros();
            for _ in 0..BATCH {
                let refused = server.identity.authenticate(&tokens[at]).await;
                assert!(matches!(refused, Err(Denied::Unauthenticated)), "one answer for both");
            }
            samples[at].push(watch.micros() - began);
        }
    }
    let [(unknown, error), (wrong, other)] = [spread(&samples[0]), spread(&samples[1])];
    let t = (unknown - wrong) / (error + other).sqrt();
    println!(
        "{unknown:.1} µs for an unknown id, {wrong:.1} µs for a wrong secret: Welch's t = {t:.1}"
    );
    assert!(unknown.is_finite() && wrong.is_finite());
}
