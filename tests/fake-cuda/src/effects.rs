//! Effects of work on memory: copies, fills, and the few kernels that compute.
//!
//! Kernels are known by their names, which are those of the device conformance suite. Any other kernel has no
//! effect.

use std::collections::BTreeMap;

use crate::codes::{ILLEGAL_ADDRESS, MISALIGNED_ADDRESS};
use crate::memory::Memory;

/// The effect of an item.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A copy on the device.
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    /// A copy from pinned memory, which is read when the device does it.
    Bring {
        to: u64,
        host: u64,
        bytes: u64,
    },
    /// A copy of bytes that the driver took at the call.
    Put {
        to: u64,
        bytes: Vec<u8>,
    },
    /// A copy to pinned memory.
    Fetch {
        host: u64,
        from: u64,
        bytes: u64,
    },
    /// A fill with a value of some bytes.
    Fill {
        to: u64,
        value: Vec<u8>,
        count: u64,
    },
    /// A word that is written.
    Word {
        to: u64,
        value: u32,
    },
    Kernel(KernelCall),
}

/// A launch, as far as its effect needs it.
#[derive(Debug)]
pub(crate) struct KernelCall {
    pub(crate) name: String,
    pub(crate) params: Vec<u8>,
    /// Number of threads in all.
    pub(crate) threads: u64,
    /// Addresses of its module's variables.
    pub(crate) variables: BTreeMap<String, (u64, u64)>,
}

/// Applies an effect. An error is the context's, as CUDA defines.
pub(crate) fn apply(effect: Effect, memory: &Memory) -> Result<(), u32> {
    match effect {
        Effect::Copy { to, from, bytes } => memory.write(to, &memory.read(from, bytes)?),
        Effect::Bring { to, host, bytes } => memory.write(to, &memory.read_pinned(host, bytes)?),
        Effect::Put { to, bytes } => memory.write(to, &bytes),
        Effect::Fetch { host, from, bytes } => {
            memory.write_pinned(host, &memory.read(from, bytes)?)
        }
        Effect::Fill { to, value, count } => memory.write(to, &value.repeat(count as usize)),
        Effect::Word { to, value } => {
            let written = memory.write_pinned(to, &value.to_le_bytes());
            written.or_else(|_| memory.write(to, &value.to_le_bytes()))
        }
        Effect::Kernel(call) => call.run(memory),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl KernelCall {
    /// True if a kernel of this name has an effect.
    pub(crate) fn computes(name: &str) -> bool {
        ["increment", "stray", "touch", "look", "put", "wide"].contains(&name)
    }

    fn run(&self, memory: &Memory) -> Result<(), u32> {
        match self.name.as_str() {
            "increment" => self.increment(memory),
            "stray" => self.stray(memory),
            "touch" => self.touch(memory),
            "look" => self.look(memory),
            "put" => self.put(memory),
            "wide" => self.wide(memory),
            _ => Ok(()),
        }
    }

    fn word(&self, at: usize) -> u32 {
        self.params.get(at..at + 4).map_or(0, word)
    }

    fn long(&self, at: usize) -> u64 {
        self.params.get(at..at + 8).map_or(0, long)
    }

    fn variable(&self, name: &str) -> Result<u64, u32> {
        let variable = self.variables.get(name);
        variable.map(|(address, _)| *address).ok_or(ILLEGAL_ADDRESS)
    }

    /// Adds 1 to each of `n` words.
    fn increment(&self, memory: &Memory) -> Result<(), u32> {
        let (data, n) = (self.long(0), u64::from(self.word(8)));
        let mut words = memory.read(data, 4 * n.min(self.threads))?;
        for bytes in words.as_chunks_mut::<4>().0 {
            *bytes = u32::from_le_bytes(*bytes).wrapping_add(1).to_le_bytes();
        }
        memory.write(data, &words)
    }

    /// Writes a word anywhere.
    fn stray(&self, memory: &Memory) -> Result<(), u32> {
        let data = self.long(0);
        match data.is_multiple_of(4) {
            true => memory.write(data, &7_u32.to_le_bytes()),
            false => Err(MISALIGNED_ADDRESS),
        }
    }

    /// Changes variables of its module.
    fn touch(&self, memory: &Memory) -> Result<(), u32> {
        let (counter, table) = (self.variable("counter")?, self.variable("table")?);
        let name = self.variable("name")?;
        let added = word(&memory.read(table + 12, 4)?);
        let count = long(&memory.read(counter, 8)?).wrapping_add(u64::from(added));
        memory.write(counter, &count.to_le_bytes())?;
        let first = memory.read(name, 1)?;
        let next: Vec<u8> = first.iter().map(|byte| byte.wrapping_add(1)).collect();
        memory.write(name, &next)
    }

    /// Notes if a range has anything but zeros.
    fn look(&self, memory: &Memory) -> Result<(), u32> {
        let (first, end, number) = (self.long(0), self.long(8), self.long(16));
        let found = self.variable("found")? + 4 * number;
        let seen = memory.read(first, end.saturating_sub(first))?;
        match seen.iter().any(|byte| *byte != 0) {
            true => memory.write(found, &1_u32.to_le_bytes()),
            false => Ok(()),
        }
    }

    /// Fills a range with a value.
    fn put(&self, memory: &Memory) -> Result<(), u32> {
        let (first, end, value) = (self.long(0), self.long(8), self.long(16));
        let count = end.saturating_sub(first).div_ceil(8) as usize;
        memory.write(first, &value.to_le_bytes().repeat(count))
    }

    /// Computes from the last words of many parameters and from two variables.
    fn wide(&self, memory: &Memory) -> Result<(), u32> {
        let (added, factor) = (self.variable("added")?, self.variable("factor")?);
        let (added, factor) = (memory.read(added, 4)?, memory.read(factor, 4)?);
        let product = self.word(4_208).wrapping_mul(word(&factor));
        let sum = self.word(4_196).wrapping_add(product);
        let sum = sum.wrapping_add(word(&added));
        memory.write(self.long(4_200), &sum.to_le_bytes())
    }
}
