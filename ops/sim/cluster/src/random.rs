//! The only source of randomness: one small generator, seeded.

/// xoshiro256**, seeded by SplitMix64: the same numbers on every machine and in every version.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Makes the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = at;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// Makes the generator of a seed and a purpose, so that one part's draws do not shift another's.
    #[must_use]
    pub fn of(seed: u64, purpose: u64) -> Self {
        Self::new(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Makes a separate generator, so that one part's draws do not shift another's.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.draw())
    }

    /// Draws 64 random bits.
    pub fn draw(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// Draws a number in `low ..= high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high, "an empty range has no number");
        let span = high - low;
        if span == u64::MAX {
            return self.draw();
        }
        let wide = u128::from(self.draw()) * u128::from(span + 1);
        low + (wide >> 64) as u64
    }

    /// Draws an index below `count`, which is not 0.
    pub fn index(&mut self, count: usize) -> usize {
        self.between(0, count as u64 - 1) as usize
    }

    /// Returns true `permille` times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        permille > 0 && self.between(1, 1000) <= permille
    }

    /// Draws a number in `0.0 .. 1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws an exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Draws a normally distributed number, with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts the items in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Picks one of the items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.index(items.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_is_pinned() {
        let mut random = Random::new(1);
        let first: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        let mut again = Random::new(1);
        assert_eq!(first, (0..3).map(|_| again.draw()).collect::<Vec<_>>());
        // Seeds printed by one version replay in the next only while this holds.
        assert_eq!(first[0], 0xb3f2_af6d_0fc7_10c5);
    }

    #[test]
    fn ranges_are_inclusive_and_hit_both_ends() {
        let mut random = Random::new(7);
        let drawn: std::collections::BTreeSet<u64> =
            (0..200).map(|_| random.between(3, 6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!((0..100).all(|_| !random.chance(0)));
        assert!((0..100).all(|_| random.chance(1000)));
    }

    #[test]
    fn draws_have_the_mean_they_should() {
        let mut random = Random::of(1, 2);
        let count = 100_000;
        let mean = (0..count).map(|_| random.exponential(3.0)).sum::<f64>() / f64::from(count);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let square = (0..count).map(|_| random.normal().powi(2)).sum::<f64>() / f64::from(count);
        assert!((square - 1.0).abs() < 0.03, "{square}");
        assert_ne!(Random::of(1, 2).draw(), Random::of(1, 3).draw());
        assert_eq!(Random::of(7, 2).draw(), Random::of(7, 2).draw());
    }
}
