//! Programs: modules that sessions share.

use super::code::{self, Step};
use super::layout::Layout;
use super::order::Order;
use super::runtime::Heap;
use crate::decode::{self, Decoded};
use crate::error::BuildError;
use crate::lane_loop::Isa;
use crate::lane_value::LANES;
use crate::watched::Watched;
use device::{Unwatched, Watch};
use ptx::ParsedModule;
use std::collections::HashSet;
use std::sync::Arc;

/// A module, decoded for this machine. Sessions share it.
pub struct Program {
    pub(crate) decoded: Decoded,
    pub(crate) steps: Vec<Step>,
    /// Order in which diverged lanes run the steps.
    pub(crate) order: Order,
    /// Offsets of its variables in a session's block of them.
    pub(crate) layout: Layout,
    /// Memory of the steps' native code.
    #[cfg(all(target_arch = "x86_64", unix))]
    _generated: crate::native::Generated,
    /// Functions that have a body and are not entries.
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
    /// Parses and decodes PTX for the best lane loops of this machine.
    ///
    /// # Errors
    /// If the text is not PTX or uses features that the engine does not support; with line and
    /// column.
    pub fn build(ptx: &str) -> Result<Arc<Self>, BuildError> {
        Self::build_image(ptx.as_bytes(), Isa::detect())
    }

    /// As [`Program::build_for`], for an image of bytes.
    ///
    /// # Errors
    /// As [`Program::build`].
    pub fn build_image(image: &[u8], isa: Isa) -> Result<Arc<Self>, BuildError> {
        Self::build_watched(image, isa, &Unwatched)
    }

    /// As [`Program::build_image`], until a watch halts it. If it halts during code generation, for
    /// lack of time or memory, the rest is interpreted.
    ///
    /// # Errors
    /// As [`Program::build`], and [`BuildError::Halted`].
    pub fn build_watched(
        image: &[u8],
        isa: Isa,
        watch: &dyn Watch,
    ) -> Result<Arc<Self>, BuildError> {
        let watched = Watched::new(watch);
        let grown = |bytes: u64| watched.grown(bytes as usize).is_ok();
        let module = ParsedModule::parse_bytes_watched(image, &grown);
        let module = match (module, watched.halted()) {
            (_, Some(halt)) => return Err(BuildError::Halted(halt)),
            (module, None) => module?,
        };
        Self::prepare(&module, isa, &watched)
    }

    /// Decodes a parsed module for an instruction set; the portable one is used if the machine does
    /// not have it.
    ///
    /// # Errors
    /// As [`Program::build`].
    pub fn build_for(module: &ParsedModule<'_>, isa: Isa) -> Result<Arc<Self>, BuildError> {
        Self::prepare(module, isa, &Watched::new(&Unwatched))
    }

    fn prepare(
        module: &ParsedModule<'_>,
        isa: Isa,
        watched: &Watched<'_>,
    ) -> Result<Arc<Self>, BuildError> {
        let has = Isa::detect();
        let isa = if has == Isa::Portable { has } else { isa };
        let mut decoded = decode::decode(module, isa == Isa::Native, watched)?;
        #[cfg_attr(not(all(target_arch = "x86_64", unix)), expect(unused_mut))]
        let mut steps = code::steps(&decoded.code, isa);
        #[cfg(all(target_arch = "x86_64", unix))]
        let generated = if isa == Isa::Native {
            crate::native::generate(&decoded, watched)?
        } else {
            Default::default()
        };
        let order = Order::of(&decoded.functions, steps.len());
        // The live ranges were for the code generator only.
        for function in &mut decoded.functions {
            function.alive = Default::default();
            function.order = Vec::new();
        }
        #[cfg(all(target_arch = "x86_64", unix))]
        for (at, native) in &generated.runs {
            steps[*at].native = Some(*native);
        }
        #[cfg(all(target_arch = "x86_64", unix))]
        for (at, warp) in &generated.warps {
            steps[*at].warp = Some(*warp);
        }
        let launched: HashSet<u32> = decoded.entries.iter().map(|it| it.function).collect();
        let callable = (0..decoded.functions.len())
            .map(|index| {
                let start = decoded.functions[index].start as usize;
                let next = decoded
                    .functions
                    .get(index + 1)
                    .map_or(steps.len(), |f| f.start as usize);
                next > start && !launched.contains(&(index as u32))
            })
            .collect();
        Ok(Arc::new(Self {
            layout: Layout::of(&decoded.globals),
            decoded,
            steps,
            order,
            #[cfg(all(target_arch = "x86_64", unix))]
            _generated: generated,
            callable,
        }))
    }

    /// Approximate bytes of memory of the program: instructions in all kept forms, generated code,
    /// initial values.
    pub fn bytes(&self) -> u64 {
        let code = self.steps.len() * size_of::<Step>() + self.order.bytes();
        let decoded = self.decoded.code.len() * size_of::<crate::decode::form::Inst>();
        let globals = self.decoded.globals.iter().map(|global| global.bytes.len());
        #[cfg(all(target_arch = "x86_64", unix))]
        let generated = self._generated.bytes() + decoded;
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        let generated = 0;
        let globals = globals.sum::<usize>() + self.layout.bytes_of_itself();
        let lines = self.decoded.lines.bytes();
        (code + decoded + generated + globals + lines) as u64
    }

    /// Bytes of its variables in a session's memory while it is loaded.
    pub fn variables(&self) -> u64 {
        self.layout.bytes
    }

    /// Bytes of the heap that its kernels need; 0 if they need none.
    pub fn heap(&self) -> u64 {
        if self.decoded.heap { Heap::BYTES } else { 0 }
    }

    /// Bytes that a block of an entry takes while it is in progress: for each warp, and besides the
    /// warps. Dynamic shared memory is not included. Both are 0 for an entry that does not exist.
    pub fn block_bytes(&self, entry: usize) -> (u64, u64) {
        let Some(entry) = self.decoded.entries.get(entry) else {
            return (0, 0);
        };
        let stack = &entry.stack;
        let registers = u64::from(stack.words) + u64::from(stack.doubles);
        let warp = registers + 4 * u64::from(stack.preds) + LANES as u64 * u64::from(stack.local);
        let shared = u64::from(entry.static_shared).next_multiple_of(16);
        (warp, shared + 2 * entry.reach() as u64)
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
