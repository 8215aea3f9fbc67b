//! Launches and occupancy.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES, SUCCESS};
use crate::driver::{Argument as _, Word, words};
use crate::finding::{Outcome, ensure};

const CONTROL: &str = "Execution Control";
const OCCUPANCY: &str = "Occupancy";

/// `CU_LAUNCH_PARAM_*`.
const BUFFER: u64 = 1;
const SIZE: u64 = 2;
const END: u64 = 0;

/// Launches `nothing` in a shape.
fn shaped(
    bench: &Bench,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
) -> Result<i32, crate::finding::Finding> {
    let kernel = bench.kernel(c"nothing")?;
    let null = Word::NULL;
    let seen = bench.code(
        "cuLaunchKernel",
        words![
            kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, null, null,
            null,
        ],
    )?;
    Ok(seen.0)
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, CONTROL);
    let refused = |claim: &'static str, grid: [u32; 3], block: [u32; 3], shared: u32| {
        Check::new(of("cuLaunchKernel"), claim, move |it| {
            let seen = shaped(it, grid, block, shared)?;
            ensure!(seen == INVALID_VALUE, "it gave {seen}");
            Ok(())
        })
    };
    let mut checks = vec![
        refused(
            "a block of more threads than there may be is refused",
            [1; 3],
            [1025, 1, 1],
            0,
        ),
        refused(
            "a block of too many threads in all is refused",
            [1; 3],
            [64, 64, 1],
            0,
        ),
        refused("a block's z above 64 is refused", [1; 3], [1, 1, 65], 0),
        refused(
            "a grid's y above 65535 is refused",
            [1, 65_536, 1],
            [1; 3],
            0,
        ),
        refused(
            "a grid's z above 65535 is refused",
            [1, 1, 65_536],
            [1; 3],
            0,
        ),
        refused(
            "more shared memory than a kernel has opted in to is refused",
            [1; 3],
            [32, 1, 1],
            49 << 10,
        ),
        Check::new(
            of("cuLaunchKernel"),
            "static and dynamic shared memory count together",
            |it| {
                let (kernel, to) = (it.kernel(c"bounded")?, it.alloc(64)?);
                let parameters = [to, 0, 0];
                let places = parameters.each_ref().map(|it| it.word().0);
                let null = Word::NULL;
                it.expect(
                    INVALID_VALUE,
                    "cuLaunchKernel",
                    words![
                        kernel,
                        1u32,
                        1u32,
                        1u32,
                        32u32,
                        1u32,
                        1u32,
                        46u32 << 10,
                        null,
                        &places,
                        null
                    ],
                )
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "more threads than maxntid are refused",
            |it| {
                let (kernel, to) = (it.kernel(c"bounded")?, it.alloc(64)?);
                let parameters = [to, 0, 0];
                let places = parameters.each_ref().map(|it| it.word().0);
                let null = Word::NULL;
                it.expect_one_of(
                    &[INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES],
                    "cuLaunchKernel",
                    words![
                        kernel, 1u32, 1u32, 1u32, 256u32, 1u32, 1u32, 0u32, null, &places, null
                    ],
                )
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "every thread of every block runs once",
            |it| {
                let (kernel, to) = (it.kernel(c"increment")?, it.alloc(4 * 100_000)?);
                it.ok("cuMemsetD32_v2", words![to, 0u32, 100_000usize])?;
                it.launch(kernel, 391, 256, &[to, 100_000])?;
                let seen = it.read::<u32>(to, 100_000)?;
                let wrong = seen.iter().position(|it| *it != 1);
                ensure!(wrong.is_none(), "item {wrong:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "launches of a stream run one after the other",
            |it| {
                let (kernel, to) = (it.kernel(c"increment")?, it.alloc(4096)?);
                it.ok("cuMemsetD32_v2", words![to, 0u32, 1024usize])?;
                for _ in 0..50 {
                    it.launch(kernel, 4, 256, &[to, 1024])?;
                }
                let seen = it.read::<u32>(to, 1024)?;
                ensure!(seen == [50; 1024], "{}", seen[0]);
                Ok(())
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "parameters are read when the call is made",
            |it| {
                let (kernel, to) = (it.kernel(c"fill")?, it.alloc(256)?);
                let mut parameters = [to, 5, 64];
                it.launch(kernel, 1, 64, &parameters)?;
                parameters.fill(0);
                let seen = it.read::<u32>(to, 64)?;
                ensure!(parameters == [0; 3] && seen == [5; 64], "{seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "parameters may come as one buffer",
            |it| {
                let (kernel, to) = (it.kernel(c"fill")?, it.alloc(256)?);
                let (buffer, size) = ([to, 6, 64], 24usize);
                let extra = [
                    BUFFER,
                    buffer.each_ref().as_slice()[0].word().0,
                    SIZE,
                    (&size).word().0,
                    END,
                ];
                let null = Word::NULL;
                it.ok(
                    "cuLaunchKernel",
                    words![
                        kernel, 1u32, 1u32, 1u32, 64u32, 1u32, 1u32, 0u32, null, null, &extra
                    ],
                )?;
                let seen = it.read::<u32>(to, 64)?;
                ensure!(seen == [6; 64], "{seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "parameters in both ways are refused",
            |it| {
                let (kernel, to) = (it.kernel(c"fill")?, it.alloc(256)?);
                let (buffer, size) = ([to, 6, 64], 24usize);
                let places = buffer.each_ref().map(|it| it.word().0);
                let extra = [BUFFER, (&buffer).word().0, SIZE, (&size).word().0, END];
                let null = Word::NULL;
                it.expect(
                    INVALID_VALUE,
                    "cuLaunchKernel",
                    words![
                        kernel, 1u32, 1u32, 1u32, 64u32, 1u32, 1u32, 0u32, null, &places, &extra
                    ],
                )
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "dynamic shared memory is a block's own",
            |it| {
                let (kernel, to) = (it.kernel(c"reverse")?, it.alloc(512)?);
                let parameters = [to];
                let places = parameters.each_ref().map(|it| it.word().0);
                let null = Word::NULL;
                it.ok(
                    "cuLaunchKernel",
                    words![
                        kernel, 1u32, 1u32, 1u32, 128u32, 1u32, 1u32, 512u32, null, &places, null
                    ],
                )?;
                let seen = it.read::<u32>(to, 128)?;
                let wanted: Vec<u32> = (0..128).rev().collect();
                ensure!(seen == wanted, "{seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "a kernel that opted in has more shared memory",
            |it| {
                let module = it.fresh_module()?;
                let kernel = it.made("cuModuleGetFunction", words![module, c"reverse"])?;
                let most = it.attribute(97)?;
                it.ok("cuFuncSetAttribute", words![kernel, 8i32, most])?;
                let to = it.alloc(512)?;
                let parameters = [to];
                let places = parameters.each_ref().map(|it| it.word().0);
                let null = Word::NULL;
                it.ok(
                    "cuLaunchKernel",
                    words![
                        kernel, 1u32, 1u32, 1u32, 128u32, 1u32, 1u32, most, null, &places, null
                    ],
                )?;
                it.sync()?;
                it.ok("cuModuleUnload", words![module])
            },
        ),
        Check::new(
            of("cuLaunchCooperativeKernel"),
            "a grid that fits on the device runs",
            |it| {
                let (kernel, to) = (it.kernel(c"fill")?, it.alloc(128)?);
                let parameters = [to, 3, 32];
                let places = parameters.each_ref().map(|it| it.word().0);
                it.ok(
                    "cuLaunchCooperativeKernel",
                    words![
                        kernel,
                        1u32,
                        1u32,
                        1u32,
                        32u32,
                        1u32,
                        1u32,
                        0u32,
                        Word::NULL,
                        &places
                    ],
                )?;
                let seen = it.read::<u32>(to, 32)?;
                ensure!(seen == [3; 32], "{seen:?}");
                Ok(())
            },
        ),
        Check::new(
            of("cuLaunchCooperativeKernel"),
            "a grid that cannot be on the device at once is refused",
            |it| {
                let kernel = it.kernel(c"nothing")?;
                it.expect_one_of(
                    &[720, INVALID_VALUE],
                    "cuLaunchCooperativeKernel",
                    words![
                        kernel,
                        1u32 << 24,
                        1u32,
                        1u32,
                        1024u32,
                        1u32,
                        1u32,
                        0u32,
                        Word::NULL,
                        Word::NULL
                    ],
                )
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "a stream that was destroyed is refused",
            |it| {
                let stream = it.made("cuStreamCreate", words![0u32])?;
                it.ok("cuStreamDestroy_v2", words![stream])?;
                let kernel = it.kernel(c"nothing")?;
                let null = Word::NULL;
                let seen = it.code(
                    "cuLaunchKernel",
                    words![
                        kernel, 1u32, 1u32, 1u32, 1u32, 1u32, 1u32, 0u32, stream, null, null
                    ],
                )?;
                ensure!(seen.0 != SUCCESS, "{seen}");
                Ok(())
            },
        )
        .uncertain(),
    ];
    checks.extend(occupancy());
    checks
}

fn blocks(
    bench: &Bench,
    kernel: u64,
    threads: i32,
    shared: usize,
) -> Result<i32, crate::finding::Finding> {
    let mut blocks = -1i32;
    bench.ok(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        words![&mut blocks, kernel, threads, shared],
    )?;
    Ok(blocks)
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
fn occupancy() -> Vec<Check> {
    let of = |function| (function, OCCUPANCY);
    let most = of("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    vec![
        Check::new(
            most,
            "blocks times threads are at most a multiprocessor's",
            |it| {
                let (kernel, limit) = (it.kernel(c"fill")?, it.attribute(39)?);
                for threads in [32, 64, 128, 256, 512, 1024] {
                    let blocks = blocks(it, kernel, threads, 0)?;
                    ensure!(
                        blocks >= 1 && blocks * threads <= limit,
                        "{blocks} blocks of {threads}, of {limit}"
                    );
                }
                Ok(())
            },
        ),
        Check::new(most, "small blocks are as many as the device says", |it| {
            let (seen, limit) = (
                blocks(it, it.kernel(c"nothing")?, 32, 0)?,
                it.attribute(106)?,
            );
            ensure!(seen <= limit, "{seen} of {limit}");
            Ok(())
        }),
        Check::new(most, "shared memory bounds the blocks", |it| {
            let (kernel, whole) = (it.kernel(c"reverse")?, it.attribute(81)?);
            let few = blocks(it, kernel, 32, 40 << 10)?;
            let many = blocks(it, kernel, 32, 0)?;
            ensure!(
                few <= many && few <= whole / (40 << 10),
                "{few} and {many} of {whole} bytes"
            );
            Ok(())
        }),
        Check::new(
            of("cuOccupancyMaxPotentialBlockSize"),
            "the block that is proposed is a multiple of a warp and can be launched",
            |it| {
                let (mut grid, mut block) = (0i32, 0i32);
                let (kernel, null) = (it.kernel(c"fill")?, Word::NULL);
                it.ok(
                    "cuOccupancyMaxPotentialBlockSize",
                    words![&mut grid, &mut block, kernel, null, 0usize, 0i32],
                )?;
                ensure!(
                    block % 32 == 0 && (32..=1024).contains(&block) && grid >= 1,
                    "{grid} blocks of {block}"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuOccupancyMaxPotentialBlockSize"),
            "a limit of threads is kept",
            |it| limited(it, 128),
        ),
        Check::new(
            of("cuOccupancyAvailableDynamicSMemPerBlock"),
            "fewer blocks have more of it",
            |it| {
                let kernel = it.kernel(c"reverse")?;
                let (mut one, mut four) = (0usize, 0usize);
                let symbol = "cuOccupancyAvailableDynamicSMemPerBlock";
                it.ok(symbol, words![&mut one, kernel, 1i32, 64i32])?;
                it.ok(symbol, words![&mut four, kernel, 4i32, 64i32])?;
                ensure!(one >= four && four > 0, "{one} and {four}");
                Ok(())
            },
        ),
    ]
}

fn limited(bench: &Bench, limit: i32) -> Outcome {
    let (mut grid, mut block) = (0i32, 0i32);
    let kernel = bench.kernel(c"fill")?;
    bench.ok(
        "cuOccupancyMaxPotentialBlockSize",
        words![&mut grid, &mut block, kernel, Word::NULL, 0usize, limit],
    )?;
    ensure!((1..=limit).contains(&block), "{block}");
    Ok(())
}
