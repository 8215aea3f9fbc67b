//! The ops of a batch: packed descriptors, and a blob in which their payloads (parameters, inline
//! copies) follow one another.

use std::slice::ChunksExact;

use crate::launch_path::descriptor::{DESCRIPTOR_BYTES, read_descriptor};
use crate::launch_path::op::OpRef;

/// Why bytes are not a batch of ops.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The descriptor column's length does not match the op count.
    #[error("{bytes} descriptor bytes do not hold {count} ops")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Ops announced.
        count: u32,
    },
    /// An op of a kind or with a field that has no meaning.
    #[error("op {index} of the batch is malformed: {why}")]
    Op {
        /// Index in the batch, from 0.
        index: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The blob is shorter or longer than the payloads it should hold.
    #[error("the blob has {have} bytes, the ops need {need}")]
    Blob {
        /// Bytes there are.
        have: usize,
        /// Bytes the payload lengths add up to.
        need: u64,
    },
}

/// The ops of one batch, checked once when made, then read without allocation.
#[derive(Debug, Clone, Copy)]
pub struct Ops<'a> {
    descriptors: &'a [u8],
    blob: &'a [u8],
}

impl<'a> Ops<'a> {
    /// Checks a batch's columns: the count, every op, and that the payloads fill the blob exactly.
    ///
    /// # Errors
    /// [`OpError`] with the first thing that is wrong.
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

    /// The ops of columns that [`Ops::new`] has found right before: a second look costs as much as
    /// the first. Iterating over others panics.
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

    /// Whether there are no ops.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// The ops in order.
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
    /// Payloads of those to come.
    blob: &'a [u8],
}

impl<'a> Iterator for OpsIter<'a> {
    type Item = OpRef<'a>;

    // An op that goes through memory on its way costs its reader as much again.
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
