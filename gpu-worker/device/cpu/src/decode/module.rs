//! A decoded module: code, functions, entries, variables to be placed.

use super::calls::Placed;
use super::form::{CallSite, Constant, Frame, Function, Inst, Slot};

/// A module-scope variable to be placed in each session.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) writable: bool,
    /// True once a definition was seen, not only a declaration.
    pub(crate) defined: bool,
    /// Initial bytes; the missing rest is zero.
    pub(crate) bytes: Vec<u8>,
    /// Addresses to write into it: offset, bytes, symbol, addend, byte mask shift.
    pub(crate) relocations: Vec<Relocation>,
}

impl Global {
    /// Its initial bytes, at most its size.
    pub(crate) fn value(&self) -> &[u8] {
        let bytes = usize::try_from(self.size).unwrap_or(usize::MAX);
        &self.bytes[..self.bytes.len().min(bytes)]
    }
}

/// An address inside an initial value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    pub(crate) at: u64,
    pub(crate) bytes: u8,
    pub(crate) symbol: u32,
    pub(crate) addend: i64,
    pub(crate) mask: Option<u64>,
}

/// An entry, as launches use it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) function: u32,
    pub(crate) param_bytes: u32,
    /// Includes the reserved memory, which comes after its own static memory and before dynamic
    /// memory.
    pub(crate) static_shared: u32,
    /// True if it uses reserved shared memory; other entries have none.
    pub(crate) reserves: bool,
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) reqntid: Option<[u32; 3]>,
    /// Size of one warp's stacks of registers and local memory.
    pub(crate) stack: Frame,
    /// The constants that it and its callees use, with their places.
    pub(crate) words: Placed,
    /// As `words`, of 64 bits.
    pub(crate) doubles: Placed,
}

impl Entry {
    /// A bound in bytes above all slots of its banks, a whole number of rows.
    pub(crate) fn reach(&self) -> usize {
        let rows = |list: &[(u32, Constant)]| list.last().map_or(0, |(at, _)| *at as usize + 1);
        let stack = &self.stack;
        let reach = [
            stack.words.max(stack.doubles).max(stack.preds) as usize,
            rows(&self.words) * 128,
            rows(&self.doubles) * 256,
        ];
        // The last slot may be accessed as one of the widest rows.
        reach.into_iter().max().unwrap_or(0).next_multiple_of(256) + 256
    }
}

/// A decoded module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) code: Vec<Inst>,
    pub(crate) functions: Vec<Function>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) globals: Vec<Global>,
    pub(crate) sites: Vec<CallSite>,
    pub(crate) tables: Vec<Vec<u32>>,
    /// Operands that do not fit into an instruction; those of one instruction are contiguous.
    pub(crate) operands: Vec<Slot>,
    /// All constants of 32 and of 64 bits, by their places.
    pub(crate) constants: [Vec<Constant>; 2],
    /// True if it allocates from kernels.
    pub(crate) heap: bool,
    /// Lines of the source.
    pub(crate) lines: ptx::SourceLines,
}
