//! One launch: the state that all its blocks share.

use super::instance::Instance;
use super::program::Program;
use crate::decode::form::{Constant, Frame, Reserved, Special};
use crate::error::LaunchError;
use crate::lane_value::{Doubles, LANES, Words};
use ptx::Scalar;
use std::sync::Arc;

/// Maximum shared memory of a block, dynamic included, as on a GPU of compute capability 8.0.
pub(crate) const SHARED_LIMIT: u64 = 163 << 10;

/// Maximum number of blocks of a grid along each axis.
pub(crate) const GRID_LIMITS: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Maximum number of threads of a block along each axis.
pub(crate) const BLOCK_LIMITS: [u32; 3] = [1024, 1024, 64];
/// Maximum number of threads of a block.
pub(crate) const BLOCK_THREADS: u32 = 1024;

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

impl Grid {
    /// Blocks and threads of one dimension, without dynamic shared memory.
    pub const fn flat(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
        }
    }
}

/// A checked launch.
pub(crate) struct Launch {
    pub(crate) program: Arc<Program>,
    pub(crate) entry: usize,
    pub(crate) function: u32,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) blocks: u64,
    pub(crate) threads: u32,
    pub(crate) warps: usize,
    pub(crate) stack: Frame,
    /// True if the threads of a full warp differ in x alone, lane by lane.
    pub(crate) linear: bool,
    pub(crate) static_shared: u32,
    pub(crate) dynamic_shared: u32,
    /// Static and dynamic bytes.
    pub(crate) shared: u32,
    /// A bound in bytes above all slots of all banks, a whole number of rows.
    pub(crate) reach: usize,
    /// See [`Context::preds_mask`](crate::engine::context::Context::preds_mask).
    pub(crate) preds_mask: u32,
    pub(crate) words: Vec<Words>,
    pub(crate) doubles: Vec<Doubles>,
    /// The parameter block, for kernels that take addresses in it.
    pub(crate) params: Vec<u8>,
}

fn check(program: &Program, entry: usize, grid: Grid, params: usize) -> Result<u32, LaunchError> {
    let entry = &program.decoded.entries[entry];
    let Grid {
        grid,
        block,
        shared,
    } = grid;
    if (0..3).any(|axis| grid[axis] == 0 || grid[axis] > GRID_LIMITS[axis]) {
        return Err(LaunchError::Grid(grid));
    }
    let threads = block.iter().map(|n| u64::from(*n)).product::<u64>();
    let outside = |axis: usize| block[axis] == 0 || block[axis] > BLOCK_LIMITS[axis];
    if (0..3).any(outside) || threads > u64::from(BLOCK_THREADS) {
        return Err(LaunchError::Block(block));
    }
    if let Some(limit) = entry.reqntid.filter(|limit| *limit != block) {
        return Err(LaunchError::BlockLimit { block, limit });
    }
    let most = |limit: &[u32; 3]| limit.iter().map(|n| u64::from(*n)).product::<u64>();
    if let Some(limit) = entry.maxntid.filter(|limit| threads > most(limit)) {
        return Err(LaunchError::BlockLimit { block, limit });
    }
    let all = u64::from(entry.static_shared).next_multiple_of(16) + u64::from(shared);
    let reserved = if entry.reserves { Reserved::BYTES } else { 0 };
    if all > SHARED_LIMIT + 16 + u64::from(reserved) {
        return Err(LaunchError::Shared(all, SHARED_LIMIT));
    }
    if params != entry.param_bytes as usize {
        return Err(LaunchError::Params {
            given: params,
            wanted: entry.param_bytes as usize,
        });
    }
    Ok(all as u32)
}

impl Launch {
    /// Bytes of reserved shared memory.
    fn reserved(&self) -> u32 {
        let reserves = self.program.decoded.entries[self.entry].reserves;
        if reserves { Reserved::BYTES } else { 0 }
    }

    /// Checks a launch and computes its constants; reuses the buffers of `old`.
    pub(crate) fn new(
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
        old: (Vec<Words>, Vec<Doubles>),
    ) -> Result<Self, LaunchError> {
        let program = Arc::clone(&instance.program);
        let shared = check(&program, entry, grid, params.len())?;
        let found = &program.decoded.entries[entry];
        let threads = grid.block.iter().product::<u32>();
        let reach = found.reach();
        let mut launch = Self {
            entry,
            function: found.function,
            grid: grid.grid,
            block: grid.block,
            blocks: grid.grid.iter().map(|n| u64::from(*n)).product(),
            threads,
            warps: threads.div_ceil(LANES as u32) as usize,
            stack: found.stack,
            linear: grid.block[0].is_multiple_of(LANES as u32) || grid.block[1..] == [1, 1],
            static_shared: found.static_shared,
            dynamic_shared: grid.shared,
            shared,
            words: Vec::new(),
            doubles: Vec::new(),
            reach,
            preds_mask: found.stack.preds.max(1).next_power_of_two() - 1,
            params: params.to_owned(),
            program: Arc::clone(&program),
        };
        let (mut words, mut doubles) = old;
        // Rows that this entry does not use keep their contents, because it cannot name them.
        words.resize(words.len().max(reach / 128), Words([0; LANES]));
        doubles.resize(doubles.len().max(reach.div_ceil(256)), Doubles([0; LANES]));
        for (at, it) in found.words.iter() {
            let row = constant(&launch, params, instance.base, *it);
            words[*at as usize].0 = row.map(|bits| bits as u32);
        }
        for (at, it) in found.doubles.iter() {
            doubles[*at as usize].0 = constant(&launch, params, instance.base, *it);
        }
        launch.words = words;
        launch.doubles = doubles;
        Ok(launch)
    }

    /// Replaces the parameters by others of the same size.
    pub(crate) fn set_params(&mut self, params: &[u8]) -> Result<(), LaunchError> {
        if params.len() != self.params.len() {
            return Err(LaunchError::Params {
                given: params.len(),
                wanted: self.params.len(),
            });
        }
        self.params.copy_from_slice(params);
        let entry = &self.program.decoded.entries[self.entry];
        for (at, it) in entry.words.iter() {
            if let Constant::Param { offset, ty } = *it {
                self.words[*at as usize].0 = [param(params, offset, ty) as u32; LANES];
            }
        }
        for (at, it) in entry.doubles.iter() {
            if let Constant::Param { offset, ty } = *it {
                self.doubles[*at as usize].0 = [param(params, offset, ty); LANES];
            }
        }
        Ok(())
    }

    /// Bytes that a block in progress takes.
    pub(crate) fn block_bytes(&self) -> u64 {
        let (warp, fixed) = self.program.block_bytes(self.entry);
        warp * self.warps as u64 + fixed + u64::from(self.dynamic_shared)
    }

    /// A value of a warp's place, for each lane.
    pub(crate) fn place(&self, special: Special, warp: usize, ctaid: [u32; 3]) -> [u32; LANES] {
        let [x, y, _] = self.block;
        match special {
            Special::Ctaid(axis) => return [ctaid[usize::from(axis)]; LANES],
            Special::WarpId => return [warp as u32; LANES],
            Special::Tid(_) => {}
        }
        std::array::from_fn(|lane| {
            let thread = (warp * LANES + lane) as u32;
            match special {
                Special::Tid(0) => thread % x,
                Special::Tid(1) => thread / x % y,
                _ => thread / x / y,
            }
        })
    }

    /// Index of a thread in its block.
    pub(crate) fn thread(&self, warp: usize, lane: u32) -> [u32; 3] {
        let thread = (warp * LANES) as u32 + lane;
        let [x, y, _] = self.block;
        [thread % x, thread / x % y, thread / x / y]
    }
}

/// A piece of the parameter block, extended by its type.
fn param(params: &[u8], offset: u32, ty: Scalar) -> u64 {
    let mut bytes = [0; 8];
    let size = ty.size() as usize;
    let from = params.get(offset as usize..).unwrap_or_default();
    let have = from.len().min(size);
    bytes[..have].copy_from_slice(&from[..have]);
    let bits = u64::from_le_bytes(bytes);
    let unused = 64 - 8 * size as u32;
    if ty.is_signed() {
        ((bits << unused) as i64 >> unused) as u64
    } else {
        bits
    }
}

/// The value of a launch's constant, for all lanes; module variables are in a block that begins at
/// `base`.
fn constant(launch: &Launch, params: &[u8], base: u64, it: Constant) -> [u64; LANES] {
    let one = match it {
        Constant::Bits(bits) => bits,
        Constant::Param { offset, ty } => param(params, offset, ty),
        Constant::Global { symbol, offset } => {
            let at = base + launch.program.layout.offset(symbol as usize);
            at.wrapping_add(offset as u64)
        }
        Constant::DynamicShared { offset } => {
            u64::from(launch.static_shared.next_multiple_of(16)).wrapping_add(offset as u64)
        }
        Constant::Ntid(axis) => u64::from(launch.block[usize::from(axis)]),
        Constant::Nctaid(axis) => u64::from(launch.grid[usize::from(axis)]),
        Constant::SharedSize { total: true } => u64::from(launch.shared - launch.reserved()),
        Constant::SharedSize { total: false } => u64::from(launch.dynamic_shared),
        Constant::ReservedShared(what) => {
            u64::from(what.value(launch.static_shared - launch.reserved()))
        }
        Constant::Lane => return std::array::from_fn(|lane| lane as u64),
    };
    [one; LANES]
}
