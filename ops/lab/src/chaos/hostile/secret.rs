//! The secret of the neighbour: bytes, and the key under which they are exported. All of it follows from a
//! seed, so the hostile tenant can guess it, and each reader can recognise it.

use bus_schemas::ExportKey;
use workloads::SplitMix64;

/// Bytes of the secret: two of the chunks in which a copy is offered.
pub(in crate::chaos) const BYTES: usize = 2 << 20;
/// Bytes of a chunk.
const CHUNK: usize = 1 << 20;
/// Bytes of the mark by which the secret is recognised.
const MARK: usize = 16;
/// Interval of the mark in bytes: any piece of twice this length contains it.
const EVERY: usize = 64;

/// The secret of a seed.
#[derive(Debug, Clone)]
pub(in crate::chaos) struct Secret {
    /// Its bytes.
    pub(in crate::chaos) bytes: Vec<u8>,
    /// The key under which it is exported.
    pub(in crate::chaos) key: ExportKey,
    mark: [u8; MARK],
}

impl Secret {
    /// Makes the secret of a seed.
    pub(in crate::chaos) fn of(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x5ec2);
        let mut mark = [0; MARK];
        for half in mark.chunks_exact_mut(8) {
            half.copy_from_slice(&random.bits().to_le_bytes());
        }
        let key = ExportKey([random.bits(), random.bits()]);
        let mut bytes: Vec<u8> = (0..BYTES / 8)
            .flat_map(|_| random.bits().to_le_bytes())
            .collect();
        for block in bytes.chunks_exact_mut(EVERY) {
            block[..MARK].copy_from_slice(&mark);
        }
        Self { bytes, key, mark }
    }

    /// The hashes of its chunks, concatenated.
    pub(super) fn hashes(&self) -> Vec<u8> {
        let chunks = self.bytes.chunks(CHUNK);
        chunks
            .flat_map(|chunk| *blake3::hash(chunk).as_bytes())
            .collect()
    }

    /// True if the bytes contain a part of the secret.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(MARK).any(|window| window == self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_recognised_by_any_piece_of_it_and_only_by_these() {
        let (one, other) = (Secret::of(1), Secret::of(2));
        assert_eq!(one.bytes.len(), BYTES);
        assert_eq!(one.hashes().len(), 2 * 32);
        assert_eq!(one.bytes, Secret::of(1).bytes);
        for from in [0, 1, 63, 1_000] {
            assert!(one.is_in(&one.bytes[from..from + 2 * EVERY]));
        }
        assert!(!one.is_in(&other.bytes[..1 << 16]));
        assert!(!one.is_in(b"short"));
        assert_ne!(one.key, other.key);
    }
}
