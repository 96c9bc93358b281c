use super::{Chance, SeededChance, SystemChance, nonce};

#[test]
fn equal_seeds_repeat_and_others_do_not() {
    let draw = |seed| {
        let chance = SeededChance::new(seed);
        (nonce(&chance), nonce(&chance))
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    assert_ne!(draw(7).0, draw(7).1);
}

#[test]
fn every_byte_is_filled_whatever_the_length() {
    for length in 0..40 {
        let mut seen = vec![false; length];
        for _ in 0..64 {
            let mut bytes = vec![0; length];
            SystemChance.fill(&mut bytes);
            for (seen, byte) in seen.iter_mut().zip(&bytes) {
                *seen |= *byte != 0;
            }
        }
        assert!(seen.iter().all(|seen| *seen), "length {length}");
    }
}
