//! Output of kernels: records, kept until the launch ends.
//!
//! The size is bounded like CUDA's buffer: when it is full, the oldest records are dropped. Oldest
//! means first in the order of blocks, so that the output does not depend on the number of threads
//! of the launch.

use std::collections::VecDeque;

/// Records in order.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    records: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Printed {
    /// Maximum bytes of kept records.
    pub(crate) const LIMIT: usize = 1 << 20;

    pub(crate) fn push(&mut self, record: Box<[u8]>) {
        self.bytes += record.len();
        self.records.push_back(record);
        while self.bytes > Self::LIMIT
            && let Some(oldest) = self.records.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// Appends another list's records.
    pub(crate) fn append(&mut self, other: Self) {
        other
            .records
            .into_iter()
            .for_each(|record| self.push(record));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// All records concatenated.
    pub(crate) fn concat(self) -> Vec<u8> {
        Vec::from(self.records).concat()
    }
}
