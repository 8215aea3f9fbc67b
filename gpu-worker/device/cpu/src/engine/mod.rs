//! Launches: programs, their instances in sessions, and running them.

mod barrier;
pub(crate) mod block;
mod call;
mod clock;
pub(crate) mod code;
pub(crate) mod context;
mod gather;
pub(crate) mod launch;
mod running;
pub(crate) mod runtime;
mod warp;
mod worker;

pub use running::{Progress, Running};

use crate::decode::{self, Decoded};
use crate::error::{BuildError, LaunchError, MemoryError};
use crate::lanes::Isa;
use crate::memory::Memory;
use code::Step;
use ptx::Module;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// A module, decoded for this machine. Sessions share it.
pub struct Program {
    pub(crate) decoded: Decoded,
    pub(crate) steps: Vec<Step>,
    /// What the steps' native code lies in.
    #[cfg(all(target_arch = "x86_64", unix))]
    _generated: crate::native::Generated,
    /// Functions that have a body and are no entry.
    pub(crate) callable: Vec<bool>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries: Vec<_> = self
            .decoded
            .entries
            .iter()
            .map(|entry| &entry.name)
            .collect();
        f.debug_struct("Program")
            .field("entries", &entries)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Parses and decodes PTX for the best lane loops this machine has.
    ///
    /// # Errors
    /// With line and column, where the text is not PTX or uses what the engine does not know.
    pub fn build(ptx: &str) -> Result<Arc<Self>, BuildError> {
        Self::build_for(&Module::parse(ptx)?, Isa::detect())
    }

    /// As [`Program::build_for`], for an image of bytes.
    ///
    /// # Errors
    /// As [`Program::build`].
    pub fn build_image(image: &[u8], isa: Isa) -> Result<Arc<Self>, BuildError> {
        Self::build_for(&Module::parse_bytes(image)?, isa)
    }

    /// Decodes a parsed module for an instruction set; the portable one serves where the machine
    /// does not have it.
    ///
    /// # Errors
    /// As [`Program::build`].
    pub fn build_for(module: &Module<'_>, isa: Isa) -> Result<Arc<Self>, BuildError> {
        let has = Isa::detect();
        let isa = if has == Isa::Portable { has } else { isa };
        let decoded = decode::decode(module)?;
        #[cfg_attr(not(all(target_arch = "x86_64", unix)), expect(unused_mut))]
        let mut steps = code::steps(&decoded.code, isa);
        #[cfg(all(target_arch = "x86_64", unix))]
        let generated = if isa == Isa::Native {
            crate::native::generate(&decoded)
        } else {
            Default::default()
        };
        #[cfg(all(target_arch = "x86_64", unix))]
        for (at, native) in &generated.runs {
            steps[*at].native = Some(*native);
        }
        #[cfg(all(target_arch = "x86_64", unix))]
        for (at, warp) in &generated.warps {
            steps[*at].warp = Some(*warp);
        }
        let entry = |index: usize| decoded.entries.iter().any(|e| e.function as usize == index);
        let callable = (0..decoded.functions.len())
            .map(|index| {
                let start = decoded.functions[index].start as usize;
                let next = decoded
                    .functions
                    .get(index + 1)
                    .map_or(steps.len(), |f| f.start as usize);
                next > start && !entry(index)
            })
            .collect();
        Ok(Arc::new(Self {
            decoded,
            steps,
            #[cfg(all(target_arch = "x86_64", unix))]
            _generated: generated,
            callable,
        }))
    }

    /// Bytes of memory that it takes, about: instructions in the forms they are kept in, generated
    /// code, initial values.
    pub fn bytes(&self) -> u64 {
        let code = self.steps.len() * size_of::<Step>();
        let decoded = self.decoded.code.len() * size_of::<crate::decode::form::Inst>();
        let globals = self.decoded.globals.iter().map(|global| global.bytes.len());
        #[cfg(all(target_arch = "x86_64", unix))]
        let generated = self._generated.bytes() + decoded;
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        let generated = 0;
        (code + decoded + generated + globals.sum::<usize>()) as u64
    }

    /// The index of an entry.
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.decoded
            .entries
            .iter()
            .position(|entry| entry.name == name)
    }

    /// Names of all entries and the bytes of their parameter blocks, in source order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u32)> {
        self.decoded
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.param_bytes))
    }
}

/// A program in one session: its module variables have addresses there.
#[derive(Debug, Clone)]
pub struct Instance {
    pub(crate) program: Arc<Program>,
    /// Address of each module variable.
    pub(crate) globals: Vec<u64>,
}

impl Instance {
    /// Places a program's variables in a session's memory and writes their initial values.
    ///
    /// # Errors
    /// If the session's memory does not suffice; nothing stays allocated then.
    pub fn new(program: &Arc<Program>, memory: &mut Memory) -> Result<Self, MemoryError> {
        let mut instance = Self {
            program: Arc::clone(program),
            globals: Vec::new(),
        };
        if program.decoded.heap {
            memory.provide_heap()?;
        }
        for global in &program.decoded.globals {
            match memory.alloc_internal(global.size.max(1), global.align, global.writable) {
                Ok(address) => instance.globals.push(address),
                Err(error) => {
                    instance.release(memory);
                    return Err(error);
                }
            }
        }
        for (global, address) in program.decoded.globals.iter().zip(&instance.globals) {
            let mut bytes = global.bytes.clone();
            bytes.truncate(global.size as usize);
            for it in &global.relocations {
                let target = instance.globals[it.symbol as usize].wrapping_add(it.addend as u64);
                let value = decode::masked(target, it.mask).to_le_bytes();
                let at = it.at as usize;
                let size = usize::from(it.bytes).min(8);
                if let Some(place) = bytes.get_mut(at..at + size) {
                    place.copy_from_slice(&value[..size]);
                }
            }
            memory.write(*address, &bytes)?;
        }
        Ok(instance)
    }

    /// Frees the variables.
    pub fn release(self, memory: &mut Memory) {
        for address in self.globals {
            // An address of our own is always allocated; a second release cannot happen.
            let _ = memory.free(address);
        }
    }

    /// Address and size of a module variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let at = self
            .program
            .decoded
            .globals
            .iter()
            .position(|global| global.name == name)?;
        Some((self.globals[at], self.program.decoded.globals[at].size))
    }

    /// Address, size and whether kernels may write to it, of each module variable in source order.
    pub fn variables(&self) -> impl Iterator<Item = (u64, u64, bool)> {
        let declared = self.program.decoded.globals.iter();
        let placed = self.globals.iter().zip(declared);
        placed.map(|(address, global)| (*address, global.size, global.writable))
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// Dimensions of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// How the engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Worker threads a launch may use; launches of few blocks use one.
    pub threads: usize,
    /// Warp instructions a launch may run before it is ended as a timeout.
    pub fuel: u64,
    /// Blocks a worker thread keeps in progress at most, when they wait for one another.
    pub resident: usize,
    /// In which order blocks begin.
    pub order: BlockOrder,
}

/// In which order the blocks of a launch begin. CUDA promises none: a kernel that depends on it
/// is wrong, and tests find that by the orders other than the usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// By index.
    #[default]
    Ascending,
    /// The last one first.
    Descending,
    /// All over the grid.
    Scattered,
}

impl BlockOrder {
    /// The index of the block that begins as number `place` of `blocks`.
    fn index(self, place: u64, blocks: u64) -> u64 {
        match self {
            Self::Ascending => place,
            Self::Descending => blocks - 1 - place,
            Self::Scattered => {
                // Steps of a prime reach every index unless the prime divides the count.
                let prime = [7919, 104_729]
                    .into_iter()
                    .find(|prime| !u128::from(blocks).is_multiple_of(*prime))
                    .unwrap_or(1);
                (u128::from(place) * prime % u128::from(blocks)) as u64
            }
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            fuel: 1 << 40,
            resident: 64,
            order: BlockOrder::default(),
        }
    }
}

/// What a launch cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Warp instructions run.
    pub instructions: u64,
    /// Blocks run.
    pub blocks: u64,
}

/// Runs launches; keeps their scratch memory for the next ones.
pub struct Engine {
    config: EngineConfig,
    #[expect(
        clippy::vec_box,
        reason = "a launch is handed on from function to function, and is hundreds of bytes"
    )]
    idle: Mutex<Vec<Box<Running>>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Ended launches kept for their buffers.
const IDLE: usize = 8;

impl Engine {
    /// An engine.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            config,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Checks a launch and makes it ready; [`Running::step`] runs it.
    ///
    /// # Errors
    /// If the dimensions, the shared memory or the parameters do not fit the entry.
    pub fn start(
        &self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
    ) -> Result<Box<Running>, LaunchError> {
        if entry >= instance.program.decoded.entries.len() {
            return Err(LaunchError::UnknownEntry(format!("number {entry}")));
        }
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let Some(mut running) = idle else {
            return Running::new(self.config, instance, entry, grid, params).map(Box::new);
        };
        running.renew(instance, entry, grid, params)?;
        Ok(running)
    }

    /// Takes a launch back: the next one uses its buffers.
    pub fn recycle(&self, running: Box<Running>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(running);
        }
    }

    /// Runs a launch to its end.
    ///
    /// # Errors
    /// As [`Engine::start`], and the kernel's own fault.
    pub fn launch(
        &self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
        memory: &mut Memory,
    ) -> Result<Stats, LaunchError> {
        let mut running = self.start(instance, entry, grid, params)?;
        let kill = AtomicBool::new(false);
        let result = loop {
            match running.step(memory, u64::MAX, &kill) {
                Ok(Progress::Running) => {}
                Ok(Progress::Done(stats)) => break Ok(stats),
                Err(fault) => break Err(LaunchError::Fault(fault)),
            }
        };
        self.recycle(running);
        result
    }
}
