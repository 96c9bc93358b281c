//! Chance is minted at the edge and passed in: nonces and secrets come from here and nowhere else.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_domain::ids::Nonce;

/// A source of bytes that nobody can foresee.
pub trait Chance: Send + Sync {
    /// Overwrites all of `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// Mints the nonce of a lease.
#[must_use]
pub fn nonce(chance: &dyn Chance) -> Nonce {
    let mut bytes = [0; 16];
    chance.fill(&mut bytes);
    Nonce(u128::from_be_bytes(bytes))
}

/// The entropy of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn fill(&self, bytes: &mut [u8]) {
        // Without entropy every secret would be a guess: there is nothing to go on with.
        getrandom::fill(bytes).expect("the system has entropy");
    }
}

/// The odd constant nearest to 2^64 divided by the golden ratio; it spreads successive counts.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Chance that a seed repeats: for tests and simulations, never for secrets that must hold.
#[derive(Debug)]
pub struct SeededChance(AtomicU64);

impl SeededChance {
    /// Starts the sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Chance for SeededChance {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_be_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests;
