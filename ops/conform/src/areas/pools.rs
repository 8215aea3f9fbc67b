//! Memory pools, and memory that is allocated and freed in stream order.

use super::streams::with_stream;
use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_VALUE, SUCCESS};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};

const POOLS: &str = "Stream Ordered Memory Allocator";
/// `CU_MEMPOOL_ATTR_*`.
const RELEASE_THRESHOLD: i32 = 4;
const RESERVED: i32 = 5;
const RESERVED_HIGH: i32 = 6;
const USED: i32 = 7;
const USED_HIGH: i32 = 8;
/// `CU_STREAM_NON_BLOCKING`.
const ALONE: u32 = 1;
/// `CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE`.
const POOL: i32 = 17;

fn figure(bench: &Bench, pool: u64, attribute: i32) -> Result<u64, Finding> {
    let mut value = 99u64;
    bench.ok("cuMemPoolGetAttribute", words![pool, attribute, &mut value])?;
    Ok(value)
}

/// Calls a body with a pool on device 0.
fn with_pool(bench: &Bench, body: impl FnOnce(u64) -> Outcome) -> Outcome {
    // Pinned, not shareable, on a device, number 0.
    let mut properties = [0u32; 24];
    properties[..4].copy_from_slice(&[1, 0, 1, 0]);
    let pool = bench.made("cuMemPoolCreate", words![&properties])?;
    let seen = body(pool);
    bench.ok("cuMemPoolDestroy", words![pool])?;
    seen
}

/// Calls a body with memory of a pool.
fn with_memory(
    bench: &Bench,
    pool: u64,
    bytes: usize,
    body: impl FnOnce(u64) -> Outcome,
) -> Outcome {
    let rest = words![bytes, pool, Word::NULL];
    let at = bench.made("cuMemAllocFromPoolAsync", rest)?;
    let seen = body(at);
    bench.ok("cuMemFreeAsync", words![at, Word::NULL])?;
    seen
}

fn default_pool(bench: &Bench) -> Result<u64, Finding> {
    bench.made("cuDeviceGetDefaultMemPool", words![0i32])
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, POOLS);
    let mut checks = vec![
        Check::new(
            of("cuDeviceGetMemPool"),
            "a device's pool is its own one at first",
            |it| {
                let current = it.made("cuDeviceGetMemPool", words![0i32])?;
                let own = default_pool(it)?;
                ensure!(current == own && own != 0, "{current:#x} of {own:#x}");
                Ok(())
            },
        ),
        Check::new(
            of("cuMemAllocAsync"),
            "memory is used in the stream's order",
            |it| {
                with_stream(it, ALONE, |stream| {
                    let at = it.made("cuMemAllocAsync", words![4096usize, stream])?;
                    it.ok("cuMemsetD32Async", words![at, 5u32, 1024usize, stream])?;
                    let mut back = [0u32; 1024];
                    it.ok(
                        "cuMemcpyDtoHAsync_v2",
                        words![&mut back, at, 4096usize, stream],
                    )?;
                    it.ok("cuMemFreeAsync", words![at, stream])?;
                    it.ok("cuStreamSynchronize", words![stream])?;
                    ensure!(back == [5; 1024], "{} and {}", back[0], back[1023]);
                    Ok(())
                })
            },
        ),
        Check::new(of("cuMemFree"), "it frees memory of a pool, too", |it| {
            let at = it.made("cuMemAllocAsync", words![4096usize, Word::NULL])?;
            it.ok("cuMemFree_v2", words![at])
        }),
        Check::new(of("cuMemFreeAsync"), "a second free is refused", |it| {
            let at = it.made("cuMemAllocAsync", words![4096usize, Word::NULL])?;
            it.ok("cuMemFreeAsync", words![at, Word::NULL])?;
            it.sync()?;
            it.expect(INVALID_VALUE, "cuMemFreeAsync", words![at, Word::NULL])
        })
        .uncertain(),
        Check::new(
            of("cuDeviceSetMemPool"),
            "allocations come from the pool that was set",
            |it| {
                with_pool(it, |pool| {
                    it.ok("cuDeviceSetMemPool", words![0i32, pool])?;
                    let at = it.made("cuMemAllocAsync", words![4096usize, Word::NULL]);
                    let own = default_pool(it)?;
                    it.ok("cuDeviceSetMemPool", words![0i32, own])?;
                    let at = at?;
                    let mut of = 0u64;
                    let seen = it.ok("cuPointerGetAttribute", words![&mut of, POOL, at]);
                    it.ok("cuMemFreeAsync", words![at, Word::NULL])?;
                    seen?;
                    ensure!(of == pool, "it comes from {of:#x}, not {pool:#x}");
                    Ok(())
                })
            },
        ),
        Check::new(of("cuMemPoolDestroy"), "a device's own pool stays", |it| {
            let seen = it.code("cuMemPoolDestroy", words![default_pool(it)?])?;
            ensure!(seen.0 != SUCCESS, "it is gone");
            Ok(())
        }),
        Check::new(
            of("cuMemPoolCreate"),
            "a device that there is not is refused",
            |it| {
                let (mut pool, mut properties) = (0u64, [0u32; 24]);
                properties[..4].copy_from_slice(&[1, 0, 1, 4_000]);
                let seen = it.code("cuMemPoolCreate", words![&mut pool, &properties])?;
                ensure!(seen.0 != SUCCESS, "it succeeded");
                Ok(())
            },
        ),
    ];
    checks.extend(figures());
    checks
}

/// Checks of the attributes of pools.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn figures() -> Vec<Check> {
    let of = |function| (function, POOLS);
    vec![
        Check::new(of("cuMemPoolGetAttribute"), "a new pool is empty", |it| {
            with_pool(it, |pool| {
                for attribute in [RELEASE_THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH] {
                    let value = figure(it, pool, attribute)?;
                    ensure!(value == 0, "attribute {attribute} is {value}");
                }
                Ok(())
            })
        }),
        Check::new(
            of("cuMemPoolGetAttribute"),
            "memory is counted while it is used, and its most is kept",
            |it| {
                with_pool(it, |pool| {
                    with_memory(it, pool, 1 << 20, |_| {
                        let (used, reserved) =
                            (figure(it, pool, USED)?, figure(it, pool, RESERVED)?);
                        ensure!(
                            used >= 1 << 20 && reserved >= used,
                            "{used} are used, {reserved} reserved"
                        );
                        Ok(())
                    })?;
                    it.sync()?;
                    let (used, most) = (figure(it, pool, USED)?, figure(it, pool, USED_HIGH)?);
                    ensure!(used == 0 && most >= 1 << 20, "{used}, at most {most}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuMemPoolSetAttribute"),
            "the threshold is as it was set",
            |it| {
                with_pool(it, |pool| {
                    let wanted = 3u64 << 20;
                    it.ok(
                        "cuMemPoolSetAttribute",
                        words![pool, RELEASE_THRESHOLD, &wanted],
                    )?;
                    let value = figure(it, pool, RELEASE_THRESHOLD)?;
                    ensure!(value == wanted, "{value}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuMemPoolSetAttribute"),
            "what is used cannot be set",
            |it| {
                with_pool(it, |pool| {
                    let words = words![pool, USED, &0u64];
                    it.expect(INVALID_VALUE, "cuMemPoolSetAttribute", words)
                })
            },
        ),
        Check::new(
            of("cuMemPoolSetAttribute"),
            "the most is set to 0 and to nothing else",
            |it| {
                with_pool(it, |pool| {
                    it.ok("cuMemPoolSetAttribute", words![pool, USED_HIGH, &0u64])?;
                    let words = words![pool, USED_HIGH, &1u64];
                    it.expect(INVALID_VALUE, "cuMemPoolSetAttribute", words)
                })
            },
        ),
        Check::new(
            of("cuMemPoolGetAttribute"),
            "an attribute that there is not is refused",
            |it| {
                let (pool, mut value) = (default_pool(it)?, 0u64);
                let words = words![pool, 4_000i32, &mut value];
                it.expect(INVALID_VALUE, "cuMemPoolGetAttribute", words)
            },
        ),
        Check::new(of("cuMemPoolTrimTo"), "what is free goes back", |it| {
            with_pool(it, |pool| {
                let keep = u64::MAX;
                it.ok(
                    "cuMemPoolSetAttribute",
                    words![pool, RELEASE_THRESHOLD, &keep],
                )?;
                with_memory(it, pool, 1 << 20, |_| Ok(()))?;
                it.sync()?;
                it.ok("cuMemPoolTrimTo", words![pool, 0usize])?;
                let reserved = figure(it, pool, RESERVED)?;
                ensure!(reserved == 0, "{reserved} are reserved still");
                Ok(())
            })
        }),
        Check::new(
            of("cuMemPoolGetAccess"),
            "its own device reads and writes",
            |it| {
                let (pool, mut flags, location) = (default_pool(it)?, 0u32, [1u32, 0]);
                it.ok("cuMemPoolGetAccess", words![&mut flags, pool, &location])?;
                ensure!(flags == 3, "{flags}");
                Ok(())
            },
        ),
    ]
}
