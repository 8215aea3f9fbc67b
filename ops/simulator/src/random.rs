//! The only source of chance: one small generator, seeded.

/// xoshiro256**, seeded by SplitMix64: the same numbers on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of a seed and a purpose, so that one part's draws do not shift another's.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut at = seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95);
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = at;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
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

    /// A number in `0.0 .. 1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An index below `count`, which is not 0.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// Exponentially distributed with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Normally distributed, mean 0, deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts the items in a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_they_should() {
        let mut random = Random::new(1, 2);
        let count = 100_000;
        let mean = (0..count).map(|_| random.exponential(3.0)).sum::<f64>() / f64::from(count);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let square = (0..count).map(|_| random.normal().powi(2)).sum::<f64>() / f64::from(count);
        assert!((square - 1.0).abs() < 0.03, "{square}");
        assert_ne!(Random::new(1, 2).next(), Random::new(1, 3).next());
        assert_eq!(Random::new(7, 2).next(), Random::new(7, 2).next());
    }
}
