//! Launches, and how many blocks run at a time.

use super::abi::{In, LaunchConfig, Out};
use crate::Nanos;
use crate::codes::{INVALID_CLUSTER_SIZE, INVALID_VALUE};
use crate::driver::{CallKind, Driver, call};
use crate::effects::{Effect, KernelCall};
use crate::kernels::duration;
use crate::modules::LoadedFunction;
use crate::timeline::Work;

/// Keys of the list in which a launch may name its parameters.
const END: u64 = 0;
const POINTER: u64 = 1;
const BYTES: u64 = 2;
/// Blocks of a cluster that every device of the architecture takes, and that some take.
const PORTABLE: u64 = 8;
const LARGE: u64 = 16;

/// A launch's shape.
#[derive(Debug, Clone, Copy)]
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: u64,
    cluster: u64,
}

fn product(of: [u32; 3]) -> u64 {
    of.iter().map(|n| u64::from(*n)).product()
}

/// Returns the parameters that a launch names in one of the two ways.
fn params(function: &LoadedFunction, each: In<u64>, list: In<u64>) -> Result<Vec<u8>, u32> {
    let wanted = function.entry.param_bytes as usize;
    if each.address() != 0 {
        let mut params = vec![0; wanted];
        let places = each.all(function.entry.params.len())?;
        for (param, place) in function.entry.params.iter().zip(places) {
            let bytes = In::<u8>::at(place).all(param.size as usize)?;
            let at = param.offset as usize;
            let to = params.get_mut(at..at + bytes.len()).ok_or(INVALID_VALUE)?;
            to.copy_from_slice(&bytes);
        }
        return Ok(params);
    }
    if list.address() == 0 {
        return if wanted == 0 {
            Ok(Vec::new())
        } else {
            Err(INVALID_VALUE)
        };
    }
    let (mut pointer, mut bytes) = (0, 0);
    for at in (0..).step_by(2) {
        match list.all(at + 1)?.last() {
            Some(&END) | None => break,
            Some(&POINTER) => pointer = list.all(at + 2)?[at + 1],
            Some(&BYTES) => bytes = In::<u64>::at(list.all(at + 2)?[at + 1]).get()?,
            Some(_) => return Err(INVALID_VALUE),
        }
    }
    match bytes as usize >= wanted {
        true => In::<u8>::at(pointer).all(bytes as usize),
        false => Err(INVALID_VALUE),
    }
}

fn launch(
    driver: &mut Driver,
    function: u64,
    shape: Shape,
    (each, list): (In<u64>, In<u64>),
    end: Nanos,
) -> Result<(), u32> {
    driver.stream(shape.stream)?;
    let it = driver.functions.get(function)?.clone();
    let (blocks, threads) = (product(shape.grid), product(shape.block));
    let shared = u64::from(shape.shared) + u64::from(it.entry.static_shared);
    let fits = u64::from(shape.shared) <= it.dynamic && threads <= driver.gpu.block_threads();
    if blocks == 0 || threads == 0 || !fits {
        return Err(INVALID_VALUE);
    }
    clusters_fit(&it, shape.cluster)?;
    let params = params(&it, each, list)?;
    let resident = driver.gpu.resident(threads, shared).max(1);
    let work = Work::Kernel {
        ns: duration(&it.entry.name),
        sms: blocks.div_ceil(resident).min(driver.gpu.sms()),
    };
    let computes = KernelCall::computes(&it.entry.name);
    let effect = computes.then(|| {
        let module = driver.modules.get(it.module);
        Effect::Kernel(KernelCall {
            name: it.entry.name.clone(),
            params,
            threads: blocks * threads,
            variables: module.map(|it| it.variables.clone()).unwrap_or_default(),
        })
    });
    driver.push(shape.stream, end, work, effect);
    Ok(())
}

fn clusters_fit(function: &LoadedFunction, blocks: u64) -> Result<(), u32> {
    let most = if function.large_clusters {
        LARGE
    } else {
        PORTABLE
    };
    match blocks <= most {
        true => Ok(()),
        false => Err(INVALID_CLUSTER_SIZE),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: u64,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: u64,
    each: In<u64>,
    list: In<u64>,
) -> u32 {
    let shape = Shape {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        shared,
        stream,
        cluster: 1,
    };
    call(CallKind::new("cuLaunchKernel").on(stream), |driver, end| {
        launch(driver, function, shape, (each, list), end)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernelEx(
    config: In<LaunchConfig>,
    function: u64,
    each: In<u64>,
    list: In<u64>,
) -> u32 {
    let config = config.get();
    let stream = config.as_ref().map_or(0, |config| config.stream);
    call(
        CallKind::new("cuLaunchKernelEx").on(stream),
        |driver, end| {
            let config = config?;
            let shape = Shape {
                grid: config.grid,
                block: config.block,
                shared: config.shared,
                stream,
                cluster: config.cluster()?,
            };
            launch(driver, function, shape, (each, list), end)
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    to: Out<i32>,
    function: u64,
    threads: i32,
    dynamic: u64,
) -> u32 {
    let kind = CallKind::new("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    call(kind, |driver, _| {
        let shared = u64::from(driver.functions.get(function)?.entry.static_shared) + dynamic;
        let threads = u64::try_from(threads).map_err(|_| INVALID_VALUE)?;
        let blocks = driver.gpu.resident(threads, shared);
        to.put(i32::try_from(blocks).unwrap_or(i32::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuOccupancyMaxActiveClusters(
    to: Out<i32>,
    function: u64,
    config: In<LaunchConfig>,
) -> u32 {
    call(
        CallKind::new("cuOccupancyMaxActiveClusters"),
        |driver, _| {
            let config = config.get()?;
            let it = driver.functions.get(function)?;
            let cluster = config.cluster()?;
            clusters_fit(it, cluster)?;
            let shared = u64::from(config.shared) + u64::from(it.entry.static_shared);
            let blocks = driver.gpu.sms() * driver.gpu.resident(product(config.block), shared);
            to.put(i32::try_from(blocks / cluster).unwrap_or(i32::MAX))
        },
    )
}
