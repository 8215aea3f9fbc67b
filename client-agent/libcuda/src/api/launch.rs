//! Launches and occupancy.

use std::ffi::{c_int, c_uint, c_void};

use bus_schemas::limits::LAUNCH_BYTES;

use super::{put, put_if};
use crate::capture::or_capture;
use crate::current::current_device;
use crate::graph::{HostCall, Launch, Work};
use crate::guard::api;
use crate::launch::{self, Arguments, Shape};
use crate::module::KERNELS;
use crate::status::{Result, Status};
use crate::stream::number_of;
use crate::work;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: usize,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

impl LaunchConfig {
    fn shape(&self) -> Shape {
        Shape {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
        }
    }
}

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    id: c_int,
    pad: [u8; 4],
    value: [u64; 8],
}

/// The attributes of cooperative launches and of thread block clusters.
const COOPERATIVE: c_int = 2;
const CLUSTER: c_int = 4;

/// Launches a kernel on the current device, or records it where the stream is captured.
///
/// # Safety
/// The arguments' pointers are what the kernel's image asks for.
unsafe fn launch(kernel: usize, shape: Shape, stream: usize, arguments: Arguments) -> Result {
    let number = number_of(stream)?;
    // SAFETY: the caller vouches for the arguments.
    let node = || unsafe { Launch::new(kernel, shape, arguments) }.map(Work::Kernel);
    // SAFETY: as above.
    or_capture(stream, node, || unsafe {
        launch::launch(current_device()?, kernel, shape, number, arguments)
    })
}

/// Refuses a cooperative launch of more blocks than run at a time: each of them waits for all others.
fn fits_together(kernel: usize, shape: Shape) -> Result {
    let threads = shape.block.iter().try_fold(1_i32, |product, side| {
        product.checked_mul(i32::try_from(*side).ok()?)
    });
    let threads = threads.ok_or(Status::INVALID_VALUE)?;
    let each = occupancy(kernel, threads, shape.shared as usize)?;
    let said = i64::from(each) * i64::from(current_device()?.properties.multiprocessors());
    let most = match together(kernel, threads, shape.shared as usize)? {
        Some(real) => u64::try_from(said).unwrap_or(0).min(real),
        None => u64::try_from(said).unwrap_or(0),
    };
    let blocks = shape.grid.iter().fold(1_u64, |product, side| {
        product.saturating_mul(u64::from(*side))
    });
    match blocks <= most {
        true => Ok(()),
        false => Err(Status::COOPERATIVE_LAUNCH_TOO_LARGE),
    }
}

/// Blocks of one launch that a processor runs at a time: its threads keep a limited number in progress,
/// in a limited memory. `None` on a GPU, where the other figures say it.
fn together(kernel: usize, threads: c_int, shared: usize) -> Result<Option<u64>> {
    let kernel = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
    let properties = &current_device()?.properties;
    let Some(resident) = properties.resident_blocks() else {
        return Ok(None);
    };
    let of_kernel = |number| {
        let value = kernel.attribute(number, properties.compute())?;
        Result::Ok(u64::try_from(value).unwrap_or(0))
    };
    let block = BlockMemory {
        threads: u64::try_from(threads).unwrap_or(0),
        shared: shared as u64 + of_kernel(1)?,
        local: of_kernel(3)?,
        registers: of_kernel(4)?,
    };
    Ok(Some(block.fitting().min(resident.into())))
}

/// What the memory of one block is computed from.
struct BlockMemory {
    threads: u64,
    /// Bytes of the block.
    shared: u64,
    /// Bytes of a thread.
    local: u64,
    /// Of a thread.
    registers: u64,
}

impl BlockMemory {
    /// Blocks that the worker keeps in progress within its limit. An eighth of it stays free, for the
    /// blocks are divided evenly between threads; a register counts twice, for the worker's own compiler
    /// may need more of them than NVIDIA's.
    fn fitting(&self) -> u64 {
        let thread = self.local + 8 * self.registers;
        let block = self.threads.next_multiple_of(32) * thread + self.shared;
        (LAUNCH_BYTES - LAUNCH_BYTES / 8) / block.max(1)
    }
}

/// Blocks of so many threads that run on one multiprocessor at a time. Programs multiply it by the
/// number of multiprocessors for the grid of a cooperative launch; on a processor the answer is such that
/// this grid runs at a time, except where not even one block for each multiprocessor does.
fn occupancy(kernel: usize, threads: c_int, shared: usize) -> Result<c_int> {
    let found = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
    let properties = &current_device()?.properties;
    let attribute = |number| properties.attribute(number).unwrap_or(1);
    let of_kernel = |number| found.attribute(number, properties.compute());
    if threads <= 0 {
        return Err(Status::INVALID_VALUE);
    }
    if threads > of_kernel(0)? {
        return Ok(0);
    }
    let warps = (threads + 31) / 32;
    let by_threads = attribute(39) / (warps * 32);
    let by_registers = attribute(82) / (warps * 32 * of_kernel(4)?.max(1));
    let bytes = shared + of_kernel(1)? as usize + attribute(111) as usize;
    let by_shared = attribute(81) as usize / bytes.max(1);
    let by_shared = c_int::try_from(by_shared).unwrap_or(c_int::MAX);
    let really = together(kernel, threads, shared)?.map_or(c_int::MAX, |blocks| {
        let all = c_int::try_from(blocks).unwrap_or(c_int::MAX);
        (all / properties.multiprocessors().max(1)).max(1)
    });
    Ok(by_threads
        .min(by_registers)
        .min(by_shared)
        .min(attribute(106))
        .min(really))
}

/// The block size of the most threads at a time, and the blocks that fill the device.
fn potential(
    kernel: usize,
    shared: impl Fn(c_int) -> usize,
    limit: c_int,
) -> Result<(c_int, c_int)> {
    let properties = &current_device()?.properties;
    let found = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
    let most = found.attribute(0, properties.compute())?;
    let most = if limit > 0 { most.min(limit) } else { most };
    let mut best = (0, 0, 0);
    for threads in (1..=(most / 32).max(1))
        .rev()
        .map(|warps| (warps * 32).min(most))
    {
        let blocks = occupancy(kernel, threads, shared(threads))?;
        if blocks * threads > best.0 {
            best = (blocks * threads, blocks, threads);
        }
    }
    Ok((best.1 * properties.multiprocessors(), best.2))
}

api! {
    fn cuLaunchKernel(
        function: usize,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: usize,
        pointers: *const *const c_void,
        extra: *const *const c_void,
    ) also cuLaunchKernel_ptsz {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
        };
        // SAFETY: the caller's pointers.
        unsafe { launch(function, shape, stream, Arguments { pointers, extra }) }
    }

    fn cuLaunchKernelEx(
        config: *const LaunchConfig,
        function: usize,
        pointers: *const *const c_void,
        extra: *const *const c_void,
    ) also cuLaunchKernelEx_ptsz {
        if config.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        let config = unsafe { config.read() };
        for at in 0..config.count as usize {
            if config.attributes.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            // SAFETY: there are so many attributes.
            let attribute = unsafe { config.attributes.add(at).read() };
            let of_cluster = attribute.value[0] as u32 > 1 || (attribute.value[0] >> 32) > 1;
            if attribute.id == CLUSTER && of_cluster {
                return Err(Status::INVALID_CLUSTER_SIZE);
            }
            if attribute.id == COOPERATIVE && attribute.value[0] as u32 != 0 {
                fits_together(function, config.shape())?;
            }
        }
        let shape = config.shape();
        // SAFETY: the caller's pointers.
        unsafe { launch(function, shape, config.stream, Arguments { pointers, extra }) }
    }

    fn cuLaunchCooperativeKernel(
        function: usize,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: usize,
        pointers: *const *const c_void,
    ) also cuLaunchCooperativeKernel_ptsz {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
        };
        fits_together(function, shape)?;
        let arguments = Arguments { pointers, extra: std::ptr::null() };
        // SAFETY: the caller's pointers.
        unsafe { launch(function, shape, stream, arguments) }
    }

    fn cuLaunchHostFunc(
        stream: usize,
        function: Option<unsafe extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) also cuLaunchHostFunc_ptsz {
        number_of(stream)?;
        let function = function.ok_or(Status::INVALID_VALUE)?;
        let node = HostCall { function, data: data as usize };
        or_capture(stream, || Ok(Work::Host(node)), || {
            // In the stream's order: behind what was called so far, ahead of what comes.
            work::sync(current_device()?)?;
            // SAFETY: the caller's function.
            unsafe { function(data) };
            Ok(())
        })
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: usize,
        threads: c_int,
        shared: usize,
    ) {
        // SAFETY: the caller's pointer.
        unsafe { put(blocks, occupancy(function, threads, shared)?) }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        function: usize,
        threads: c_int,
        shared: usize,
        flags: c_uint,
    ) {
        let _ = flags;
        // SAFETY: the caller's pointer.
        unsafe { put(blocks, occupancy(function, threads, shared)?) }
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int,
        block: *mut c_int,
        function: usize,
        of_block: Option<unsafe extern "C" fn(c_int) -> usize>,
        shared: usize,
        limit: c_int,
    ) {
        // SAFETY: the caller's function.
        let bytes = |threads| of_block.map_or(shared, |of| unsafe { of(threads) });
        let (blocks, threads) = potential(function, bytes, limit)?;
        // SAFETY: the caller's pointers.
        unsafe {
            put_if(grid, blocks);
            put_if(block, threads);
        }
        Ok(())
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut c_int,
        block: *mut c_int,
        function: usize,
        of_block: Option<unsafe extern "C" fn(c_int) -> usize>,
        shared: usize,
        limit: c_int,
        flags: c_uint,
    ) {
        let _ = flags;
        // SAFETY: the caller's function.
        let bytes = |threads| of_block.map_or(shared, |of| unsafe { of(threads) });
        let (blocks, threads) = potential(function, bytes, limit)?;
        // SAFETY: the caller's pointers.
        unsafe {
            put_if(grid, blocks);
            put_if(block, threads);
        }
        Ok(())
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        function: usize,
        blocks: c_int,
        threads: c_int,
    ) {
        let kernel = KERNELS.get(function).ok_or(Status::INVALID_HANDLE)?;
        if blocks <= 0 || threads <= 0 {
            return Err(Status::INVALID_VALUE);
        }
        let properties = &current_device()?.properties;
        let fixed = kernel.attribute(1, properties.compute())?;
        let reserved = properties.attribute(111).unwrap_or(0);
        let each = properties.attribute(81).unwrap_or(0) / blocks - reserved - fixed;
        let most = properties.shared_optin() - fixed;
        // SAFETY: the caller's pointer.
        unsafe { put(bytes, each.clamp(0, most.max(0)) as usize) }
    }
}
