//! The ops of a batch: packed descriptors, and a blob of their consecutive payloads (parameters,
//! inline copies).

use std::slice::ChunksExact;

use crate::launch_path::descriptor::{DESCRIPTOR_BYTES, read_descriptor};
use crate::launch_path::op::OpRef;

/// The reason that bytes are not a batch of ops.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The descriptor column's length does not match the op count.
    #[error("{bytes} descriptor bytes do not hold {count} ops")]
    Length {
        /// Bytes in the column.
        bytes: usize,
        /// Number of announced ops.
        count: u32,
    },
    /// An op has an invalid kind or field.
    #[error("op {index} of the batch is malformed: {why}")]
    Op {
        /// Index in the batch, from 0.
        index: u32,
        /// The problem.
        why: &'static str,
    },
    /// The blob is shorter or longer than the sum of its payloads.
    #[error("the blob has {have} bytes, the ops need {need}")]
    Blob {
        /// Bytes in the blob.
        have: usize,
        /// Sum of the payload lengths.
        need: u64,
    },
}

/// The ops of one batch, checked once on creation, then read without allocation.
#[derive(Debug, Clone, Copy)]
pub struct Ops<'a> {
    descriptors: &'a [u8],
    blob: &'a [u8],
}

impl<'a> Ops<'a> {
    /// Checks a batch's columns: the count, every op, and that the payloads fill the blob exactly.
    ///
    /// # Errors
    /// [`OpError`] about the first problem.
    pub fn new(count: u32, descriptors: &'a [u8], blob: &'a [u8]) -> Result<Self, OpError> {
        if descriptors.len() as u64 != u64::from(count) * DESCRIPTOR_BYTES as u64 {
            return Err(OpError::Length {
                bytes: descriptors.len(),
                count,
            });
        }
        let mut need = 0_u64;
        for (index, bytes) in (0..).zip(descriptors.chunks_exact(DESCRIPTOR_BYTES)) {
            let (_, _, payload) =
                read_descriptor(bytes).map_err(|why| OpError::Op { index, why })?;
            need += u64::from(payload);
        }
        if need != blob.len() as u64 {
            return Err(OpError::Blob {
                have: blob.len(),
                need,
            });
        }
        Ok(Self { descriptors, blob })
    }

    /// Creates ops from columns that [`Ops::new`] has accepted before, because a second check costs
    /// as much as the first. Iteration over other columns panics.
    #[must_use]
    pub fn checked_before(descriptors: &'a [u8], blob: &'a [u8]) -> Self {
        debug_assert!(
            u32::try_from(descriptors.len() / DESCRIPTOR_BYTES).is_ok_and(|count| Self::new(
                count,
                descriptors,
                blob
            )
            .is_ok()),
            "these columns were not checked before"
        );
        Self { descriptors, blob }
    }

    /// Number of ops.
    #[must_use]
    pub fn len(&self) -> usize {
        self.descriptors.len() / DESCRIPTOR_BYTES
    }

    /// True if there are no ops.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// Iterates over the ops in order.
    #[inline]
    pub fn iter(&self) -> OpsIter<'a> {
        OpsIter {
            descriptors: self.descriptors.chunks_exact(DESCRIPTOR_BYTES),
            blob: self.blob,
        }
    }
}

/// Reads the ops of a batch in order.
#[derive(Debug, Clone)]
pub struct OpsIter<'a> {
    descriptors: ChunksExact<'a, u8>,
    /// Payloads of the remaining ops.
    blob: &'a [u8],
}

impl<'a> Iterator for OpsIter<'a> {
    type Item = OpRef<'a>;

    // Passing an op through memory would double the cost of reading it.
    #[inline(always)]
    #[expect(
        clippy::expect_used,
        reason = "every op was read once, by `new`, for `checked_before` takes only what that found; to skip one would give those behind it another's payload"
    )]
    fn next(&mut self) -> Option<OpRef<'a>> {
        let (op, stream, length) = read_descriptor(self.descriptors.next()?)
            .expect("every op was checked when the batch was made");
        let (payload, rest) = self.blob.split_at(length as usize);
        self.blob = rest;
        Some(OpRef {
            op,
            stream,
            payload,
        })
    }
}
