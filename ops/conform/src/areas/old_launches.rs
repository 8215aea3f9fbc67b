//! Launches in the style of CUDA 3: shape and parameters are set on the kernel first.

use super::captures::{ALONE, RELAXED, capturing, nodes};
use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_CONTEXT, INVALID_VALUE, SUCCESS};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};

const LAUNCHES: &str = "Execution Control [DEPRECATED]";
const CONTEXTS: &str = "Context Management [DEPRECATED]";
/// Words that a check fills.
const WORDS: usize = 64;

/// The kernel `fill` with its parameters, to fill words with a value in blocks of 32 threads.
fn prepared(bench: &Bench, address: u64, value: u32) -> Result<u64, Finding> {
    let kernel = bench.kernel(c"fill")?;
    bench.ok("cuFuncSetBlockShape", words![kernel, 32i32, 1i32, 1i32])?;
    bench.ok("cuFuncSetSharedSize", words![kernel, 0u32])?;
    bench.ok("cuParamSetv", words![kernel, 0i32, &address, 8u32])?;
    bench.ok("cuParamSeti", words![kernel, 8i32, value])?;
    bench.ok("cuParamSeti", words![kernel, 12i32, 0u32])?;
    bench.ok("cuParamSetv", words![kernel, 16i32, &WORDS, 8u32])?;
    bench.ok("cuParamSetSize", words![kernel, 24u32])?;
    Ok(kernel)
}

/// Number of words that a launch fills with the value.
fn filled(bench: &Bench, launch: impl FnOnce(u64) -> Outcome) -> Result<usize, Finding> {
    let address = bench.alloc(4 * WORDS)?;
    bench.write(address, &[0u32; WORDS])?;
    let kernel = prepared(bench, address, 77)?;
    launch(kernel)?;
    bench.sync()?;
    let words = bench.read::<u32>(address, WORDS)?;
    Ok(words.iter().take_while(|it| **it == 77).count())
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, LAUNCHES);
    let mut checks = vec![
        Check::new(of("cuLaunch"), "one block runs", |it| {
            let count = filled(it, |kernel| it.ok("cuLaunch", words![kernel]))?;
            ensure!(count == 32, "{count} words are filled");
            Ok(())
        }),
        Check::new(of("cuLaunchGrid"), "as many blocks run as it says", |it| {
            let launch = |kernel| it.ok("cuLaunchGrid", words![kernel, 2i32, 1i32]);
            let count = filled(it, launch)?;
            ensure!(count == WORDS, "{count} words are filled");
            Ok(())
        }),
        Check::new(
            of("cuFuncSetBlockShape"),
            "the last shape is that of a block",
            |it| {
                let count = filled(it, |kernel| {
                    it.ok("cuFuncSetBlockShape", words![kernel, 8i32, 1i32, 1i32])?;
                    it.ok("cuLaunchGrid", words![kernel, 2i32, 1i32])
                })?;
                ensure!(count == 16, "{count} words are filled");
                Ok(())
            },
        ),
        Check::new(of("cuParamSetf"), "a float arrives as it is", |it| {
            let address = it.alloc(4 * WORDS)?;
            let kernel = prepared(it, address, 0)?;
            let set = it.driver().set_float(kernel, 8, 1.5);
            let set = set.ok_or_else(|| Finding("the driver has no cuParamSetf".into()))?;
            ensure!(set.0 == SUCCESS, "cuParamSetf gave {set}");
            it.ok("cuLaunch", words![kernel])?;
            it.sync()?;
            let word = it.read::<f32>(address, 1)?[0];
            ensure!(word.to_bits() == 1.5f32.to_bits(), "{word}");
            Ok(())
        }),
        Check::new(
            of("cuLaunchGridAsync"),
            "a captured launch is a node",
            |it| {
                let address = it.alloc(4 * WORDS)?;
                let kernel = prepared(it, address, 1)?;
                capturing(it, (ALONE, RELAXED), |stream| {
                    it.ok("cuLaunchGridAsync", words![kernel, 2i32, 1i32, stream])?;
                    let (mut status, mut graph) = (0i32, 0u64);
                    it.ok(
                        "cuStreamGetCaptureInfo_v2",
                        words![
                            stream,
                            &mut status,
                            Word::NULL,
                            &mut graph,
                            Word::NULL,
                            Word::NULL
                        ],
                    )?;
                    let count = nodes(it, graph)?;
                    ensure!(count == 1, "{count} nodes");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuParamSetSize"),
            "a launch with too few parameters is refused",
            |it| {
                let address = it.alloc(4 * WORDS)?;
                let kernel = prepared(it, address, 1)?;
                it.ok("cuParamSetSize", words![kernel, 8u32])?;
                let seen = it.code("cuLaunch", words![kernel])?;
                it.ok("cuParamSetSize", words![kernel, 24u32])?;
                ensure!(seen.0 != SUCCESS, "it succeeded");
                Ok(())
            },
        )
        .uncertain(),
        Check::new(of("cuParamSeti"), "a negative offset is refused", |it| {
            let kernel = it.kernel(c"fill")?;
            it.expect(INVALID_VALUE, "cuParamSeti", words![kernel, -4i32, 1u32])
        })
        .uncertain(),
    ];
    checks.extend(contexts());
    checks
}

fn contexts() -> Vec<Check> {
    let of = |function| (function, CONTEXTS);
    let made = |it: &Bench| it.made("cuCtxCreate_v2", words![0u32, 0i32]);
    vec![
        Check::new(
            of("cuCtxDetach"),
            "the last detach destroys a context",
            move |it| {
                let context = made(it)?;
                it.ok("cuCtxDetach", words![context])?;
                it.expect(INVALID_CONTEXT, "cuCtxSetCurrent", words![context])
            },
        )
        .uncertain(),
        Check::new(
            of("cuCtxAttach"),
            "a context that is attached to outlives a detach",
            move |it| {
                let context = made(it)?;
                let attached = it.made("cuCtxAttach", words![0u32]);
                let kept = it.ok("cuCtxDetach", words![context]);
                let current = it.made("cuCtxGetCurrent", words![]);
                it.ok("cuCtxDetach", words![context])?;
                kept?;
                let (attached, current) = (attached?, current?);
                ensure!(
                    (attached, current) == (context, context),
                    "{attached:#x} and {current:#x} of {context:#x}"
                );
                Ok(())
            },
        ),
    ]
}
