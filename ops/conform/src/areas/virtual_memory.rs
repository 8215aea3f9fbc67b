//! Virtual memory: reservations, memory allocations, mappings, access.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_VALUE, SUCCESS};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};
use crate::fixture::pinned;

const VIRTUAL: &str = "Virtual Memory Management";
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`, `CU_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
const MINIMUM: i32 = 0;
const RECOMMENDED: i32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const BOTH: u32 = 3;

fn granularity(bench: &Bench, option: i32) -> Result<usize, Finding> {
    let mut size = 0usize;
    bench.ok(
        "cuMemGetAllocationGranularity",
        words![&mut size, &pinned(), option],
    )?;
    Ok(size)
}

/// Calls a body with a reservation for two allocations of the minimum size, and that size.
fn reserved(bench: &Bench, body: impl FnOnce(u64, usize) -> Outcome) -> Outcome {
    let size = granularity(bench, MINIMUM)?;
    let at = bench.made("cuMemAddressReserve", words![2 * size, 0usize, 0u64, 0u64])?;
    let seen = body(at, size);
    bench.ok("cuMemAddressFree", words![at, 2 * size])?;
    seen
}

fn piece(bench: &Bench, size: usize) -> Result<u64, Finding> {
    bench.made("cuMemCreate", words![size, &pinned(), 0u64])
}

/// Allows device 0 to read and write.
fn allow(bench: &Bench, at: u64, size: usize) -> Outcome {
    // Kind and number of the device's location, and the access.
    let access = [1u32, 0, BOTH];
    bench.ok("cuMemSetAccess", words![at, size, &access, 1usize])
}

/// Calls a body with an allocation mapped in the first half of a reservation, with access.
fn mapped(bench: &Bench, body: impl FnOnce(u64, usize, u64) -> Outcome) -> Outcome {
    reserved(bench, |at, size| {
        let handle = piece(bench, size)?;
        let seen = bench
            .ok("cuMemMap", words![at, size, 0usize, handle, 0u64])
            .and_then(|()| {
                let seen = allow(bench, at, size).and_then(|()| body(at, size, handle));
                // The body may have unmapped it.
                bench.code("cuMemUnmap", words![at, size])?;
                seen
            });
        bench.code("cuMemRelease", words![handle])?;
        seen
    })
}

pub(super) fn checks() -> Vec<Check> {
    let mut checks = places();
    checks.extend(mappings());
    checks
}

/// Checks of reservations and allocations.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn places() -> Vec<Check> {
    let of = |function| (function, VIRTUAL);
    vec![
        Check::new(
            of("cuMemGetAllocationGranularity"),
            "what is recommended is a multiple of what is least",
            |it| {
                let (least, more) = (granularity(it, MINIMUM)?, granularity(it, RECOMMENDED)?);
                ensure!(
                    least.is_power_of_two() && more >= least && more.is_multiple_of(least),
                    "{least} and {more}"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuMemAddressReserve"),
            "addresses are a multiple of the alignment that was asked for",
            |it| {
                let size = granularity(it, MINIMUM)?;
                let wanted = 8 * size;
                let rest = words![size, wanted, 0u64, 0u64];
                let at = it.made("cuMemAddressReserve", rest)?;
                it.ok("cuMemAddressFree", words![at, size])?;
                ensure!(at.is_multiple_of(wanted as u64), "{at:#x} of {wanted:#x}");
                Ok(())
            },
        ),
        Check::new(
            of("cuMemAddressReserve"),
            "an alignment that is no power of two is refused",
            |it| {
                let (mut at, size) = (0u64, granularity(it, MINIMUM)?);
                let words = words![&mut at, size, 3 * size, 0u64, 0u64];
                it.expect(INVALID_VALUE, "cuMemAddressReserve", words)
            },
        ),
        Check::new(
            of("cuMemAddressReserve"),
            "addresses are no memory: more are reserved than a device has",
            |it| {
                let mut total = 0usize;
                it.ok("cuDeviceTotalMem_v2", words![&mut total, 0i32])?;
                let size = (2 * total).next_multiple_of(granularity(it, RECOMMENDED)?);
                let at = it.made("cuMemAddressReserve", words![size, 0usize, 0u64, 0u64])?;
                it.ok("cuMemAddressFree", words![at, size])
            },
        ),
        Check::new(
            of("cuMemCreate"),
            "a size that is no multiple of the granularity is refused",
            |it| {
                let (mut handle, size) = (0u64, granularity(it, MINIMUM)?);
                let words = words![&mut handle, size + 4096, &pinned(), 0u64];
                it.expect(INVALID_VALUE, "cuMemCreate", words)
            },
        ),
        Check::new(of("cuMemRelease"), "a handle is released once", |it| {
            let handle = piece(it, granularity(it, MINIMUM)?)?;
            it.ok("cuMemRelease", words![handle])?;
            it.expect(INVALID_VALUE, "cuMemRelease", words![handle])
        }),
        Check::new(
            of("cuMemGetAllocationPropertiesFromHandle"),
            "properties are those of the piece",
            |it| {
                let handle = piece(it, granularity(it, MINIMUM)?)?;
                let mut told = [0u32; 8];
                let seen = it.ok(
                    "cuMemGetAllocationPropertiesFromHandle",
                    words![&mut told, handle],
                );
                it.ok("cuMemRelease", words![handle])?;
                seen?;
                // Pinned, not shareable, on a device, number 0.
                ensure!(told[..4] == [1, 0, 1, 0], "{:?}", &told[..4]);
                Ok(())
            },
        ),
    ]
}

/// Checks of mappings.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn mappings() -> Vec<Check> {
    let of = |function| (function, VIRTUAL);
    vec![
        Check::new(of("cuMemMap"), "memory is there where it is mapped", |it| {
            mapped(it, |at, size, _| {
                it.ok("cuMemsetD32_v2", words![at, 7u32, size / 4])?;
                it.write(at + size as u64 - 8, &[1u32, 2])?;
                let last = it.read::<u32>(at + size as u64 - 12, 3)?;
                ensure!(last == [7, 1, 2], "{last:?}");
                Ok(())
            })
        }),
        Check::new(of("cuMemMap"), "an address has one mapping", |it| {
            mapped(it, |at, size, _| {
                let other = piece(it, size)?;
                let seen = it.code("cuMemMap", words![at, size, 0usize, other, 0u64])?;
                it.ok("cuMemRelease", words![other])?;
                ensure!(seen.0 == INVALID_VALUE, "a second one gave {seen}");
                Ok(())
            })
        }),
        Check::new(
            of("cuMemMap"),
            "addresses that are not reserved are refused",
            |it| {
                let size = granularity(it, MINIMUM)?;
                let handle = piece(it, size)?;
                let words = words![1u64 << 21, size, 0usize, handle, 0u64];
                let seen = it.code("cuMemMap", words)?;
                it.ok("cuMemRelease", words![handle])?;
                ensure!(seen.0 == INVALID_VALUE, "it gave {seen}");
                Ok(())
            },
        ),
        Check::new(
            of("cuMemMap"),
            "two places of one piece are the same bytes",
            |it| {
                mapped(it, |at, size, handle| {
                    let second = at + size as u64;
                    it.ok("cuMemMap", words![second, size, 0usize, handle, 0u64])?;
                    let seen = allow(it, second, size).and_then(|()| {
                        it.write(at, &[11u32])?;
                        let there = it.read::<u32>(second, 1)?;
                        ensure!(there == [11], "{there:?}");
                        Ok(())
                    });
                    it.ok("cuMemUnmap", words![second, size])?;
                    seen
                })
            },
        ),
        Check::new(
            of("cuMemUnmap"),
            "bytes stay while the handle is there, and are found where it is mapped again",
            |it| {
                mapped(it, |at, size, handle| {
                    it.write(at, &[12u32])?;
                    it.ok("cuMemUnmap", words![at, size])?;
                    it.ok("cuMemMap", words![at, size, 0usize, handle, 0u64])?;
                    allow(it, at, size)?;
                    let there = it.read::<u32>(at, 1)?;
                    ensure!(there == [12], "{there:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuMemUnmap"),
            "the bytes of a second place stay where the first one goes",
            |it| {
                mapped(it, |at, size, handle| {
                    let second = at + size as u64;
                    it.ok("cuMemMap", words![second, size, 0usize, handle, 0u64])?;
                    let seen = allow(it, second, size).and_then(|()| {
                        it.write(at, &[14u32])?;
                        it.ok("cuMemUnmap", words![at, size])?;
                        let there = it.read::<u32>(second, 1)?;
                        ensure!(there == [14], "{there:?}");
                        Ok(())
                    });
                    it.ok("cuMemUnmap", words![second, size])?;
                    seen
                })
            },
        ),
        Check::new(
            of("cuMemRelease"),
            "memory lives at each of its places, though its handle is released",
            |it| {
                mapped(it, |at, size, handle| {
                    let second = at + size as u64;
                    it.ok("cuMemMap", words![second, size, 0usize, handle, 0u64])?;
                    let seen = allow(it, second, size).and_then(|()| {
                        it.ok("cuMemRelease", words![handle])?;
                        it.write(second, &[15u32])?;
                        let there = it.read::<u32>(at, 1)?;
                        ensure!(there == [15], "{there:?}");
                        Ok(())
                    });
                    it.ok("cuMemUnmap", words![second, size])?;
                    seen
                })
            },
        ),
        Check::new(
            of("cuMemRelease"),
            "memory lives while it is mapped, though its handle is released",
            |it| {
                mapped(it, |at, _, handle| {
                    it.write(at, &[13u32])?;
                    it.ok("cuMemRelease", words![handle])?;
                    let there = it.read::<u32>(at, 1)?;
                    ensure!(there == [13], "{there:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuMemRetainAllocationHandle"),
            "an address within a mapping gives its handle",
            |it| {
                mapped(it, |at, _, handle| {
                    let got = it.made("cuMemRetainAllocationHandle", words![at + 64])?;
                    it.ok("cuMemRelease", words![got])?;
                    ensure!(got == handle, "{got:#x} of {handle:#x}");
                    Ok(())
                })
            },
        ),
        Check::new(of("cuMemGetAccess"), "access is as it was set", |it| {
            mapped(it, |at, _, _| {
                let (mut flags, location) = (0u64, [1u32, 0]);
                it.ok("cuMemGetAccess", words![&mut flags, &location, at])?;
                ensure!(flags == u64::from(BOTH), "{flags}");
                Ok(())
            })
        }),
        Check::new(
            of("cuMemAddressFree"),
            "addresses with a mapping are not freed",
            |it| {
                mapped(it, |at, size, _| {
                    let seen = it.code("cuMemAddressFree", words![at, 2 * size])?;
                    ensure!(seen.0 != SUCCESS, "they are");
                    Ok(())
                })
            },
        )
        .uncertain(),
        Check::new(
            of("cuMemFree"),
            "mapped memory is not freed as an allocation",
            |it| {
                mapped(it, |at, _, _| {
                    it.expect(INVALID_VALUE, "cuMemFree_v2", words![at])
                })
            },
        ),
        Check::new(of("cuMemUnmap"), "what is not mapped is refused", |it| {
            reserved(it, |at, size| {
                it.expect(INVALID_VALUE, "cuMemUnmap", words![at, size])
            })
        })
        .uncertain(),
        Check::new(of("cuMemMap"), "an offset is refused", |it| {
            reserved(it, |at, size| {
                let handle = piece(it, 2 * size)?;
                let words = words![at, size, size, handle, 0u64];
                let seen = it.code("cuMemMap", words)?;
                it.ok("cuMemRelease", words![handle])?;
                ensure!(seen.0 == INVALID_VALUE, "it gave {seen}");
                Ok(())
            })
        }),
        Check::new(
            of("cuMemSetAccess"),
            "addresses without a mapping have no access",
            |it| {
                reserved(it, |at, size| {
                    let access = [1u32, 0, BOTH];
                    let words = words![at, size, &access, 1usize];
                    it.expect(INVALID_VALUE, "cuMemSetAccess", words)
                })
            },
        ),
        Check::new(of("cuMemAddressFree"), "null is no reservation", |it| {
            it.expect(
                INVALID_VALUE,
                "cuMemAddressFree",
                words![Word::NULL, 4096usize],
            )
        }),
    ]
}
