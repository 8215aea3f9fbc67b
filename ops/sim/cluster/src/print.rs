//! Fingerprints, which distinguish bytes and histories in few bits.

/// Applies a step of a 64-bit mixing function.
#[must_use]
pub fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

/// A fingerprint of bytes.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut state = mix(bytes.len() as u64 ^ 0x5bd1_e995);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(word));
    }
    state
}
