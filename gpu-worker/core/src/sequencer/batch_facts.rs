//! The facts of a batch: those that the sequencer must know of its ops, which it does not read.

use bus_schemas::{ModuleHash, Op, OpNumber, Row, Symbol, limits};

/// Maximum bytes of the answer to symbols.
const SYMBOLS: u64 = (limits::SYMBOLS * Symbol::SIZE) as u64;

/// The facts that a [`BatchEvent`](super::BatchEvent) has of its ops, by number and in op order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BatchFacts {
    /// Ops that have a result, each with the maximum bytes of the result.
    pub outs: Vec<(OpNumber, u64)>,
    /// Copies from staged transfers, each with its transfer.
    pub staged: Vec<(OpNumber, u64)>,
    /// Loads of images that the tenant did not send yet, each with its image.
    pub loads: Vec<(OpNumber, ModuleHash)>,
}

impl BatchFacts {
    /// Returns the facts of these ops, the first of which is op `first`. `is_given` returns true for an image
    /// that the tenant sent.
    pub fn of(
        first: OpNumber,
        ops: impl IntoIterator<Item = Op>,
        is_given: impl Fn(ModuleHash) -> bool,
    ) -> Self {
        let mut facts = Self::default();
        for (index, op) in (0_u64..).zip(ops) {
            let number = first.saturating_add(index);
            match op {
                Op::CopyOut { bytes, .. } => facts.outs.push((number, bytes)),
                Op::Symbols { .. } => facts.outs.push((number, SYMBOLS)),
                Op::Sync => facts.outs.push((number, 0)),
                Op::LoadModule { hash, .. } if !is_given(hash) => facts.loads.push((number, hash)),
                Op::CopyIn { transfer, .. } if transfer > 0 => {
                    facts.staged.push((number, transfer));
                }
                Op::Alloc { .. }
                | Op::Free { .. }
                | Op::CopyIn { .. }
                | Op::Copy { .. }
                | Op::Set { .. }
                | Op::LoadModule { .. }
                | Op::UnloadModule { .. }
                | Op::Launch(_)
                | Op::TensorMap { .. }
                | Op::Move { .. }
                | Op::Map { .. }
                | Op::Event { .. } => {}
            }
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_transfers_and_unknown_images_are_found_where_they_are() {
        let [given, new] = [b"given", b"brand"].map(|image| ModuleHash::of(image));
        let load = |hash| Op::LoadModule { slot: 0, hash };
        let copy_in = |transfer| Op::CopyIn {
            address: 0,
            bytes: 4,
            transfer,
        };
        let copy_out = Op::CopyOut {
            address: 0,
            bytes: 9,
        };
        let symbols = Op::Symbols { slot: 0 };
        let ops = [
            load(given),
            load(new),
            copy_in(0),
            copy_in(3),
            copy_out,
            symbols,
            Op::Sync,
        ];
        let facts = BatchFacts::of(5, ops, |hash| hash == given);
        let expected = BatchFacts {
            outs: vec![(9, 9), (10, SYMBOLS), (11, 0)],
            staged: vec![(8, 3)],
            loads: vec![(6, new)],
        };
        assert_eq!(facts, expected);
        let results = ops.iter().filter(|op| op.has_result()).count();
        assert_eq!(facts.outs.len(), results);
    }
}
