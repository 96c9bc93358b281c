//! How long the link waits.

use std::time::Duration;

use super::{AGAIN_MAX, pause};
use crate::chance::SeededChance;

#[test]
fn waits_double_up_to_a_minute_and_differ_by_at_most_a_fifth() {
    let chance = SeededChance::new(1);
    for (tries, plain) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60)] {
        let plain = Duration::from_secs(plain);
        let waits: Vec<_> = (0..200).map(|_| pause(tries, &chance)).collect();
        let least = waits.iter().min().expect("there are some");
        let most = waits.iter().max().expect("there are some");
        assert!(*least >= plain * 4 / 5 && *most <= plain * 6 / 5 + Duration::from_millis(300));
        assert!(*most - *least > plain / 4, "a fleet is spread");
        assert!(*most <= AGAIN_MAX * 6 / 5);
    }
}
