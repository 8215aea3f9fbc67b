//! Occupancy: the number of blocks that run at a time.

#![expect(
    unsafe_code,
    reason = "a program's own function says the shared bytes of a block"
)]

use std::ffi::c_int;

use bus_schemas::limits::LAUNCH_BYTES;

use crate::abi::{Function, Handle};
use crate::current_context::current_device;
use crate::launch::Shape;
use crate::module::Kernel;
use crate::status::{Result, Status, note};

/// `CUoccupancyB2DSize`: the dynamic shared bytes of a block with a number of threads.
pub(crate) type SharedOfBlock = unsafe extern "C" fn(c_int) -> usize;

/// Refuses a cooperative launch of more blocks than run at a time, because each of them waits for
/// all others. Machine code is refused too if the worker is of an older build. Such code gets its
/// grid's workspace from the driver's launch of a whole grid.
pub(crate) fn fits_together(kernel: Handle<Kernel>, shape: Shape) -> Result {
    let takes = current_device()?.properties.takes_launch_attributes();
    if !takes && kernel.get()?.is_machine_code() {
        let why = "this worker launches no machine code for a whole grid to wait, only PTX; a newer one does";
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

/// Blocks of one launch that a processor runs at a time: its threads keep a limited number in
/// progress, in limited memory. `None` on a GPU, where the other figures decide.
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

/// The figures from which the memory of a block is computed.
struct BlockMemory {
    threads: u64,
    /// Bytes of the block.
    shared: u64,
    /// Bytes of a thread.
    local: u64,
    /// Registers of a thread.
    registers: u64,
}

impl BlockMemory {
    /// Blocks that the worker keeps in progress within its limit. An eighth of the limit stays
    /// free, because the blocks are divided evenly between threads. A register counts twice,
    /// because the worker's own compiler may need more of them than NVIDIA's.
    fn fitting(&self) -> u64 {
        let thread = self.local + 8 * self.registers;
        let block = self.threads.next_multiple_of(32) * thread + self.shared;
        (LAUNCH_BYTES - LAUNCH_BYTES / 8) / block.max(1)
    }
}

/// Shared memory is allocated in steps of this many bytes.
const SHARED_STEP: usize = 128;

/// Warps that fit a multiprocessor at a time by their registers. Each warp gets registers in steps
/// of 256, from one of four parts of the multiprocessor.
fn registers_allow(all: c_int, each: c_int) -> c_int {
    let warp = (i64::from(each.max(1)) * 32 + 255) / 256 * 256;
    c_int::try_from(i64::from(all) / 4 / warp * 4).unwrap_or(c_int::MAX)
}

/// Blocks of `threads` threads that run on one multiprocessor at a time. Programs multiply it by
/// the number of multiprocessors for the grid of a cooperative launch. On a processor, the answer
/// is such that this grid runs at a time, unless not even one block for each multiprocessor fits.
pub(crate) fn occupancy(kernel: Handle<Kernel>, threads: c_int, shared: usize) -> Result<c_int> {
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
    let by_registers = registers_allow(attribute(82), of_kernel(4)?) / warps;
    let bytes = shared + of_kernel(1)? as usize + attribute(111) as usize;
    let bytes = bytes.next_multiple_of(SHARED_STEP);
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

/// The block size with the most threads at a time, and the number of blocks that fill the device.
pub(crate) fn potential(
    kernel: Handle<Kernel>,
    of_block: Function<'_, SharedOfBlock>,
    shared: usize,
    limit: c_int,
) -> Result<(c_int, c_int)> {
    // SAFETY: a program names this function to be called during the call, with any block size.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against the answers of an H200 driver, as recorded in `tests/gpu/driver.json`.
    #[test]
    fn registers_are_handed_out_as_a_driver_does() {
        // Registers of a thread, warps at a time.
        for (each, warps) in [
            (16, 128),
            (22, 84),
            (32, 64),
            (47, 40),
            (128, 16),
            (168, 12),
            (255, 8),
        ] {
            assert_eq!(registers_allow(65_536, each), warps, "{each} registers");
        }
    }
}
