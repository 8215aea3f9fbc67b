//! Launches and occupancy.

use std::ffi::{c_int, c_uint};

use crate::abi::{Count, Data, Function, Handle, HostCall, HostFunction, In, List, Out};
use crate::capture::or_capture;
use crate::current_context::current_device;
use crate::graph::{Launch, Work};
use crate::guard::api;
use crate::launch::{self, Arguments, Callee, How, Parameters, Shape};
use crate::launch_attributes::LaunchAttribute;
use crate::module::Kernel;
use crate::occupancy::{SharedOfBlock, fits_together, occupancy, potential};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::thread_form::Argument;
use crate::work;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig<'a> {
    shape: Shape,
    stream: Handle<Stream>,
    attributes: List<'a, LaunchAttribute>,
    count: Count<'a, c_uint>,
}

/// Launches a kernel on the current device, or records it if the stream is captured.
fn launch(how: How, stream: Handle<Stream>, arguments: Arguments<'_>) -> Result {
    let number = stream.op_number()?;
    let node = || Launch::new(how, arguments).map(Work::Kernel);
    or_capture(stream, node, || {
        launch::launch(current_device()?, how, number, arguments)
    })
}

/// Launches a kernel as the structure says, or records it.
fn launch_by(config: LaunchConfig<'_>, arguments: Arguments<'_>) -> Result {
    let mut how = How::plain(config.shape);
    for attribute in config.attributes.items(config.count.whole())? {
        attribute.apply(arguments.kernel(), &mut how)?;
    }
    launch(how, config.stream, arguments)
}

/// Answers with a block size and the number of blocks that fill the device.
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
        let how = How::plain(Shape { grid, block, shared });
        launch(how, stream, Arguments::new(function, pointers, extra))
    }

    fn cuLaunchKernelEx<'c>(
        config: In<'_, LaunchConfig<'_>>, function: Callee<'c>, pointers: Parameters<'c>,
        extra: Parameters<'c>,
    ) => launch_by(config.take()?, Arguments::new(function, pointers, extra));

    // The structure names the stream.
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
        launch(How::cooperative(shape), stream, Arguments::new(function, pointers, List::NONE))
    }

    fn cuLaunchHostFunc<'c>(stream: Handle<Stream>, function: Function<'c, HostFunction>, data: Data<'c>)
        ptsz cuLaunchHostFunc_ptsz
    {
        stream.op_number()?;
        let call = HostCall::new(function, data)?;
        or_capture(stream, || Ok(Work::Host(call)), || {
            // In the stream's order: behind all earlier calls, ahead of later ones.
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
            blocks = attribute.cluster_blocks().unwrap_or(blocks);
        }
        let shape = config.shape;
        let threads = shape.block.iter().try_fold(1_u32, |all, side| all.checked_mul(*side));
        let threads = threads.and_then(|threads| c_int::try_from(threads).ok());
        let each = occupancy(function, threads.ok_or(Status::INVALID_VALUE)?, shape.shared as usize)?;
        clusters.put(current_device()?.properties.clusters_at_a_time(each, blocks))
    }

    fn cuOccupancyMaxPotentialClusterSize(
        blocks: Out<'_, c_int>, function: Handle<Kernel>, config: In<'_, LaunchConfig<'_>>,
    ) {
        let config = config.take()?;
        let shape = config.shape;
        let threads = shape.block.iter().try_fold(1_u32, |all, side| all.checked_mul(*side));
        let threads = threads.and_then(|threads| c_int::try_from(threads).ok());
        let each = occupancy(function, threads.ok_or(Status::INVALID_VALUE)?, shape.shared as usize)?;
        let takes = current_device()?.properties.takes_clusters();
        let most = if takes { function.get()?.cluster_limit() } else { 1 };
        blocks.put(if each > 0 { most } else { 0 })
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
