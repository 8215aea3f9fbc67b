//! Programs in sessions, with addresses for their module variables.

use super::program::Program;
use crate::decode::{self, Global, Relocation};
use crate::error::MemoryError;
use crate::memory::Memory;
use std::sync::Arc;

/// Variables that are placed between two checks for waiting sessions, and bytes that are written.
const ROWS: usize = 4_096;
const PIECE: usize = 1 << 20;
/// Cost of a variable, or of an address in an initial value, besides its bytes: the bytes that
/// could be written in that time.
const EACH: usize = 256;

/// A program in one session.
#[derive(Debug, Clone)]
pub struct Instance {
    pub(crate) program: Arc<Program>,
    /// Start of the block of its variables.
    pub(crate) base: u64,
}

impl Instance {
    /// Places a program's variables in a session's memory and writes their initial values.
    ///
    /// # Errors
    /// If the session's memory is not sufficient; nothing stays allocated then.
    pub fn new(program: &Arc<Program>, memory: &mut Memory) -> Result<Self, MemoryError> {
        let mut placement = Placement::begin(program, memory)?;
        loop {
            match placement.go_on(memory) {
                Ok(true) => return Ok(placement.instance),
                Ok(false) => {}
                Err(error) => {
                    placement.instance.release(memory);
                    return Err(error);
                }
            }
        }
    }

    /// Frees the variables.
    pub fn release(self, memory: &mut Memory) {
        // Pages that the host does not take back stay with the session until it is closed.
        let _ = memory.vacate(self.base);
    }

    /// The block of its variables: its start, and its bytes.
    pub(crate) fn block(&self) -> (u64, u64) {
        (self.base, self.program.layout.bytes)
    }

    /// Address of a variable.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.base + self.program.layout.offset(index)
    }

    /// Address and size of a module variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let mut globals = self.program.decoded.globals.iter();
        let at = globals.position(|global| global.name == name)?;
        Some((self.address(at), self.program.decoded.globals[at].size))
    }

    /// Each module variable in source order: address, size, and true if kernels may write to it.
    pub fn variables(&self) -> impl Iterator<Item = (u64, u64, bool)> {
        let declared = self.program.decoded.globals.iter().enumerate();
        declared.map(|(index, global)| (self.address(index), global.size, global.writable))
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// An instance with variables that are being placed in pieces, so that more urgent work need not
/// wait for a million of them.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) instance: Instance,
    /// Number of variables that are live.
    live: usize,
    /// The variable that is being initialised, and its progress: bytes, then addresses.
    at: usize,
    written: usize,
    related: usize,
}

impl Placement {
    /// Reserves the block; nothing in it is live yet.
    ///
    /// # Errors
    /// If the session's memory is not sufficient.
    pub(crate) fn begin(program: &Arc<Program>, memory: &mut Memory) -> Result<Self, MemoryError> {
        if program.decoded.heap {
            memory.provide_heap()?;
        }
        let layout = &program.layout;
        let base = match layout.bytes {
            // No variables, no block.
            0 => 0,
            bytes => memory.reserve(bytes, layout.align)?,
        };
        Ok(Self {
            instance: Instance {
                program: Arc::clone(program),
                base,
            },
            live: 0,
            at: 0,
            written: 0,
            related: 0,
        })
    }

    /// Places the next variables, for some hundred microseconds. True once all are placed.
    ///
    /// # Errors
    /// If the session's memory is not sufficient; the caller must release the instance.
    pub(crate) fn go_on(&mut self, memory: &mut Memory) -> Result<bool, MemoryError> {
        let program = Arc::clone(&self.instance.program);
        let globals = &program.decoded.globals;
        let mut left = PIECE;
        while self.at < globals.len() && left > 0 {
            if self.at == self.live {
                self.place(globals, memory)?;
            }
            let global = &globals[self.at];
            let address = self.instance.address(self.at);
            left = left.saturating_sub(EACH);
            let value = global.value();
            let to = value.len().min(self.written + left);
            memory.write(address + self.written as u64, &value[self.written..to])?;
            left -= to - self.written;
            self.written = to;
            if to < value.len() {
                break;
            }
            while self.related < global.relocations.len() && left > 0 {
                self.relate(
                    address,
                    &global.relocations[self.related],
                    value.len(),
                    memory,
                )?;
                left = left.saturating_sub(EACH);
                self.related += 1;
            }
            if self.related == global.relocations.len() {
                (self.at, self.written, self.related) = (self.at + 1, 0, 0);
            }
        }
        Ok(self.at == globals.len())
    }

    fn place(&mut self, globals: &[Global], memory: &mut Memory) -> Result<(), MemoryError> {
        let to = globals.len().min(self.live + ROWS);
        let Instance { program, base } = &self.instance;
        let rows = (self.live..to).map(|index| program.layout.live(*base, index, &globals[index]));
        memory.occupy(&rows.collect::<Vec<_>>())?;
        self.live = to;
        Ok(())
    }

    /// Writes one address into the initial value of the variable at `address`, which has `bytes`
    /// bytes.
    fn relate(
        &self,
        address: u64,
        it: &Relocation,
        bytes: usize,
        memory: &mut Memory,
    ) -> Result<(), MemoryError> {
        let target = self.instance.address(it.symbol as usize);
        let target = target.wrapping_add(it.addend as u64);
        let value = decode::masked(target, it.mask).to_le_bytes();
        let size = usize::from(it.bytes).min(8);
        let end = (it.at as usize).checked_add(size);
        match end.is_some_and(|end| end <= bytes) {
            true => memory.write(address + it.at, &value[..size]),
            false => Ok(()),
        }
    }
}
