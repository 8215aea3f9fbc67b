//! Ops that are not in a batch yet, as the columns of their future batches.

use std::ops::Range;

use bus_schemas::{DESCRIPTOR_BYTES, Op, write_descriptor};

/// Packed descriptors and payloads, appended at the end and cut off at the front.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    descriptors: Vec<u8>,
    blob: Vec<u8>,
    cut: CutOff,
}

/// Bytes of each column that were cut off.
#[derive(Debug, Clone, Copy, Default)]
struct CutOff {
    descriptors: usize,
    blob: usize,
}

/// The ranges of one batch's columns.
pub(crate) struct Cut {
    pub(crate) count: u32,
    descriptors: Range<usize>,
    blob: Range<usize>,
}

impl Columns {
    /// Appends an op.
    #[inline]
    pub(crate) fn push(&mut self, op: &Op, stream: u16, payload: &[u8]) {
        write_descriptor(op, stream, payload.len() as u32, &mut self.descriptors);
        self.blob.extend_from_slice(payload);
    }

    /// Number of ops.
    #[inline]
    pub(crate) fn ops(&self) -> usize {
        (self.descriptors.len() - self.cut.descriptors) / DESCRIPTOR_BYTES
    }

    /// Number of bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.descriptors.len() - self.cut.descriptors + self.blob.len() - self.cut.blob
    }

    /// Selects the first ops: at most `ops`, and no further op once they have `bytes` bytes.
    pub(crate) fn front(&self, ops: usize, bytes: usize) -> Cut {
        let CutOff {
            descriptors: start,
            blob,
        } = self.cut;
        let (mut count, mut payload, mut size) = (0, 0, 0);
        let rest = self.descriptors.get(start..).unwrap_or_default();
        for descriptor in rest.chunks_exact(DESCRIPTOR_BYTES).take(ops) {
            if size >= bytes {
                break;
            }
            let length = payload_bytes(descriptor);
            count += 1;
            payload += length;
            size += DESCRIPTOR_BYTES + length;
        }
        Cut {
            count,
            descriptors: start..start + count as usize * DESCRIPTOR_BYTES,
            blob: blob..blob + payload,
        }
    }

    /// The descriptors and payloads of a cut.
    #[expect(
        clippy::indexing_slicing,
        reason = "`front` made the cut of these columns, and only `remove` and `clear`, which end it, shorten them"
    )]
    pub(crate) fn slices(&self, cut: &Cut) -> (&[u8], &[u8]) {
        (
            &self.descriptors[cut.descriptors.clone()],
            &self.blob[cut.blob.clone()],
        )
    }

    /// Removes the ops of a cut.
    pub(crate) fn remove(&mut self, cut: &Cut) {
        self.cut = CutOff {
            descriptors: cut.descriptors.end,
            blob: cut.blob.end,
        };
        if self.cut.descriptors == self.descriptors.len() {
            self.clear();
        } else if self.cut.descriptors > self.descriptors.len() / 2 {
            // Moving the smaller half keeps the cost of an op constant.
            self.descriptors.drain(..self.cut.descriptors);
            self.blob.drain(..self.cut.blob);
            self.cut = CutOff::default();
        }
    }

    /// Drops all ops, keeping the memory.
    pub(crate) fn clear(&mut self) {
        self.descriptors.clear();
        self.blob.clear();
        self.cut = CutOff::default();
    }
}

fn payload_bytes(descriptor: &[u8]) -> usize {
    match descriptor {
        [_, _, _, _, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => 0,
    }
}
