//! Launches and occupancy.

use std::ffi::{c_int, c_uint};

use bus_schemas::limits::LAUNCH_BYTES;

use crate::abi::{Count, Data, Function, Handle, HostCall, HostFunction, In, List, Out};
use crate::capture::or_capture;
use crate::current_context::current_device;
use crate::graph::{Launch, Work};
use crate::guard::api;
use crate::launch::{self, Arguments, Callee, Parameters, Shape};
use crate::module::Kernel;
use crate::status::{Result, Status, note};
use crate::stream::Stream;
use crate::thread_form::Argument;
use crate::work;

/// `CUoccupancyB2DSize`: the dynamic shared bytes of a block of so many threads.
type SharedOfBlock = unsafe extern "C" fn(c_int) -> usize;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig<'a> {
    shape: Shape,
    stream: Handle<Stream>,
    attributes: List<'a, LaunchAttribute>,
    count: Count<'a, c_uint>,
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

/// Blocks of a cluster, as an attribute says.
fn cluster_blocks(attribute: &LaunchAttribute) -> i64 {
    let [first, second, ..] = attribute.value;
    let sides = [first as u32, (first >> 32) as u32, second as u32];
    let blocks = sides.iter().map(|side| i64::from((*side).max(1)));
    blocks.fold(1, i64::saturating_mul)
}

/// Launches a kernel on the current device, or records it where the stream is captured.
fn launch(shape: Shape, stream: Handle<Stream>, arguments: Arguments<'_>) -> Result {
    let number = stream.op_number()?;
    let node = || Launch::new(shape, arguments).map(Work::Kernel);
    or_capture(stream, node, || {
        launch::launch(current_device()?, shape, number, arguments)
    })
}

/// Launches a kernel as a structure says, or records it.
fn launch_by(config: LaunchConfig<'_>, arguments: Arguments<'_>) -> Result {
    for attribute in config.attributes.items(config.count.whole())? {
        if attribute.id == CLUSTER && cluster_blocks(&attribute) > 1 {
            return Err(Status::INVALID_CLUSTER_SIZE);
        }
        if attribute.id == COOPERATIVE && attribute.value[0] as u32 != 0 {
            fits_together(arguments.kernel(), config.shape)?;
        }
    }
    launch(config.shape, config.stream, arguments)
}

/// Refuses a cooperative launch of more blocks than run at a time: each of them waits for all others. And of
/// machine code: it has its grid's workspace from a driver's launch of a whole grid, which there is none of.
fn fits_together(kernel: Handle<Kernel>, shape: Shape) -> Result {
    if kernel.get()?.is_machine_code() {
        let why = "machine code is not launched for a whole grid to wait; PTX is";
        note(Status::NOT_SUPPORTED, why.to_owned());
        return Err(Status::NOT_SUPPORTED);
    }
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
fn together(kernel: Handle<Kernel>, threads: c_int, shared: usize) -> Result<Option<u64>> {
    let kernel = kernel.get()?;
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
fn occupancy(kernel: Handle<Kernel>, threads: c_int, shared: usize) -> Result<c_int> {
    let found = kernel.get()?;
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
    kernel: Handle<Kernel>,
    of_block: Function<'_, SharedOfBlock>,
    shared: usize,
    limit: c_int,
) -> Result<(c_int, c_int)> {
    // SAFETY: a program names this function to be asked during the call, with any size of a block.
    let shared = |threads| of_block.get().map_or(shared, |of| unsafe { of(threads) });
    let properties = &current_device()?.properties;
    let found = kernel.get()?;
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

/// Answers with a block size and the blocks that fill the device.
fn put_potential(
    (blocks, threads): (c_int, c_int),
    grid: &Out<'_, c_int>,
    block: &Out<'_, c_int>,
) -> Result {
    grid.put_if(blocks);
    block.put_if(threads);
    Ok(())
}

api! {
    fn cuLaunchKernel<'c>(
        function: Callee<'c>, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Handle<Stream>,
        pointers: Parameters<'c>, extra: Parameters<'c>,
    ) ptsz cuLaunchKernel_ptsz {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(Shape { grid, block, shared }, stream, Arguments::new(function, pointers, extra))
    }

    fn cuLaunchKernelEx<'c>(
        config: In<'_, LaunchConfig<'_>>, function: Callee<'c>, pointers: Parameters<'c>,
        extra: Parameters<'c>,
    ) => launch_by(config.take()?, Arguments::new(function, pointers, extra));

    // The stream is in the structure.
    fn cuLaunchKernelEx_ptsz<'c>(
        config: In<'_, LaunchConfig<'_>>, function: Callee<'c>, pointers: Parameters<'c>,
        extra: Parameters<'c>,
    ) {
        let config = config.take()?;
        let stream = config.stream.of_thread();
        launch_by(LaunchConfig { stream, ..config }, Arguments::new(function, pointers, extra))
    }

    fn cuLaunchCooperativeKernel<'c>(
        function: Callee<'c>, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Handle<Stream>,
        pointers: Parameters<'c>,
    ) ptsz cuLaunchCooperativeKernel_ptsz {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let shape = Shape { grid, block, shared };
        fits_together(function.kernel(), shape)?;
        launch(shape, stream, Arguments::new(function, pointers, List::NONE))
    }

    fn cuLaunchHostFunc<'c>(stream: Handle<Stream>, function: Function<'c, HostFunction>, data: Data<'c>)
        ptsz cuLaunchHostFunc_ptsz
    {
        stream.op_number()?;
        let call = HostCall::new(function, data)?;
        or_capture(stream, || Ok(Work::Host(call)), || {
            // In the stream's order: behind what was called so far, ahead of what comes.
            work::sync(current_device()?)?;
            call.call();
            Ok(())
        })
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<'_, c_int>, function: Handle<Kernel>, threads: c_int, shared: usize,
    ) => blocks.put(occupancy(function, threads, shared)?);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<'_, c_int>, function: Handle<Kernel>, threads: c_int, shared: usize, _flags: c_uint,
    ) => blocks.put(occupancy(function, threads, shared)?);
    fn cuOccupancyMaxActiveClusters(
        clusters: Out<'_, c_int>, function: Handle<Kernel>, config: In<'_, LaunchConfig<'_>>,
    ) {
        let config = config.take()?;
        clusters.check()?;
        let mut blocks = 1;
        for attribute in config.attributes.items(config.count.whole())? {
            if attribute.id == CLUSTER {
                blocks = cluster_blocks(&attribute);
            }
        }
        let shape = config.shape;
        let threads = shape.block.iter().try_fold(1_u32, |all, side| all.checked_mul(*side));
        let threads = threads.and_then(|threads| c_int::try_from(threads).ok());
        let each = occupancy(function, threads.ok_or(Status::INVALID_VALUE)?, shape.shared as usize)?;
        let all = i64::from(each) * i64::from(current_device()?.properties.multiprocessors());
        clusters.put(c_int::try_from(all / blocks.max(1)).unwrap_or(c_int::MAX))
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<'_, c_int>, block: Out<'_, c_int>, function: Handle<Kernel>,
        of_block: Function<'_, SharedOfBlock>, shared: usize, limit: c_int,
    ) => put_potential(potential(function, of_block, shared, limit)?, &grid, &block);
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<'_, c_int>, block: Out<'_, c_int>, function: Handle<Kernel>,
        of_block: Function<'_, SharedOfBlock>, shared: usize, limit: c_int, _flags: c_uint,
    ) => put_potential(potential(function, of_block, shared, limit)?, &grid, &block);

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: Out<'_, usize>, function: Handle<Kernel>, blocks: c_int, threads: c_int,
    ) {
        let kernel = function.get()?;
        if blocks <= 0 || threads <= 0 {
            return Err(Status::INVALID_VALUE);
        }
        let properties = &current_device()?.properties;
        let fixed = kernel.attribute(1, properties.compute())?;
        let reserved = properties.attribute(111).unwrap_or(0);
        let each = properties.attribute(81).unwrap_or(0) / blocks - reserved - fixed;
        let most = properties.shared_optin() - fixed;
        bytes.put(each.clamp(0, most.max(0)) as usize)
    }
}
