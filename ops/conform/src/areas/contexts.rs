//! Contexts, primary contexts, threads, limits.

use std::thread;

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{
    CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, PEER_ACCESS_NOT_ENABLED,
    SUCCESS, UNSUPPORTED_LIMIT,
};
use crate::driver::{Argument as _, Code, Word, words};
use crate::finding::{Finding, Outcome, ensure};

const CONTEXTS: &str = "Context Management";
const PRIMARY: &str = "Primary Context Management";

fn create(bench: &Bench, flags: u32) -> Result<u64, Finding> {
    bench.made("cuCtxCreate_v2", words![flags, 0i32])
}

fn current(bench: &Bench) -> Result<u64, Finding> {
    bench.made("cuCtxGetCurrent", words![])
}

/// Bytes of free memory.
fn free(bench: &Bench) -> Result<usize, Finding> {
    let mut free = 0usize;
    bench.ok("cuMemGetInfo_v2", words![&mut free, Word::NULL])?;
    Ok(free)
}

/// Makes a call in a thread of its own.
fn elsewhere(bench: &Bench, symbol: &'static str, words: Vec<Word>) -> Result<Code, Finding> {
    let driver = bench.driver();
    let seen = thread::spawn(move || driver.call(symbol, &words)).join();
    let seen = seen.map_err(|_| Finding("the thread panicked".into()))?;
    seen.ok_or_else(|| Finding(format!("the driver has no {symbol}")))
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, CONTEXTS);
    let mut checks = vec![
        Check::new(of("cuCtxCreate"), "a new context is current", |it| {
            let before = current(it)?;
            let made = create(it, 0)?;
            let now = current(it)?;
            it.ok("cuCtxDestroy_v2", words![made])?;
            ensure!(
                now == made && made != before,
                "{now:#x} is current, {made:#x} was made"
            );
            let after = current(it)?;
            ensure!(
                after == before,
                "behind its destruction {after:#x} is current, not {before:#x}"
            );
            Ok(())
        }),
        Check::new(of("cuCtxPopCurrent"), "contexts are a stack", |it| {
            let before = current(it)?;
            let made = create(it, 0)?;
            it.ok("cuCtxPushCurrent_v2", words![before])?;
            let (mut first, mut second) = (0u64, 0u64);
            it.ok("cuCtxPopCurrent_v2", words![&mut first])?;
            it.ok("cuCtxPopCurrent_v2", words![&mut second])?;
            it.ok("cuCtxDestroy_v2", words![made])?;
            ensure!((first, second) == (before, made), "{first:#x}, {second:#x}");
            Ok(())
        }),
        Check::new(
            of("cuCtxPopCurrent"),
            "an empty stack says that there is no context",
            |it| {
                let seen = elsewhere(it, "cuCtxPopCurrent_v2", vec![Word::NULL])?;
                ensure!(seen.0 == INVALID_CONTEXT, "{seen}");
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxGetCurrent"),
            "a thread begins without a context",
            |it| {
                let mut context = 9u64;
                let seen = elsewhere(it, "cuCtxGetCurrent", vec![(&mut context).word()])?;
                ensure!(
                    seen.0 == SUCCESS && context == 0,
                    "{seen}, context {context:#x}"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxGetDevice"),
            "a thread without a context is told so",
            |it| {
                let mut device = 0i32;
                let seen = elsewhere(it, "cuCtxGetDevice", vec![(&mut device).word()])?;
                ensure!(seen.0 == INVALID_CONTEXT, "{seen}");
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxSetCurrent"),
            "null takes the context off the stack",
            |it| {
                let before = current(it)?;
                it.ok("cuCtxSetCurrent", words![Word::NULL])?;
                let now = current(it)?;
                it.ok("cuCtxSetCurrent", words![before])?;
                ensure!(now == 0, "{now:#x} is current");
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxDestroy"),
            "memory of the context ends with it",
            |it| {
                it.undisturbed(|it| {
                    let before = free(it)?;
                    let made = create(it, 0)?;
                    let address = it.made("cuMemAlloc_v2", words![64usize << 20])?;
                    it.ok("cuCtxDestroy_v2", words![made])?;
                    let after = free(it)?;
                    ensure!(
                        address != 0 && after + (32 << 20) > before,
                        "{before} were free, then {after}"
                    );
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuCtxDestroy"),
            "an event of the context ends with it",
            |it| {
                let made = create(it, 0)?;
                let event = it.made("cuEventCreate", words![0u32])?;
                it.ok("cuCtxDestroy_v2", words![made])?;
                it.expect_one_of(
                    &[INVALID_HANDLE, CONTEXT_IS_DESTROYED, INVALID_CONTEXT],
                    "cuEventQuery",
                    words![event],
                )
            },
        )
        .uncertain(),
        Check::new(of("cuCtxGetFlags"), "flags are as they were given", |it| {
            let made = create(it, 4)?;
            let mut flags = 0u32;
            let seen = it.ok("cuCtxGetFlags", words![&mut flags]);
            it.ok("cuCtxDestroy_v2", words![made])?;
            seen?;
            ensure!(flags & 7 == 4, "flags {flags:#x}");
            Ok(())
        }),
        Check::new(of("cuCtxGetId"), "ids of two contexts differ", |it| {
            let (mut one, mut other) = (0u64, 0u64);
            it.ok("cuCtxGetId", words![Word::NULL, &mut one])?;
            let made = create(it, 0)?;
            it.ok("cuCtxGetId", words![Word::NULL, &mut other])?;
            it.ok("cuCtxDestroy_v2", words![made])?;
            ensure!(one != other, "both are {one}");
            Ok(())
        }),
        Check::new(
            of("cuCtxGetApiVersion"),
            "a version is at least 3010",
            |it| {
                let mut version = 0u32;
                it.ok("cuCtxGetApiVersion", words![current(it)?, &mut version])?;
                ensure!(version >= 3010, "{version}");
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxGetStreamPriorityRange"),
            "the greatest priority is the lowest number",
            |it| {
                let (mut least, mut greatest) = (9i32, 9i32);
                it.ok(
                    "cuCtxGetStreamPriorityRange",
                    words![&mut least, &mut greatest],
                )?;
                ensure!(
                    least == 0 && greatest <= least,
                    "least {least}, greatest {greatest}"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxSetLimit"),
            "a stack size is what is set, or more",
            |it| {
                let mut before = 0usize;
                it.ok("cuCtxGetLimit", words![&mut before, 0i32])?;
                it.ok("cuCtxSetLimit", words![0i32, 4096usize])?;
                let mut now = 0usize;
                it.ok("cuCtxGetLimit", words![&mut now, 0i32])?;
                it.ok("cuCtxSetLimit", words![0i32, before])?;
                ensure!(now >= 4096, "{now}");
                Ok(())
            },
        ),
        Check::new(
            of("cuCtxGetLimit"),
            "an unknown limit is unsupported",
            |it| {
                let mut value = 0usize;
                it.expect_one_of(
                    &[UNSUPPORTED_LIMIT, INVALID_VALUE],
                    "cuCtxGetLimit",
                    words![&mut value, 99i32],
                )
            },
        ),
        Check::new(
            of("cuCtxSetLimit"),
            "an unknown limit is unsupported",
            |it| {
                it.expect_one_of(
                    &[UNSUPPORTED_LIMIT, INVALID_VALUE],
                    "cuCtxSetLimit",
                    words![99i32, 1usize],
                )
            },
        ),
        Check::new(
            ("cuCtxDisablePeerAccess", "Peer Context Memory Access"),
            "a peer that is none is not enabled",
            |it| {
                let context = current(it)?;
                it.expect_one_of(
                    &[PEER_ACCESS_NOT_ENABLED, INVALID_CONTEXT],
                    "cuCtxDisablePeerAccess",
                    words![context],
                )
            },
        )
        .uncertain(),
    ];
    for (version, rest) in [("cuCtxGetDevice", true), ("cuCtxSynchronize", false)] {
        let claim = "the current context's is device 0";
        if rest {
            checks.push(Check::new(of(version), claim, |it| {
                let mut device = 9i32;
                it.ok("cuCtxGetDevice", words![&mut device])?;
                ensure!(device == 0, "{device}");
                Ok(())
            }));
        } else {
            checks.push(Check::new(
                of(version),
                "it succeeds without work",
                Bench::sync,
            ));
        }
    }
    for flags in [3u32, 5, 6, 7] {
        let claim = format!("the flags {flags} ask for two ways to wait and are refused");
        checks.push(Check::new(of("cuCtxCreate"), claim, move |it| {
            refused(it, flags)
        }));
    }
    checks.extend(primary());
    checks
}

fn refused(bench: &Bench, flags: u32) -> Outcome {
    let mut context = 0u64;
    let seen = bench.code("cuCtxCreate_v2", words![&mut context, flags, 0i32])?;
    if seen.0 == SUCCESS {
        bench.ok("cuCtxDestroy_v2", words![context])?;
    }
    ensure!(seen.0 == INVALID_VALUE, "{seen}");
    Ok(())
}

fn state(bench: &Bench) -> Result<(u32, i32), Finding> {
    let (mut flags, mut active) = (9u32, 9i32);
    bench.ok(
        "cuDevicePrimaryCtxGetState",
        words![0i32, &mut flags, &mut active],
    )?;
    Ok((flags, active))
}

/// Checks of the primary context, each in a process of its own.
#[expect(clippy::too_many_lines, reason = "one check after another")]
fn primary() -> Vec<Check> {
    let of = |function| (function, PRIMARY);
    vec![
        Check::new(
            of("cuDevicePrimaryCtxGetState"),
            "it is inactive before it is retained",
            |it| {
                it.ok("cuInit", words![0u32])?;
                let seen = state(it)?;
                ensure!(seen == (0, 0), "{seen:?}");
                Ok(())
            },
        )
        .alone(),
        Check::new(
            of("cuDevicePrimaryCtxRetain"),
            "retained twice it is one context, until it is released twice",
            |it| {
                it.ok("cuInit", words![0u32])?;
                let one = it.made("cuDevicePrimaryCtxRetain", words![0i32])?;
                let other = it.made("cuDevicePrimaryCtxRetain", words![0i32])?;
                ensure!(one == other, "{one:#x} and {other:#x}");
                it.ok("cuDevicePrimaryCtxRelease_v2", words![0i32])?;
                ensure!(state(it)?.1 == 1, "inactive though it is retained once");
                it.ok("cuDevicePrimaryCtxRelease_v2", words![0i32])?;
                ensure!(state(it)?.1 == 0, "active though it is released");
                it.expect(
                    INVALID_CONTEXT,
                    "cuDevicePrimaryCtxRelease_v2",
                    words![0i32],
                )
            },
        )
        .alone(),
        Check::new(
            of("cuDevicePrimaryCtxSetFlags"),
            "flags are as they were set",
            |it| {
                it.ok("cuInit", words![0u32])?;
                it.ok("cuDevicePrimaryCtxSetFlags_v2", words![0i32, 4u32])?;
                let (flags, _) = state(it)?;
                ensure!(flags & 7 == 4, "{flags:#x}");
                Ok(())
            },
        )
        .alone(),
        Check::new(
            of("cuDevicePrimaryCtxRelease"),
            "memory ends with the last release",
            |it| {
                it.begin()?;
                let before = free(it)?;
                it.made("cuMemAlloc_v2", words![64usize << 20])?;
                it.ok("cuDevicePrimaryCtxRelease_v2", words![0i32])?;
                it.begin()?;
                let after = free(it)?;
                ensure!(
                    after + (32 << 20) > before,
                    "{before} were free, then {after}"
                );
                Ok(())
            },
        )
        .alone(),
        Check::new(of("cuDevicePrimaryCtxReset"), "memory ends with it", |it| {
            it.begin()?;
            let before = free(it)?;
            it.made("cuMemAlloc_v2", words![64usize << 20])?;
            it.ok("cuDevicePrimaryCtxReset_v2", words![0i32])?;
            it.begin()?;
            let after = free(it)?;
            ensure!(
                after + (32 << 20) > before,
                "{before} were free, then {after}"
            );
            Ok(())
        })
        .alone(),
        Check::new(
            of("cuDevicePrimaryCtxRelease"),
            "a released context that is current allocates no memory",
            |it| {
                it.begin()?;
                it.ok("cuDevicePrimaryCtxRelease_v2", words![0i32])?;
                let mut address = 0u64;
                it.expect_one_of(
                    &[CONTEXT_IS_DESTROYED, INVALID_CONTEXT],
                    "cuMemAlloc_v2",
                    words![&mut address, 64usize],
                )
            },
        )
        .alone(),
    ]
}
