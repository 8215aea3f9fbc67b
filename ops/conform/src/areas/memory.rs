//! Device memory, managed memory, host memory.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{
    HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE, NOT_FOUND,
    OUT_OF_MEMORY,
};
use crate::driver::{Argument as _, Word, words};
use crate::finding::{Finding, Outcome, ensure};

const MEMORY: &str = "Memory Management";
const PAGE: usize = 4096;

fn free(bench: &Bench) -> Result<usize, Finding> {
    let mut free = 0usize;
    bench.ok("cuMemGetInfo_v2", words![&mut free, Word::NULL])?;
    Ok(free)
}

fn range(bench: &Bench, address: u64) -> Result<(u64, usize), Finding> {
    let (mut base, mut size) = (0u64, 0usize);
    bench.ok(
        "cuMemGetAddressRange_v2",
        words![&mut base, &mut size, address],
    )?;
    Ok((base, size))
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, MEMORY);
    let mut checks = vec![
        Check::new(of("cuMemAlloc"), "an address is a multiple of 256", |it| {
            for bytes in [1usize, 7, 100, 4097] {
                let address = it.alloc(bytes)?;
                ensure!(address % 256 == 0, "{bytes} bytes lie at {address:#x}");
            }
            Ok(())
        }),
        Check::new(of("cuMemAlloc"), "allocations do not overlap", |it| {
            let mut all: Vec<(u64, u64)> = Vec::new();
            for bytes in [1u64, 300, 4096, 70_000, 1 << 20] {
                let address = it.alloc(bytes as usize)?;
                let end = address + bytes;
                let other = all.iter().find(|(from, to)| address < *to && *from < end);
                ensure!(
                    other.is_none(),
                    "{address:#x} to {end:#x} overlaps {other:x?}"
                );
                all.push((address, end));
            }
            Ok(())
        }),
        Check::new(
            of("cuMemAlloc"),
            "more than the device has is out of memory",
            |it| {
                let mut address = 0u64;
                it.expect(
                    OUT_OF_MEMORY,
                    "cuMemAlloc_v2",
                    words![&mut address, 1usize << 46],
                )
            },
        ),
        Check::new(
            of("cuMemAlloc"),
            "as many bytes as a word can say are out of memory",
            |it| {
                let mut address = 0u64;
                it.expect_one_of(
                    &[OUT_OF_MEMORY, INVALID_VALUE],
                    "cuMemAlloc_v2",
                    words![&mut address, usize::MAX],
                )
            },
        ),
        Check::new(
            of("cuMemAlloc"),
            "the driver works behind an allocation that failed",
            |it| {
                let mut address = 0u64;
                it.code("cuMemAlloc_v2", words![&mut address, 1usize << 46])?;
                it.alloc(PAGE).map(|_| ())
            },
        ),
        Check::new(of("cuMemFree"), "null is no error", |it| {
            it.ok("cuMemFree_v2", words![Word::NULL])
        }),
        Check::new(of("cuMemFree"), "a second free is refused", |it| {
            let address = it.made("cuMemAlloc_v2", words![PAGE])?;
            it.ok("cuMemFree_v2", words![address])?;
            it.expect(INVALID_VALUE, "cuMemFree_v2", words![address])
        }),
        Check::new(
            of("cuMemFree"),
            "an address within an allocation is refused",
            |it| {
                let address = it.alloc(PAGE)?;
                it.expect(INVALID_VALUE, "cuMemFree_v2", words![address + 256])
            },
        ),
        Check::new(of("cuMemFree"), "an address of the host is refused", |it| {
            let mut on_host = [0u64; 4];
            it.expect(INVALID_VALUE, "cuMemFree_v2", words![&mut on_host])
        }),
        Check::new(
            of("cuMemGetInfo"),
            "what was freed is free when the calls return",
            |it| it.undisturbed(freed),
        ),
        Check::new(
            of("cuMemAllocPitch"),
            "a pitch holds the width and is a multiple of the element",
            |it| {
                for (width, element) in [(1usize, 4u32), (100, 8), (513, 16), (4096, 4)] {
                    let (mut address, mut pitch) = (0u64, 0usize);
                    it.ok(
                        "cuMemAllocPitch_v2",
                        words![&mut address, &mut pitch, width, 3usize, element],
                    )?;
                    it.ok("cuMemFree_v2", words![address])?;
                    ensure!(
                        pitch >= width && pitch % element as usize == 0,
                        "{width} bytes have a pitch of {pitch}"
                    );
                }
                Ok(())
            },
        ),
        Check::new(
            of("cuMemGetAddressRange"),
            "an address within names its allocation",
            |it| {
                let address = it.alloc(10_000)?;
                let seen = range(it, address + 9_999)?;
                ensure!(
                    seen.0 == address && seen.1 >= 10_000,
                    "{seen:x?} of {address:#x}"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuMemGetAddressRange"),
            "an address of nothing is not found",
            |it| {
                it.expect_one_of(
                    &[NOT_FOUND, INVALID_VALUE],
                    "cuMemGetAddressRange_v2",
                    words![Word::NULL, Word::NULL, 64u64],
                )
            },
        ),
        Check::new(
            of("cuMemGetAddressRange"),
            "a variable of a module lies in a range",
            |it| {
                let (at, bytes) = variable(it)?;
                let seen = range(it, at)?;
                let holds = seen.0 <= at && at + bytes as u64 <= seen.0 + seen.1 as u64;
                ensure!(holds, "{seen:x?} for {bytes} bytes at {at:#x}");
                Ok(())
            },
        )
        .uncertain(),
        Check::new(
            of("cuMemGetAddressRange"),
            "managed memory has the range that was asked for",
            |it| {
                let address = it.made("cuMemAllocManaged", words![10_000usize, 1u32])?;
                let seen = range(it, address + 5);
                it.ok("cuMemFree_v2", words![address])?;
                let seen = seen?;
                ensure!(seen == (address, 10_000), "{seen:x?} of {address:#x}");
                Ok(())
            },
        ),
        Check::new(
            of("cuMemAllocManaged"),
            "host and device see the same bytes",
            managed,
        ),
        Check::new(
            of("cuMemAllocManaged"),
            "an address within it cannot be freed",
            |it| {
                let address = it.made("cuMemAllocManaged", words![64usize << 10, 1u32])?;
                let seen = it.expect(INVALID_VALUE, "cuMemFree_v2", words![address + 4096]);
                it.ok("cuMemFree_v2", words![address])?;
                seen
            },
        ),
    ];
    checks.extend(host());
    checks
}

/// Allocates and frees 64 MiB, and compares the free bytes before, between and after.
fn freed(bench: &Bench) -> Outcome {
    let before = free(bench)?;
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(bench.made("cuMemAlloc_v2", words![16usize << 20])?);
    }
    let between = free(bench)?;
    for address in all {
        bench.ok("cuMemFree_v2", words![address])?;
    }
    let after = free(bench)?;
    ensure!(
        between + (48 << 20) <= before,
        "{before} were free, and {between} beside 64 MiB"
    );
    ensure!(
        after + (8 << 20) >= before,
        "{before} were free, and {after} behind the frees"
    );
    Ok(())
}

fn variable(bench: &Bench) -> Result<(u64, usize), Finding> {
    let (mut at, mut bytes) = (0u64, 0usize);
    let module = bench.module()?;
    bench.ok(
        "cuModuleGetGlobal_v2",
        words![&mut at, &mut bytes, module, c"counter"],
    )?;
    Ok((at, bytes))
}

fn managed(bench: &Bench) -> Outcome {
    let address = bench.made("cuMemAllocManaged", words![PAGE, 1u32])?;
    let seen = (|| {
        bench.set_host(address, &[1u32, 2, 3, 4]);
        let increment = bench.kernel(c"increment")?;
        bench.launch(increment, 1, 32, &[address, 4])?;
        bench.sync()?;
        Ok(bench.get_host::<u32>(address, 4))
    })();
    bench.ok("cuMemFree_v2", words![address])?;
    let seen: Vec<u32> = seen?;
    ensure!(seen == [2, 3, 4, 5], "{seen:?}");
    Ok(())
}

/// Page-locked and registered host memory.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn host() -> Vec<Check> {
    let of = |function| (function, MEMORY);
    vec![
        Check::new(of("cuMemHostAlloc"), "flags are as they were given", |it| {
            let at = it.made("cuMemHostAlloc", words![PAGE, 3u32])?;
            let mut flags = 9u32;
            let seen = it.ok("cuMemHostGetFlags", words![&mut flags, at]);
            it.ok("cuMemFreeHost", words![at])?;
            seen?;
            ensure!(flags & 3 == 3, "{flags:#x}");
            Ok(())
        }),
        Check::new(
            of("cuMemHostGetDevicePointer"),
            "a kernel writes to it",
            |it| {
                let at = it.made("cuMemHostAlloc", words![PAGE, 2u32])?;
                let seen = (|| {
                    let mut address = 0u64;
                    it.ok(
                        "cuMemHostGetDevicePointer_v2",
                        words![&mut address, at, 0u32],
                    )?;
                    it.set_host(at, &[0u32; 8]);
                    let fill = it.kernel(c"fill")?;
                    it.launch(fill, 1, 32, &[address, 77, 8])?;
                    it.sync()?;
                    Ok(it.get_host::<u32>(at, 8))
                })();
                it.ok("cuMemFreeHost", words![at])?;
                let seen: Vec<u32> = seen?;
                ensure!(seen == [77; 8], "{seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuMemFreeHost"),
            "an address that is none is refused",
            |it| {
                let mut own = [0u64; 512];
                it.expect(INVALID_VALUE, "cuMemFreeHost", words![&mut own])
            },
        ),
        Check::new(of("cuMemFreeHost"), "an address within is refused", |it| {
            let at = it.made("cuMemHostAlloc", words![PAGE, 0u32])?;
            let seen = it.expect(INVALID_VALUE, "cuMemFreeHost", words![at + 64]);
            it.ok("cuMemFreeHost", words![at])?;
            seen
        }),
        Check::new(of("cuMemHostRegister"), "memory is registered once", |it| {
            let mut own = vec![0u8; 4 * PAGE];
            let at = own.as_mut_slice().word();
            it.ok("cuMemHostRegister_v2", words![at, 4 * PAGE, 0u32])?;
            let seen = it.expect(
                HOST_MEMORY_ALREADY_REGISTERED,
                "cuMemHostRegister_v2",
                words![at, 4 * PAGE, 0u32],
            );
            it.ok("cuMemHostUnregister", words![at])?;
            seen
        }),
        Check::new(
            of("cuMemHostUnregister"),
            "memory that is not registered is said to be so",
            |it| {
                let mut own = vec![0u8; PAGE];
                let at = own.as_mut_slice().word();
                it.expect(
                    HOST_MEMORY_NOT_REGISTERED,
                    "cuMemHostUnregister",
                    words![at],
                )
            },
        ),
        Check::new(
            of("cuMemHostUnregister"),
            "memory is unregistered once",
            |it| {
                let mut own = vec![0u8; 4 * PAGE];
                let at = own.as_mut_slice().word();
                it.ok("cuMemHostRegister_v2", words![at, 4 * PAGE, 0u32])?;
                it.ok("cuMemHostUnregister", words![at])?;
                it.expect(
                    HOST_MEMORY_NOT_REGISTERED,
                    "cuMemHostUnregister",
                    words![at],
                )
            },
        ),
        Check::new(
            of("cuMemHostGetFlags"),
            "an address that is none is refused",
            |it| {
                let (mut own, mut flags) = ([0u64; 8], 0u32);
                it.expect(
                    INVALID_VALUE,
                    "cuMemHostGetFlags",
                    words![&mut flags, &mut own],
                )
            },
        ),
    ]
}
