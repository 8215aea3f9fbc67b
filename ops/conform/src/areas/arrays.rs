//! Arrays: descriptors, refusals, and copies from and to them.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::driver::words;
use crate::finding::{Finding, Outcome, ensure};

const MEMORY: &str = "Memory Management";
/// `CU_AD_FORMAT_UNSIGNED_INT32`, `CU_AD_FORMAT_FLOAT`.
const WORD: u64 = 3;
const FLOAT: u64 = 0x20;
/// Elements of a row.
const WIDTH: usize = 16;
const HEIGHT: usize = 8;

/// `CUDA_ARRAY_DESCRIPTOR`: width, height, format and channels.
fn flat(width: usize, height: usize, format: u64, channels: u64) -> [u64; 3] {
    [width as u64, height as u64, format | channels << 32]
}

/// `CUDA_ARRAY3D_DESCRIPTOR`: with a depth, and flags.
fn deep(depth: usize, flags: u64) -> [u64; 5] {
    [
        WIDTH as u64,
        HEIGHT as u64,
        depth as u64,
        WORD | 1 << 32,
        flags,
    ]
}

/// Words of a side of `CUDA_MEMCPY3D`; three follow both.
const SIDE: usize = 11;

/// Calls a body with a new array.
pub(super) fn with_array(
    bench: &Bench,
    descriptor: &[u64; 3],
    body: impl FnOnce(u64) -> Outcome,
) -> Outcome {
    let array = bench.made("cuArrayCreate_v2", words![descriptor])?;
    let seen = body(array);
    bench.ok("cuArrayDestroy", words![array])?;
    seen
}

fn row(bench: &Bench, body: impl FnOnce(u64) -> Outcome) -> Outcome {
    with_array(bench, &flat(WIDTH, 0, WORD, 1), body)
}

fn read_row(bench: &Bench, array: u64, offset: usize, count: usize) -> Result<Vec<u32>, Finding> {
    let mut items = vec![0u32; count];
    let words = words![items.as_mut_slice(), array, offset, 4 * count];
    bench.ok("cuMemcpyAtoH_v2", words)?;
    Ok(items)
}

fn counted() -> [u32; WIDTH] {
    std::array::from_fn(|at| at as u32)
}

pub(super) fn checks() -> Vec<Check> {
    let mut checks = told();
    checks.extend(refused());
    checks.extend(copied());
    checks
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
fn told() -> Vec<Check> {
    let of = |function| (function, MEMORY);
    vec![
        Check::new(
            of("cuArrayGetDescriptor"),
            "it is as it was asked for",
            |it| {
                for wanted in [flat(7, 5, FLOAT, 4), flat(9, 0, WORD, 2), flat(1, 1, 1, 1)] {
                    with_array(it, &wanted, |array| {
                        let mut told = [0u64; 3];
                        it.ok("cuArrayGetDescriptor_v2", words![&mut told, array])?;
                        ensure!(told == wanted, "{told:x?} of {wanted:x?}");
                        Ok(())
                    })?;
                }
                Ok(())
            },
        ),
        Check::new(
            of("cuArray3DGetDescriptor"),
            "it has a depth and flags",
            |it| {
                // Layers, and loads and stores through surfaces.
                let wanted = deep(6, 1 | 2);
                let array = it.made("cuArray3DCreate_v2", words![&wanted])?;
                let mut told = [0u64; 5];
                let seen = it.ok("cuArray3DGetDescriptor_v2", words![&mut told, array]);
                it.ok("cuArrayDestroy", words![array])?;
                seen?;
                ensure!(told == wanted, "{told:x?} of {wanted:x?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuMipmappedArrayGetLevel"),
            "each level is half of the one before",
            |it| {
                let whole = deep(0, 0);
                let levels = it.made("cuMipmappedArrayCreate", words![&whole, 3u32])?;
                let seen = (0..3u32).try_for_each(|level| {
                    let array = it.made("cuMipmappedArrayGetLevel", words![levels, level])?;
                    let mut told = [0u64; 3];
                    it.ok("cuArrayGetDescriptor_v2", words![&mut told, array])?;
                    let wanted = (whole[0] >> level, whole[1] >> level);
                    ensure!((told[0], told[1]) == wanted, "level {level}: {told:x?}");
                    Ok(())
                });
                it.ok("cuMipmappedArrayDestroy", words![levels])?;
                seen
            },
        ),
        Check::new(
            of("cuMipmappedArrayCreate"),
            "more levels than there can be are as many as there can be",
            |it| {
                let point: [u64; 5] = [1, 1, 0, WORD | 1 << 32, 0];
                let levels = it.made("cuMipmappedArrayCreate", words![&point, 9u32])?;
                let mut array = 0u64;
                let words = words![&mut array, levels, 1u32];
                let seen = it.expect(INVALID_VALUE, "cuMipmappedArrayGetLevel", words);
                it.ok("cuMipmappedArrayDestroy", words![levels])?;
                seen
            },
        ),
        Check::new(
            of("cuMipmappedArrayGetLevel"),
            "a level that there is not is refused",
            |it| {
                let levels = it.made("cuMipmappedArrayCreate", words![&deep(0, 0), 1u32])?;
                let mut array = 0u64;
                let words = words![&mut array, levels, 1u32];
                let seen = it.expect(INVALID_VALUE, "cuMipmappedArrayGetLevel", words);
                it.ok("cuMipmappedArrayDestroy", words![levels])?;
                seen
            },
        ),
    ]
}

fn refused() -> Vec<Check> {
    let create = ("cuArrayCreate", MEMORY);
    let refused = |claim: &'static str, descriptor: [u64; 3]| {
        Check::new(create, claim, move |it| {
            let mut array = 0u64;
            let words = words![&mut array, &descriptor];
            it.expect(INVALID_VALUE, "cuArrayCreate_v2", words)
        })
    };
    vec![
        refused("three channels are refused", flat(4, 4, WORD, 3)),
        refused("no channel is refused", flat(4, 4, WORD, 0)),
        refused("a format that there is not is refused", flat(4, 4, 0x77, 1)),
        refused("a width of 0 is refused", flat(0, 4, WORD, 1)),
        Check::new(
            ("cuArrayDestroy", MEMORY),
            "an array is destroyed once",
            |it| {
                let array = it.made("cuArrayCreate_v2", words![&flat(4, 4, WORD, 1)])?;
                it.ok("cuArrayDestroy", words![array])?;
                it.expect_one_of(
                    &[INVALID_HANDLE, INVALID_VALUE],
                    "cuArrayDestroy",
                    words![array],
                )
            },
        ),
        Check::new(
            ("cuMemcpyHtoA", MEMORY),
            "more than a row has is refused",
            |it| {
                row(it, |array| {
                    let items = counted();
                    let words = words![array, 4usize, &items, 4 * WIDTH];
                    it.expect(INVALID_VALUE, "cuMemcpyHtoA_v2", words)
                })
            },
        ),
        Check::new(
            ("cuMemcpyAtoH", MEMORY),
            "an offset beyond a row is refused",
            |it| {
                row(it, |array| {
                    let mut items = [0u32; 1];
                    let words = words![&mut items, array, 4 * WIDTH, 4usize];
                    it.expect(INVALID_VALUE, "cuMemcpyAtoH_v2", words)
                })
            },
        ),
    ]
}

fn copied() -> Vec<Check> {
    let of = |function| (function, MEMORY);
    vec![
        Check::new(
            of("cuMemcpyHtoA"),
            "bytes go to a row and come back",
            |it| {
                row(it, |array| {
                    let items = counted();
                    it.ok("cuMemcpyHtoA_v2", words![array, 0usize, &items, 4 * WIDTH])?;
                    let back = read_row(it, array, 0, WIDTH)?;
                    ensure!(back == items, "{back:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuMemcpyAtoA"),
            "offsets are bytes of either row",
            |it| {
                row(it, |from| {
                    row(it, |to| {
                        let items = counted();
                        let all = words![from, 0usize, &items, 4 * WIDTH];
                        it.ok("cuMemcpyHtoA_v2", all)?;
                        it.ok(
                            "cuMemcpyAtoA_v2",
                            words![to, 8usize, from, 20usize, 12usize],
                        )?;
                        let back = read_row(it, to, 8, 3)?;
                        ensure!(back == [5, 6, 7], "{back:?}");
                        Ok(())
                    })
                })
            },
        ),
        Check::new(of("cuMemcpyAtoD"), "device memory takes part", |it| {
            row(it, |array| {
                let address = it.alloc(4 * WIDTH)?;
                it.write(address, &counted())?;
                it.ok("cuMemcpyDtoA_v2", words![array, 0usize, address, 4 * WIDTH])?;
                it.ok("cuMemcpyAtoD_v2", words![address, array, 16usize, 8usize])?;
                let back = it.read::<u32>(address, 3)?;
                ensure!(back == [4, 5, 2], "{back:?}");
                Ok(())
            })
        }),
        Check::new(
            of("cuMemcpy3D"),
            "a box within a volume is copied and no more",
            boxes,
        ),
    ]
}

/// Fills a volume and reads a box of it back.
fn boxes(bench: &Bench) -> Outcome {
    const DEPTH: usize = 3;
    let array = bench.made("cuArray3DCreate_v2", words![&deep(DEPTH, 0)])?;
    let items: Vec<u32> = (0..(WIDTH * HEIGHT * DEPTH) as u32).collect();
    let mut back = vec![0u32; 2 * 2 * 2];
    let (host, of_array) = (1u64, 3u64);
    let at = |place: *const u32| place.expose_provenance() as u64;
    // Each side: x in bytes, y, z, level of detail, kind, host, device, array, reserved, pitch, height.
    let side = |[x, y, z]: [u64; 3], kind: u64, place: u64, pitch: usize, height: usize| {
        let (on_host, in_array) = if kind == host { (place, 0) } else { (0, place) };
        let extents = (pitch as u64, height as u64);
        [
            x, y, z, 0, kind, on_host, 0, in_array, 0, extents.0, extents.1,
        ]
    };
    let copy = |from: [u64; SIDE], to: [u64; SIDE], extent: [u64; 3]| {
        let mut all = [0u64; 2 * SIDE + 3];
        all[..SIDE].copy_from_slice(&from);
        all[SIDE..2 * SIDE].copy_from_slice(&to);
        all[2 * SIDE..].copy_from_slice(&extent);
        bench.ok("cuMemcpy3D_v2", words![&all])
    };
    let whole = side([0; 3], host, at(items.as_ptr()), 4 * WIDTH, HEIGHT);
    let into = side([0; 3], of_array, array, 0, 0);
    let inner = side([8, 3, 1], of_array, array, 0, 0);
    let out = side([0; 3], host, at(back.as_mut_ptr()), 8, 2);
    let seen = copy(whole, into, [4 * WIDTH as u64, HEIGHT as u64, DEPTH as u64])
        .and_then(|()| copy(inner, out, [8, 2, 2]));
    bench.ok("cuArrayDestroy", words![array])?;
    seen?;
    let item = |x: usize, y: usize, z: usize| items[(z * HEIGHT + y) * WIDTH + x];
    let wanted: Vec<u32> = [(1, 3), (1, 4), (2, 3), (2, 4)]
        .iter()
        .flat_map(|(z, y)| [item(2, *y, *z), item(3, *y, *z)])
        .collect();
    ensure!(back == wanted, "{back:?}, not {wanted:?}");
    Ok(())
}
