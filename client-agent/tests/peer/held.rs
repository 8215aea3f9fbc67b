//! The peer's state of a session: its ops, transfers, memory and answers.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Failure, Op, ResultKind};

/// The peer's state of a session.
#[derive(Default)]
pub(super) struct Held {
    pub(super) ops: Vec<(Op, Vec<u8>)>,
    pub(super) done: u64,
    pub(super) queued: u64,
    pub(super) transfers: BTreeMap<u64, (Vec<u8>, Vec<bool>, bool)>,
    /// Transfers of images that have arrived.
    pub(super) images: BTreeSet<u64>,
    /// Transfers that began with an offer.
    pub(super) offered: BTreeSet<u64>,
    /// The bytes of each allocation.
    pub(super) memory: BTreeMap<u64, Vec<u8>>,
    pub(super) results: BTreeMap<u64, (u64, ResultKind, Vec<u8>)>,
    pub(super) made: u64,
    pub(super) failure: Option<(u64, Failure)>,
}

impl Held {
    /// Runs an op on the memory, and returns its result if it has one.
    pub(super) fn apply(&mut self, op: &Op, payload: &[u8]) -> Option<(ResultKind, Vec<u8>)> {
        match *op {
            Op::Alloc { address, bytes } => {
                self.memory.insert(address, vec![0; bytes as usize]);
                None
            }
            Op::Free { address } => {
                self.memory.remove(&address);
                None
            }
            Op::CopyIn {
                address, transfer, ..
            } => {
                let bytes = match transfer {
                    0 => payload.to_vec(),
                    staged => {
                        let (bytes, _, whole) = &self.transfers[&staged];
                        assert!(whole, "announced before its bytes are here");
                        bytes.clone()
                    }
                };
                self.range(address, bytes.len()).copy_from_slice(&bytes);
                None
            }
            Op::CopyOut { address, bytes } => {
                let read = self.range(address, bytes as usize).to_vec();
                Some((ResultKind::CopyOut, read))
            }
            Op::Sync => Some((ResultKind::Sync, Vec::new())),
            _ => None,
        }
    }

    fn range(&mut self, address: u64, bytes: usize) -> &mut [u8] {
        let (start, memory) = self
            .memory
            .range_mut(..=address)
            .next_back()
            .expect("allocated");
        let offset = (address - start) as usize;
        &mut memory[offset..offset + bytes]
    }
}
