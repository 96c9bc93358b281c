//! Chance that a seed repeats: a counter run through a mixing function (splitmix64).

/// The odd constant nearest to 2^64 divided by the golden ratio; it spreads successive counts.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A source of chance; equal seeds give equal sequences on every machine.
#[derive(Clone, Debug)]
pub struct Chance {
    count: u64,
}

impl Chance {
    /// Starts the sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { count: seed }
    }

    /// Draws any number.
    pub fn next_u64(&mut self) -> u64 {
        self.count = self.count.wrapping_add(STEP);
        let mut mixed = self.count;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number from `0..n`; `n` must not be zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing lies below zero");
        // The high half of the product is even enough: the bias is below n in 2^64.
        let product = u128::from(self.next_u64()) * u128::from(n);
        u64::try_from(product >> 64).expect("a product of 128 bits has a high half of 64")
    }

    /// Draws an index into something of length `len`, which must not be zero.
    pub fn index(&mut self, len: usize) -> usize {
        let drawn = self.below(u64::try_from(len).expect("a length fits 64 bits"));
        usize::try_from(drawn).expect("what is below a length is an index")
    }

    /// Says yes with probability `p`, which lies between 0 and 1.
    pub fn chance(&mut self, p: f64) -> bool {
        let bits = u32::try_from(self.next_u64() >> 32).expect("the high half has 32 bits");
        f64::from(bits) < p * (f64::from(u32::MAX) + 1.0)
    }

    /// Picks one of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Splits off an independent source, so that one part's draws do not shift another's.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        // The seed is mixed once more: a child that merely continued the count would repeat us.
        let mut child = Self::new(self.next_u64() ^ STEP.rotate_left(32));
        Self::new(child.next_u64())
    }
}

#[cfg(test)]
mod tests;
