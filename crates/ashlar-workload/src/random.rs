//! Random numbers for inputs: the same in every run.

/// Random numbers: the same from the same seed, on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Numbers from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number (xorshift64*).
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which is below 2^32.
    #[inline]
    pub fn below(&mut self, end: usize) -> usize {
        (((self.draw() >> 32) * end as u64) >> 32) as usize
    }

    /// A size from `low` to `high`; small ones are frequent: each doubling is as likely as the one
    /// before.
    #[inline]
    pub fn skewed(&mut self, low: usize, high: usize) -> usize {
        let doublings = (high / low).ilog2() as usize + 1;
        let base = low << self.below(doublings);
        (base + self.below(base)).min(high)
    }

    /// A size from `low` to `high`, falling off linearly: sizes near `low` are the most frequent.
    #[inline]
    pub fn falling(&mut self, low: usize, high: usize) -> usize {
        let span = high - low + 1;
        low + self.below(span).min(self.below(span))
    }

    /// A size from `low` to `high`; the probability of a size falls with its square, so about half
    /// are below twice `low`. `low * (high + 1)` must be below 2^32.
    #[inline]
    pub fn inverse_square(&mut self, low: usize, high: usize) -> usize {
        // 1 / (1/low - part * (1/low - 1/end)) with `part` in [0, 1), in integers, so that every
        // machine has the same sizes. It stays below `end`.
        let (low, end) = (low as u64, high as u64 + 1);
        let part = (self.draw() >> 32) * (end - low);
        (((low * end) << 32) / ((end << 32) - part)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_sizes_stay_in_their_range() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            assert!((16..=1000).contains(&rng.skewed(16, 1000)));
            assert!((8..=16_000).contains(&rng.falling(8, 16_000)));
            assert!(rng.below(7) < 7);
        }
    }

    #[test]
    fn sizes_of_an_inverse_square_halve_in_number_with_each_doubling() {
        let mut rng = Rng::new(1);
        let sizes: Vec<usize> = (0..100_000).map(|_| rng.inverse_square(8, 1000)).collect();
        assert!(sizes.iter().all(|size| (8..=1000).contains(size)));
        for (least, expected) in [(16, 0.496), (32, 0.244), (256, 0.0234)] {
            let found = sizes.iter().filter(|&&size| size >= least).count() as f64 / 1e5;
            assert!((found / expected - 1.0).abs() < 0.1, "{found} have {least} or more, expected {expected}");
        }
    }
}
