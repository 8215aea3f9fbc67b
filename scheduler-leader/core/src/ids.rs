//! Maps by id. A leader counts ids or a worker draws them at random; a tenant never chooses them.
//! So no tenant can make ids collide on purpose, and one multiplication spreads them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by id. A caller that needs the order of the ids sorts them.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// An odd number with evenly spread bits: that of the golden ratio.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15;

/// Hashes one 64-bit id.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, id: u64) {
        let product = u128::from(self.0 ^ id) * SPREAD;
        // The table looks at the lowest and the highest bits: both must depend on the whole id.
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;

    /// The most ids that share one place, with as many places as ids.
    fn fullest(ids: impl Iterator<Item = u64>, shift: u32) -> usize {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        let mut places = BTreeMap::new();
        for id in ids {
            *places
                .entry((hasher.hash_one(id) >> shift) % 4_096)
                .or_insert(0) += 1;
        }
        places.into_values().max().unwrap_or(0)
    }

    #[test]
    fn counted_ids_are_spread() {
        for shift in [0, 52] {
            for epoch in [1, 7, 1 << 30] {
                let ids = (0..4_096).map(|count| epoch << 24 | count);
                assert!(fullest(ids, shift) <= 9, "epoch {epoch}, bits from {shift}");
            }
            let high = (0..4_096).map(|count: u64| count << 48);
            assert!(fullest(high, shift) <= 9, "bits from {shift}");
        }
    }
}
