//! The layout of a module's variables in their block in each session.

use crate::decode::Global;
use crate::memory::{ALIGN, Live};

/// Offsets in a block, in source order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    offsets: Box<[u64]>,
    /// Bytes of the block; `u64::MAX` if they are too many for any window.
    pub(crate) bytes: u64,
    /// Alignment of the block.
    pub(crate) align: u64,
}

impl Layout {
    /// Lays out one variable behind the other, each at the next aligned offset.
    pub(crate) fn of(globals: &[Global]) -> Self {
        let mut layout = Self {
            align: ALIGN,
            ..Self::default()
        };
        let offsets = globals.iter().map(|global| {
            let align = global.align.max(ALIGN);
            let at = layout.bytes.checked_next_multiple_of(align);
            let at = at.unwrap_or(u64::MAX);
            layout.align = layout.align.max(align);
            layout.bytes = at.saturating_add(global.size.max(1));
            at
        });
        layout.offsets = offsets.collect();
        layout
    }

    /// Offset of a variable.
    pub(crate) fn offset(&self, index: usize) -> u64 {
        self.offsets[index]
    }

    /// The bytes of a variable, in a block that begins at `base`.
    pub(crate) fn live(&self, base: u64, index: usize, global: &Global) -> Live {
        let start = base + self.offsets[index];
        Live {
            start,
            end: start + global.size.max(1),
            writable: global.writable,
        }
    }

    /// Bytes that the offsets themselves take.
    pub(crate) fn bytes_of_itself(&self) -> usize {
        size_of_val(&*self.offsets)
    }
}
