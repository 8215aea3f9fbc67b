//! A device's memory in the model. It has a number at each written address, and for each session one that
//! stands for all its ops in their order. The client keeps the same numbers for its submitted ops. So a
//! copy to the host reveals any op lost, doubled or out of order, and any write of another session.

use std::collections::BTreeMap;

use bus_schemas::Op;
use sim_cluster::{Random, mix};

/// Content of a device's memory: a number at each written address.
pub(crate) type Cells = BTreeMap<u64, u64>;

/// Applies an op to a memory's cells.
pub(crate) fn write(cells: &mut Cells, op: &Op, print: u64) {
    match *op {
        Op::CopyIn { address, .. } | Op::Set { address, .. } => {
            cells.insert(address, print);
        }
        Op::Copy { to, from, .. } => {
            let from = cells.get(&from).copied().unwrap_or_default();
            cells.insert(to, mix(from));
        }
        _ => {}
    }
}

/// Clears the cells of a range.
pub(crate) fn clear(cells: &mut Cells, address: u64, bytes: u64) {
    let end = address.saturating_add(bytes);
    while let Some((at, _)) = cells.range(address..end).next() {
        let at = *at;
        cells.remove(&at);
    }
}

/// The number that stands for all ops that a session ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Memory(u64);

impl Memory {
    /// Adds one more op.
    pub(crate) fn run(&mut self, print: u64) {
        self.0 = mix(self.0.rotate_left(1) ^ print);
    }

    /// The same number, combined with the cell at an address.
    #[must_use]
    pub(crate) fn with(&self, cells: &Cells, address: u64) -> Self {
        let cell = cells.get(&address).copied().unwrap_or_default();
        Self(mix(self.0 ^ mix(cell)))
    }

    /// Bytes that a copy of `bytes` bytes to the host returns now.
    #[must_use]
    pub(crate) fn read(&self, bytes: u64) -> Vec<u8> {
        let mut random = Random::new(self.0);
        let mut out = Vec::with_capacity(bytes as usize);
        while (out.len() as u64) < bytes {
            let left = bytes as usize - out.len();
            out.extend_from_slice(&random.draw().to_le_bytes()[..left.min(8)]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_shows_order_loss_and_repetition() {
        let read = |prints: &[u64]| {
            let mut memory = Memory::default();
            prints.iter().for_each(|print| memory.run(*print));
            memory.read(20)
        };
        let right = read(&[1, 2, 3]);
        for wrong in [&[1, 2][..], &[1, 3, 2], &[1, 2, 2, 3], &[2, 3]] {
            assert_ne!(read(wrong), right);
        }
    }

    #[test]
    fn what_others_wrote_shows() {
        let memory = Memory::default();
        let mut cells = Cells::new();
        let fresh = memory.with(&cells, 4096).read(8);
        let set = Op::Set {
            address: 4096,
            count: 1,
            value: 0,
            width: 1,
        };
        write(&mut cells, &set, 7);
        assert_ne!(memory.with(&cells, 4096).read(8), fresh);
        clear(&mut cells, 4000, 97);
        assert_eq!(memory.with(&cells, 4096).read(8), fresh);
    }
}
