//! The random numbers of the workloads: small, seeded, equal on every machine.

/// A SplitMix64: a deterministic stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(bound) * (self.bits() >> 32)) >> 32) as u32
    }

    /// A number in `-limit..limit`.
    pub fn within(&mut self, limit: f32) -> f32 {
        // 24 bits: every step is exact in f32.
        let unit = (self.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
        unit * limit
    }

    /// `count` numbers in `-limit..limit`.
    pub fn vector(&mut self, count: usize, limit: f32) -> Vec<f32> {
        (0..count).map(|_| self.within(limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = SplitMix64::new(3);
        let (mut low, mut high) = (f32::MAX, f32::MIN);
        for _ in 0..10_000 {
            let value = random.within(0.5);
            low = low.min(value);
            high = high.max(value);
            assert!(random.below(7) < 7);
        }
        assert!(
            (-0.5..-0.49).contains(&low) && (0.49..0.5).contains(&high),
            "{low} {high}"
        );
        assert_eq!(random.below(0), 0);
    }
}
