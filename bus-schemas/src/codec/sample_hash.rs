//! A hash of samples: cheap, but no proof that bytes are equal.
//!
//! Bytes with equal sample hashes are compared one by one before they are shared, so the hash need
//! only separate most of them. It is BLAKE3 over the length and 64 bytes of every page: one cache
//! line in 64, a sixty-fourth of the hashing. Crafted bytes with equal hashes and different
//! contents only cause that comparison. The line moves from page to page, so that matrix rows with
//! equal beginnings differ.

/// Sampled bytes of a page.
const SAMPLE: usize = 64;
/// Size of a page in bytes.
const PAGE: usize = 4096;

/// A fingerprint of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleHash([u8; 16]);

impl SampleHash {
    /// Returns the hash of bytes in pieces; the cuts do not matter.
    #[must_use]
    pub fn of<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        const LINES: usize = PAGE / SAMPLE;
        let (mut seen, mut at) = (Vec::with_capacity(16 << 10), 0);
        for piece in pieces {
            let end = at + piece.len();
            for page in at / PAGE..end.div_ceil(PAGE) {
                let line = page * PAGE + page * 37 % LINES * SAMPLE;
                let (from, to) = (line.max(at), (line + SAMPLE).min(end));
                let sample = piece.get(from - at..to.saturating_sub(at));
                seen.extend_from_slice(sample.unwrap_or_default());
            }
            at = end;
        }
        seen.extend_from_slice(&(at as u64).to_le_bytes());
        let hash = blake3::hash(&seen);
        let (halves, _) = hash.as_bytes().as_chunks();
        Self(halves.first().copied().unwrap_or_default())
    }

    /// Returns the first 64 bits.
    #[must_use]
    pub fn short(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_the_bytes_and_not_on_the_pieces() {
        let bytes: Vec<u8> = (0..300_000_u64).map(|i| ((i * i) >> 7) as u8).collect();
        let whole = SampleHash::of([&bytes[..]].into_iter());
        for piece in [1, 63, 64, 4_095, 4_097, 100_000] {
            assert_eq!(SampleHash::of(bytes.chunks(piece)), whole, "{piece}");
        }
        let mut other = bytes.clone();
        // A byte in the sampled line of the second page.
        other[4_096 + 37 * 64] ^= 1;
        assert_ne!(SampleHash::of([&other[..]].into_iter()), whole);
        assert_ne!(
            SampleHash::of([&bytes[..bytes.len() - 1]].into_iter()),
            whole
        );
    }
}
