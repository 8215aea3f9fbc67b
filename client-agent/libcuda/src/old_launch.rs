//! Launches in the style of CUDA 3: shape and parameters are set on the kernel, call by call, and
//! kept there.

use bus_schemas::Dim;

use crate::status::{Result, Status};

/// Maximum bytes of a kernel's parameters.
const MOST: usize = 4_096;

/// The shape and the parameters that a program has set on a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OldLaunch {
    block: Dim,
    shared: u32,
    /// Bytes of the parameters that are passed to the kernel.
    size: usize,
    block_bytes: Vec<u8>,
}

impl Default for OldLaunch {
    fn default() -> Self {
        Self {
            block: [1, 1, 1],
            shared: 0,
            size: 0,
            block_bytes: Vec::new(),
        }
    }
}

impl OldLaunch {
    /// Sets the threads of a block.
    pub(crate) fn set_block(&mut self, block: Dim) -> Result {
        if block.contains(&0) {
            return Err(Status::INVALID_VALUE);
        }
        self.block = block;
        Ok(())
    }

    /// Sets the dynamic shared bytes of a block.
    pub(crate) fn set_shared(&mut self, bytes: u32) {
        self.shared = bytes;
    }

    /// Sets the number of bytes of the parameters.
    pub(crate) fn set_size(&mut self, bytes: usize) -> Result {
        if bytes > MOST {
            return Err(Status::INVALID_VALUE);
        }
        self.size = bytes;
        Ok(())
    }

    /// Sets a part of the parameters.
    pub(crate) fn set(&mut self, offset: usize, bytes: &[u8]) -> Result {
        let end = offset.checked_add(bytes.len());
        let end = end.filter(|it| *it <= MOST).ok_or(Status::INVALID_VALUE)?;
        if self.block_bytes.len() < end {
            self.block_bytes.resize(end, 0);
        }
        self.block_bytes[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    /// The threads of a block, and its dynamic shared bytes.
    pub(crate) fn shape(&self) -> (Dim, u32) {
        (self.block, self.shared)
    }

    /// The parameters of a kernel that takes `bytes` bytes.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the program set fewer bytes.
    pub(crate) fn parameters(&self, bytes: usize) -> Result<Vec<u8>> {
        if self.size < bytes {
            return Err(Status::INVALID_VALUE);
        }
        let mut parameters = self.block_bytes.clone();
        parameters.resize(bytes, 0);
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_in_parts_and_in_any_order() {
        let mut old = OldLaunch::default();
        old.set(8, &7u32.to_ne_bytes()).expect("it fits");
        old.set(0, &9u64.to_ne_bytes()).expect("it fits");
        assert_eq!(old.parameters(12), Err(Status::INVALID_VALUE), "no size");
        old.set_size(12).expect("it fits");
        let parameters = old.parameters(12).expect("as many");
        assert_eq!(parameters[..8], 9u64.to_ne_bytes());
        assert_eq!(parameters[8..], 7u32.to_ne_bytes());
        assert_eq!(old.parameters(13), Err(Status::INVALID_VALUE));
        // Bytes that were not set are zero, and the size may exceed that of the kernel.
        old.set_size(64).expect("it fits");
        assert_eq!(
            old.parameters(16).map(|it| it[12..].to_vec()),
            Ok(vec![0; 4])
        );
    }

    #[test]
    fn what_no_kernel_can_have_is_refused() {
        let mut old = OldLaunch::default();
        for (offset, bytes) in [(4_096, 1), (4_093, 4), (usize::MAX, 4)] {
            let refused = old.set(offset, &vec![0; bytes]);
            assert_eq!(refused, Err(Status::INVALID_VALUE), "{bytes} at {offset}");
        }
        assert_eq!(old.set_size(4_097), Err(Status::INVALID_VALUE));
        assert_eq!(old.set_block([32, 0, 1]), Err(Status::INVALID_VALUE));
        assert_eq!(old, OldLaunch::default());
    }
}
