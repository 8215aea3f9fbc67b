//! Streams: flags, priorities, ids, attributes.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::driver::{Word, words};
use crate::finding::{Outcome, ensure};

const STREAMS: &str = "Stream Management";
/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, STREAMS);
    vec![
        Check::new(
            of("cuStreamGetFlags"),
            "flags are as they were given",
            |it| {
                for wanted in [0u32, 1] {
                    let mut flags = 9u32;
                    with_stream(it, wanted, |stream| {
                        it.ok("cuStreamGetFlags", words![stream, &mut flags])
                    })?;
                    ensure!(flags == wanted, "{flags}, not {wanted}");
                }
                Ok(())
            },
        ),
        Check::new(
            of("cuStreamCreateWithPriority"),
            "a priority is within the range that there is",
            |it| {
                let (mut least, mut greatest) = (0i32, 0i32);
                it.ok(
                    "cuCtxGetStreamPriorityRange",
                    words![&mut least, &mut greatest],
                )?;
                for (asked, wanted) in [
                    (greatest - 50, greatest),
                    (greatest, greatest),
                    (least + 50, least),
                ] {
                    let stream = it.made("cuStreamCreateWithPriority", words![0u32, asked])?;
                    let mut seen = 99i32;
                    let got = it.ok("cuStreamGetPriority", words![stream, &mut seen]);
                    it.ok("cuStreamDestroy_v2", words![stream])?;
                    got?;
                    ensure!(
                        seen == wanted,
                        "{asked} was asked for, {seen} is said, not {wanted}"
                    );
                }
                Ok(())
            },
        ),
        Check::new(
            of("cuStreamGetCtx"),
            "a stream's context is the one that made it",
            |it| {
                let (mut context, current) = (0u64, it.made("cuCtxGetCurrent", words![])?);
                with_stream(it, 0, |stream| {
                    it.ok("cuStreamGetCtx", words![stream, &mut context])
                })?;
                ensure!(context == current, "{context:#x}, not {current:#x}");
                Ok(())
            },
        ),
        Check::new(of("cuStreamGetId"), "ids of streams differ", |it| {
            let (mut one, mut other) = (0u64, 0u64);
            with_stream(it, 0, |first| {
                it.ok("cuStreamGetId", words![first, &mut one])?;
                with_stream(it, 0, |second| {
                    it.ok("cuStreamGetId", words![second, &mut other])
                })
            })?;
            ensure!(one != other, "both are {one}");
            Ok(())
        }),
        Check::new(of("cuStreamQuery"), "a stream without work is done", |it| {
            with_stream(it, 0, |stream| it.ok("cuStreamQuery", words![stream]))
        }),
        Check::new(
            of("cuStreamSynchronize"),
            "the default streams have names of their own",
            |it| {
                it.ok("cuStreamSynchronize", words![Word::NULL])?;
                it.ok("cuStreamSynchronize", words![LEGACY])?;
                it.ok("cuStreamSynchronize", words![PER_THREAD])
            },
        ),
        Check::new(
            of("cuStreamDestroy"),
            "a default stream cannot be destroyed",
            |it| {
                for stream in [LEGACY, PER_THREAD] {
                    it.expect_one_of(
                        &[INVALID_VALUE, INVALID_HANDLE],
                        "cuStreamDestroy_v2",
                        words![stream],
                    )?;
                }
                Ok(())
            },
        )
        .uncertain(),
        Check::new(
            of("cuStreamSetAttribute"),
            "an attribute that there is not is refused",
            |it| {
                let value = [0u64; 8];
                with_stream(it, 0, |stream| {
                    it.expect(
                        INVALID_VALUE,
                        "cuStreamSetAttribute",
                        words![stream, 99i32, &value],
                    )
                })
            },
        ),
    ]
}

/// Calls a body with a new stream.
pub(super) fn with_stream(bench: &Bench, flags: u32, body: impl FnOnce(u64) -> Outcome) -> Outcome {
    let stream = bench.made("cuStreamCreate", words![flags])?;
    let seen = body(stream);
    bench.ok("cuStreamDestroy_v2", words![stream])?;
    seen
}
