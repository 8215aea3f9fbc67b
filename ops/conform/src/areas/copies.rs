//! Copies and fills: shapes, bounds, order.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::INVALID_VALUE;
use crate::driver::{Argument as _, Word, words};
use crate::finding::{Finding, Outcome, ensure};

const MEMORY: &str = "Memory Management";

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Copy2D {
    src_x: usize,
    src_y: usize,
    src_type: u32,
    src_host: u64,
    src_device: u64,
    src_array: u64,
    src_pitch: usize,
    dst_x: usize,
    dst_y: usize,
    dst_type: u32,
    dst_host: u64,
    dst_device: u64,
    dst_array: u64,
    dst_pitch: usize,
    width: usize,
    height: usize,
}

const HOST: u32 = 1;
const DEVICE: u32 = 2;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|it| (it * 7 % 251) as u8).collect()
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, MEMORY);
    let mut checks = vec![
        Check::new(of("cuMemcpyDtoH"), "bytes come back as they were", |it| {
            for count in [1usize, 3, 255, 4096, 65_537, 3 << 20] {
                let (address, there) = (it.alloc(count)?, bytes(count));
                it.write(address, &there)?;
                ensure!(
                    it.read::<u8>(address, count)? == there,
                    "{count} bytes differ"
                );
            }
            Ok(())
        }),
        Check::new(of("cuMemcpyHtoD"), "no bytes are no error", |it| {
            let address = it.alloc(64)?;
            it.ok("cuMemcpyHtoD_v2", words![address, &[0u8; 1], 0usize])
        }),
        Check::new(
            of("cuMemcpyDtoD"),
            "bytes go from one allocation to another",
            |it| {
                let (one, other, there) = (it.alloc(9000)?, it.alloc(9000)?, bytes(9000));
                it.write(one, &there)?;
                it.ok("cuMemcpyDtoD_v2", words![other + 100, one + 50, 8000usize])?;
                let seen = it.read::<u8>(other + 100, 8000)?;
                ensure!(seen == there[50..8050], "bytes differ");
                Ok(())
            },
        ),
        Check::new(of("cuMemcpy"), "directions are told by addresses", |it| {
            let (one, other, there) = (it.alloc(512)?, it.alloc(512)?, bytes(512));
            let mut back = vec![0u8; 512];
            it.ok("cuMemcpy", words![one, there.as_slice(), 512usize])?;
            it.ok("cuMemcpy", words![other, one, 512usize])?;
            it.ok("cuMemcpy", words![back.as_mut_slice(), other, 512usize])?;
            ensure!(back == there, "bytes differ");
            Ok(())
        }),
        Check::new(
            of("cuMemcpyHtoD"),
            "a copy that ends behind the allocation is refused",
            |it| {
                let (address, there) = (
                    it.made("cuMemAlloc_v2", words![4096usize])?,
                    vec![0u8; 64 << 20],
                );
                let seen = it.expect(
                    INVALID_VALUE,
                    "cuMemcpyHtoD_v2",
                    words![address, there.as_slice(), 64usize << 20],
                );
                it.ok("cuMemFree_v2", words![address])?;
                seen
            },
        )
        .uncertain(),
        Check::new(
            of("cuMemcpyDtoH"),
            "an address of nothing is refused",
            |it| {
                let mut own = [0u8; 64];
                it.expect(
                    INVALID_VALUE,
                    "cuMemcpyDtoH_v2",
                    words![&mut own, 256u64, 64usize],
                )
            },
        ),
        Check::new(
            of("cuMemcpyHtoDAsync"),
            "a copy is ordered behind a kernel and before the next",
            ordered,
        ),
        Check::new(
            of("cuMemcpyDtoHAsync"),
            "bytes are there behind the stream's synchronisation",
            |it| {
                let stream = it.made("cuStreamCreate", words![1u32])?;
                let (address, there, mut back) =
                    (it.alloc(70_000)?, bytes(70_000), vec![0u8; 70_000]);
                it.ok(
                    "cuMemcpyHtoDAsync_v2",
                    words![address, there.as_slice(), 70_000usize, stream],
                )?;
                it.ok(
                    "cuMemcpyDtoHAsync_v2",
                    words![back.as_mut_slice(), address, 70_000usize, stream],
                )?;
                it.ok("cuStreamSynchronize", words![stream])?;
                it.ok("cuStreamDestroy_v2", words![stream])?;
                ensure!(back == there, "bytes differ");
                Ok(())
            },
        ),
    ];
    checks.extend(fills());
    checks.extend(boxes());
    checks
}

fn ordered(bench: &Bench) -> Outcome {
    let address = bench.alloc(4096)?;
    let (fill, increment) = (bench.kernel(c"fill")?, bench.kernel(c"increment")?);
    bench.launch(fill, 4, 256, &[address, 5, 1024])?;
    let fresh = [40u32; 512];
    bench.ok(
        "cuMemcpyHtoDAsync_v2",
        words![address, &fresh, 2048usize, Word::NULL],
    )?;
    bench.launch(increment, 4, 256, &[address, 1024])?;
    let seen = bench.read::<u32>(address, 1024)?;
    ensure!(
        seen[..512] == [41; 512] && seen[512..] == [6; 512],
        "{} and {}",
        seen[0],
        seen[1023]
    );
    Ok(())
}

/// Fills of one and two dimensions and of each width.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn fills() -> Vec<Check> {
    let mut checks = Vec::new();
    for (function, symbol, size) in [
        ("cuMemsetD8", "cuMemsetD8_v2", 1usize),
        ("cuMemsetD16", "cuMemsetD16_v2", 2),
        ("cuMemsetD32", "cuMemsetD32_v2", 4),
    ] {
        checks.push(Check::new(
            (function, MEMORY),
            "items are written, and nothing beside them",
            move |it| {
                let address = it.alloc(4096)?;
                it.write(address, &[0xeeu8; 4096])?;
                it.ok(
                    symbol,
                    words![address + 64, 0x1122_3344u32 & mask(size), 100usize],
                )?;
                let seen = it.read::<u8>(address, 4096)?;
                let item = &0x1122_3344u32.to_le_bytes()[..size];
                let is_right = |at: usize, byte: u8| match at.checked_sub(64) {
                    Some(within) if within < 100 * size => byte == item[within % size],
                    _ => byte == 0xee,
                };
                let wrong = seen
                    .iter()
                    .enumerate()
                    .find(|(at, byte)| !is_right(*at, **byte));
                ensure!(wrong.is_none(), "byte {wrong:?}");
                Ok(())
            },
        ));
        checks.push(Check::new(
            (function, MEMORY),
            "no items are no error",
            move |it| {
                let address = it.alloc(64)?;
                it.ok(symbol, words![address, 1u32, 0usize])
            },
        ));
        if size > 1 {
            checks.push(Check::new(
                (function, MEMORY),
                "an address that is no multiple of the item is refused",
                move |it| {
                    let address = it.alloc(64)?;
                    it.expect(INVALID_VALUE, symbol, words![address + 1, 1u32, 4usize])
                },
            ));
        }
    }
    for (function, symbol, size) in [
        ("cuMemsetD2D8", "cuMemsetD2D8_v2", 1usize),
        ("cuMemsetD2D16", "cuMemsetD2D16_v2", 2),
        ("cuMemsetD2D32", "cuMemsetD2D32_v2", 4),
    ] {
        checks.push(Check::new(
            (function, MEMORY),
            "rows are written, and nothing beside them",
            move |it| {
                let address = it.alloc(8192)?;
                it.write(address, &[0u8; 8192])?;
                it.ok(
                    symbol,
                    words![address, 512usize, mask(size), 10usize, 5usize],
                )?;
                let seen = it.read::<u8>(address, 8192)?;
                let is_set = |at: usize| at / 512 < 5 && at % 512 < 10 * size;
                let wrong = (0..8192).find(|at| (seen[*at] == 0xff) != is_set(*at));
                ensure!(wrong.is_none(), "byte {wrong:?}");
                Ok(())
            },
        ));
        checks.push(Check::new(
            (function, MEMORY),
            "a pitch below the width is refused",
            move |it| {
                let address = it.alloc(8192)?;
                it.expect(
                    INVALID_VALUE,
                    symbol,
                    words![address, 64usize, 1u32, 100usize, 5usize],
                )
            },
        ));
    }
    checks.push(
        Check::new(
            ("cuMemsetD2D8", MEMORY),
            "a refused fill writes nothing",
            |it| {
                let address = it.made("cuMemAlloc_v2", words![4096usize])?;
                it.write(address, &[1u8; 4096])?;
                let seen = it.expect(
                    INVALID_VALUE,
                    "cuMemsetD2D8_v2",
                    words![address, 1usize << 30, 9u8, 16usize, 64usize],
                );
                let now = it.read::<u8>(address, 4096)?;
                it.ok("cuMemFree_v2", words![address])?;
                seen?;
                ensure!(now == [1; 4096], "it has written");
                Ok(())
            },
        )
        .uncertain(),
    );
    checks
}

fn mask(size: usize) -> u32 {
    u32::MAX >> (32 - 8 * size)
}

/// Result of copying a box in host memory, in plain Rust.
fn copied(from: &[u8], to: &mut [u8], copy: &Copy2D) {
    for row in 0..copy.height {
        let read = (copy.src_y + row) * copy.src_pitch + copy.src_x;
        let write = (copy.dst_y + row) * copy.dst_pitch + copy.dst_x;
        to[write..write + copy.width].copy_from_slice(&from[read..read + copy.width]);
    }
}

fn shape() -> Copy2D {
    Copy2D {
        src_x: 3,
        src_y: 2,
        src_pitch: 64,
        dst_x: 5,
        dst_y: 1,
        dst_pitch: 96,
        width: 17,
        height: 6,
        ..Copy2D::default()
    }
}

fn boxes() -> Vec<Check> {
    let mut checks = Vec::new();
    for (function, symbol) in [
        ("cuMemcpy2D", "cuMemcpy2D_v2"),
        ("cuMemcpy2DUnaligned", "cuMemcpy2DUnaligned_v2"),
    ] {
        for (what, from, to) in [
            ("host to device", HOST, DEVICE),
            ("device to host", DEVICE, HOST),
            ("device to device", DEVICE, DEVICE),
            ("host to host", HOST, HOST),
        ] {
            let claim = format!("a box goes from {what}");
            checks.push(Check::new((function, MEMORY), claim, move |it| {
                boxed(it, symbol, from, to)
            }));
        }
    }
    let refused = |claim: &'static str, change: fn(&mut Copy2D)| {
        Check::new(("cuMemcpy2D", MEMORY), claim, move |it| {
            let address = it.alloc(8192)?;
            let mut own = [0u8; 8192];
            let mut copy = Copy2D {
                src_type: HOST,
                src_host: (&mut own).word().0,
                dst_type: DEVICE,
                dst_device: address,
                ..shape()
            };
            change(&mut copy);
            it.expect(INVALID_VALUE, "cuMemcpy2D_v2", words![&copy])
        })
    };
    checks.push(refused(
        "a source's pitch below x and width is refused",
        |it| it.src_pitch = 19,
    ));
    checks.push(refused(
        "a target's pitch below x and width is refused",
        |it| it.dst_pitch = 20,
    ));
    checks.push(refused(
        "a type of memory that there is not is refused",
        |it| it.src_type = 9,
    ));
    checks.push(refused("type 0 of memory is refused", |it| it.dst_type = 0));
    checks.push(Check::new(
        ("cuMemcpy2D", MEMORY),
        "an empty box is no error",
        |it| {
            let address = it.alloc(64)?;
            let mut own = [0u8; 64];
            let copy = Copy2D {
                src_type: HOST,
                src_host: (&mut own).word().0,
                dst_type: DEVICE,
                dst_device: address,
                width: 0,
                height: 4,
                ..Copy2D::default()
            };
            it.ok("cuMemcpy2D_v2", words![&copy])
        },
    ));
    checks
}

fn boxed(bench: &Bench, symbol: &str, from: u32, to: u32) -> Outcome {
    let (there, mut wanted) = (bytes(1024), vec![0u8; 1024]);
    let (mut host_from, mut host_to) = (there.clone(), vec![0u8; 1024]);
    let (device_from, device_to) = (bench.alloc(1024)?, bench.alloc(1024)?);
    bench.write(device_from, &there)?;
    bench.write(device_to, &wanted)?;
    let copy = Copy2D {
        src_type: from,
        src_host: host_from.as_mut_slice().word().0,
        src_device: device_from,
        dst_type: to,
        dst_host: host_to.as_mut_slice().word().0,
        dst_device: device_to,
        ..shape()
    };
    bench.ok(symbol, words![&copy])?;
    copied(&there, &mut wanted, &copy);
    let seen: Result<Vec<u8>, Finding> = match to {
        HOST => Ok(host_to),
        _ => bench.read(device_to, 1024),
    };
    let seen = seen?;
    let wrong = (0..1024).find(|at| seen[*at] != wanted[*at]);
    ensure!(wrong.is_none(), "byte {wrong:?} differs");
    Ok(())
}
