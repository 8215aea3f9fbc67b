//! Modules and their functions, as named by a session's program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bus_schemas::{
    Code, Dim, Failure, FunctionFingerprint, Incarnation, KernelKey, Launch, LaunchAttributes,
    ModuleHash,
};

use crate::error::{Result, refused};

/// Maximum threads of a block.
const BLOCK_THREADS: u64 = 1024;
/// Largest grid: x, y, z.
const GRID: Dim = [i32::MAX as u32, 65_535, 65_535];
/// Largest block: x, y, z.
const BLOCK: Dim = [1024, 1024, 64];
/// Maximum shared bytes of a block on any device.
const SHARED: u64 = 227 << 10;

/// Images that were found valid, so that each is parsed once, and the workers' verdicts on them.
#[derive(Debug, Default)]
pub struct Images {
    known: Mutex<HashMap<ModuleHash, Arc<ptx::ModuleInfo>>>,
    judged: Mutex<HashMap<(Incarnation, ModuleHash), Option<Failure>>>,
}

impl Images {
    /// A worker's verdict on an image: none yet, the reason why its device cannot run it, or that
    /// it can.
    pub(crate) fn judgement(&self, of: (Incarnation, ModuleHash)) -> Option<Option<Failure>> {
        let judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.get(&of).cloned()
    }

    pub(crate) fn judge(&self, of: (Incarnation, ModuleHash), refused: Option<Failure>) {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.insert(of, refused);
    }

    /// The summary of an image.
    ///
    /// # Errors
    /// [`Code::BadModule`] if it is neither PTX, with line and column, nor machine code.
    pub fn examine(&self, hash: ModuleHash, image: &[u8]) -> Result<Arc<ptx::ModuleInfo>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(info) = known().get(&hash) {
            return Ok(Arc::clone(info));
        }
        let info = ptx::ModuleInfo::parse(image)
            .map_err(|error| refused(Code::BadModule, error.to_string()))?;
        let info = Arc::new(info);
        known().insert(hash, Arc::clone(&info));
        Ok(info)
    }
}

/// An image loaded into a session.
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) slot: u32,
    pub(crate) hash: ModuleHash,
    pub(crate) info: Arc<ptx::ModuleInfo>,
}

/// A kernel of a loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    slot: u32,
    index: u32,
    fingerprint: FunctionFingerprint,
    param_bytes: u32,
    static_shared: u32,
    /// Maximum threads of a block, and the exact block if the image demands one.
    threads: u64,
    exact: Option<Dim>,
}

impl Module {
    /// Finds a kernel by its entry name.
    ///
    /// # Errors
    /// [`Code::UnknownFunction`] with the existing names.
    pub fn function(&self, name: &str) -> Result<Function> {
        let entries = (0..).zip(&self.info.entries);
        let Some((index, entry)) = entries.into_iter().find(|(_, entry)| entry.name == name) else {
            let names: Vec<&str> = self.functions().take(20).collect();
            let detail = format!("no entry {name:?}; the module has {}", names.join(", "));
            return Err(refused(Code::UnknownFunction, detail));
        };
        let threads = entry.maxntid.map_or(BLOCK_THREADS, product);
        Ok(Function {
            slot: self.slot,
            index,
            fingerprint: FunctionFingerprint::new(&self.hash, name),
            param_bytes: entry.param_bytes,
            static_shared: entry.static_shared,
            threads: threads.min(BLOCK_THREADS),
            exact: entry.reqntid,
        })
    }

    /// Names of its kernels, in order.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.info.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Summary of the image.
    #[must_use]
    pub fn info(&self) -> &Arc<ptx::ModuleInfo> {
        &self.info
    }

    /// BLAKE3 of the image.
    #[must_use]
    pub fn hash(&self) -> ModuleHash {
        self.hash
    }
}

/// The stream, shape and attributes of a kernel launch.
#[derive(Debug, Clone, Copy)]
pub struct LaunchOn {
    /// The session's stream number; 0 is the default stream.
    pub stream: u16,
    /// Blocks.
    pub grid: Dim,
    /// Threads of a block.
    pub block: Dim,
    /// Dynamic shared bytes.
    pub shared: u32,
    /// Attributes beyond the shape. Only a device with `launch_attributes` accepts any.
    pub attributes: LaunchAttributes,
}

impl Function {
    /// Bytes of the parameter block of a launch.
    #[must_use]
    pub fn param_bytes(&self) -> u32 {
        self.param_bytes
    }

    /// The launch, which [`Function::check`] has accepted, and its key.
    #[inline]
    pub(crate) fn launch(&self, on: &LaunchOn) -> (Launch, KernelKey) {
        let launch = Launch {
            module: self.slot,
            function: self.index,
            grid: on.grid,
            block: on.block,
            shared: on.shared,
            attributes: on.attributes,
        };
        (launch, self.fingerprint.launch_key(&launch))
    }

    /// Refuses a shape that the kernel or every device lacks, as CUDA does: a wrong one is an error
    /// of this call, not of the session.
    ///
    /// # Errors
    /// [`Code::BadLaunch`].
    #[inline]
    pub(crate) fn check(&self, on: &LaunchOn, params: &[u8]) -> Result<()> {
        let LaunchOn {
            grid,
            block,
            shared,
            ..
        } = *on;
        let in_range =
            |dim: Dim, most: Dim| (0..3).all(|axis| (1..=most[axis]).contains(&dim[axis]));
        let fits = in_range(grid, GRID)
            && in_range(block, BLOCK)
            && product(block) <= self.threads
            && self.exact.is_none_or(|exact| exact == block)
            && params.len() == self.param_bytes as usize
            && u64::from(shared) + u64::from(self.static_shared) <= SHARED;
        match fits {
            true => Ok(()),
            false => Err(self.misfit(grid, block, shared, params.len())),
        }
    }

    #[cold]
    fn misfit(
        &self,
        grid: Dim,
        block: Dim,
        shared: u32,
        params: usize,
    ) -> crate::error::ClientError {
        if params != self.param_bytes as usize {
            let detail = format!(
                "{params} parameter bytes; the entry takes {}",
                self.param_bytes
            );
            return refused(Code::BadLaunch, detail);
        }
        if product(block) > self.threads || self.exact.is_some_and(|exact| exact != block) {
            let detail = format!(
                "a block of {block:?} threads; the entry allows {}",
                self.threads
            );
            return refused(Code::BadLaunch, detail);
        }
        let total = u64::from(shared) + u64::from(self.static_shared);
        if total > SHARED {
            let detail = format!("{total} shared bytes; no device has more than {SHARED}");
            return refused(Code::LaunchResources, detail);
        }
        refused(
            Code::BadLaunch,
            format!("grid {grid:?} and block {block:?} are not within {GRID:?} and {BLOCK:?}"),
        )
    }
}

fn product(dim: Dim) -> u64 {
    // Saturating: an image may claim any numbers.
    dim.iter().fold(1, |product: u64, side| {
        product.saturating_mul(u64::from(*side))
    })
}
