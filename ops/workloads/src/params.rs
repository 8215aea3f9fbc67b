//! The packed parameters of a kernel.

/// Maximum size of the parameters of one launch, in bytes.
const CAPACITY: usize = 256;

/// The parameter block of one launch, built without allocation. Every value has its natural
/// alignment, in the order of the kernel's declaration.
///
/// ```
/// let params = workloads::Params::new().u32(3).f32(1.0).address(0x1000_0000_0000);
/// assert_eq!(params.bytes().len(), 16);
/// let params = workloads::Params::new().u32(3).address(0x1000_0000_0000);
/// assert_eq!(&params.bytes()[..8], &[3, 0, 0, 0, 0, 0, 0, 0]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Params {
    bytes: [u8; CAPACITY],
    used: usize,
}

impl Default for Params {
    fn default() -> Self {
        Self::new()
    }
}

impl Params {
    /// An empty parameter block.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; CAPACITY],
            used: 0,
        }
    }

    /// The bytes packed so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Appends a value of N bytes, aligned to N.
    ///
    /// # Panics
    /// If the block would exceed 256 bytes; no kernel of this crate comes near that.
    #[must_use]
    #[inline]
    fn push<const N: usize>(mut self, value: [u8; N]) -> Self {
        let start = self.used.next_multiple_of(N);
        self.bytes[start..start + N].copy_from_slice(&value);
        self.used = start + N;
        self
    }

    /// Appends a 32-bit unsigned integer.
    #[must_use]
    #[inline]
    pub fn u32(self, value: u32) -> Self {
        self.push(value.to_le_bytes())
    }

    /// Appends a 32-bit signed integer.
    #[must_use]
    #[inline]
    pub fn i32(self, value: i32) -> Self {
        self.push(value.to_le_bytes())
    }

    /// Appends a 64-bit unsigned integer.
    #[must_use]
    #[inline]
    pub fn u64(self, value: u64) -> Self {
        self.push(value.to_le_bytes())
    }

    /// Appends a single-precision number.
    #[must_use]
    #[inline]
    pub fn f32(self, value: f32) -> Self {
        self.push(value.to_le_bytes())
    }

    /// Appends a double-precision number.
    #[must_use]
    #[inline]
    pub fn f64(self, value: f64) -> Self {
        self.push(value.to_le_bytes())
    }

    /// Appends a device address.
    #[must_use]
    #[inline]
    pub fn address(self, value: u64) -> Self {
        self.push(value.to_le_bytes())
    }

    /// Appends a count that the kernel takes as a 32-bit unsigned integer.
    ///
    /// # Panics
    /// If `value` exceeds 32 bits.
    #[must_use]
    #[inline]
    pub fn count(self, value: usize) -> Self {
        self.u32(u32::try_from(value).expect("a count of the workloads fits 32 bits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_at_their_natural_alignment() {
        let params = Params::new().u32(1).u64(2).f32(0.5).i32(-1).u32(7).f64(1.5);
        let mut expected = Vec::new();
        expected.extend(1u32.to_le_bytes());
        expected.extend([0; 4]);
        expected.extend(2u64.to_le_bytes());
        expected.extend(0.5f32.to_le_bytes());
        expected.extend((-1i32).to_le_bytes());
        expected.extend(7u32.to_le_bytes());
        expected.extend([0; 4]);
        expected.extend(1.5f64.to_le_bytes());
        assert_eq!(params.bytes(), expected);
    }

    #[test]
    fn nothing_packs_to_nothing() {
        assert!(Params::new().bytes().is_empty());
    }

    #[test]
    #[should_panic(expected = "range end index")]
    fn a_block_that_is_too_long_is_a_mistake_of_the_program() {
        let mut params = Params::new();
        for value in 0..=CAPACITY as u64 / 8 {
            params = params.u64(value);
        }
    }
}
