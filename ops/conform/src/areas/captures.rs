//! Captures of streams: their beginning, their end, and their recorded nodes.

use super::streams::with_stream;
use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{STREAM_CAPTURE_UNJOINED, STREAM_CAPTURE_UNSUPPORTED, SUCCESS};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};

pub(super) const STREAMS: &str = "Stream Management";
/// `CU_STREAM_NON_BLOCKING`.
pub(super) const ALONE: u32 = 1;
pub(super) const GLOBAL: i32 = 0;
pub(super) const OF_THREAD: i32 = 1;
pub(super) const RELAXED: i32 = 2;
/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// Captures a stream during the body. However the body ends, the capture is ended and its graph
/// destroyed.
pub(super) fn capturing(
    bench: &Bench,
    (flags, mode): (u32, i32),
    body: impl FnOnce(u64) -> Outcome,
) -> Outcome {
    with_stream(bench, flags, |stream| {
        bench.ok("cuStreamBeginCapture_v2", words![stream, mode])?;
        let seen = body(stream);
        let mut graph = 0u64;
        let ended = bench.code("cuStreamEndCapture", words![stream, &mut graph])?;
        if ended.0 == SUCCESS && graph != 0 {
            bench.ok("cuGraphDestroy", words![graph])?;
        }
        seen
    })
}

pub(super) fn status(bench: &Bench, stream: u64) -> Result<i32, Finding> {
    let mut status = 9i32;
    bench.ok("cuStreamIsCapturing", words![stream, &mut status])?;
    Ok(status)
}

pub(super) fn launched(bench: &Bench, stream: u64) -> Result<i32, Finding> {
    let kernel = bench.kernel(c"nothing")?;
    let null = Word::NULL;
    let seen = bench.code(
        "cuLaunchKernel",
        words![
            kernel, 1u32, 1u32, 1u32, 1u32, 1u32, 1u32, 0u32, stream, null, null
        ],
    )?;
    Ok(seen.0)
}

/// Number of nodes of a graph.
pub(super) fn nodes(bench: &Bench, graph: u64) -> Result<usize, Finding> {
    let mut count = 0usize;
    bench.ok("cuGraphGetNodes", words![graph, Word::NULL, &mut count])?;
    Ok(count)
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, STREAMS);
    vec![
        Check::new(
            of("cuStreamEndCapture"),
            "work that was captured has not run, and runs with the graph",
            |it| {
                let (increment, address) = (it.kernel(c"increment")?, it.alloc(64)?);
                it.write(address, &[5u32; 16])?;
                let mut graph = 0u64;
                with_stream(it, ALONE, |stream| {
                    it.ok("cuStreamBeginCapture_v2", words![stream, OF_THREAD])?;
                    let parameters = [address, 16u64];
                    let places = parameters
                        .each_ref()
                        .map(|it| std::ptr::from_ref(it).expose_provenance());
                    let null = Word::NULL;
                    it.ok(
                        "cuLaunchKernel",
                        words![
                            increment, 1u32, 1u32, 1u32, 16u32, 1u32, 1u32, 0u32, stream, &places,
                            null
                        ],
                    )?;
                    it.ok("cuStreamEndCapture", words![stream, &mut graph])
                })?;
                let before = it.read::<u32>(address, 16)?;
                let exec = it.made("cuGraphInstantiateWithFlags", words![graph, 0u64])?;
                for _ in 0..3 {
                    it.ok("cuGraphLaunch", words![exec, Word::NULL])?;
                }
                it.sync()?;
                let after = it.read::<u32>(address, 16)?;
                it.ok("cuGraphExecDestroy", words![exec])?;
                it.ok("cuGraphDestroy", words![graph])?;
                ensure!(
                    before == [5; 16] && after == [8; 16],
                    "{}, then {}",
                    before[0],
                    after[0]
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuStreamIsCapturing"),
            "a stream is captured between begin and end",
            |it| {
                with_stream(it, ALONE, |stream| {
                    let before = status(it, stream)?;
                    it.ok("cuStreamBeginCapture_v2", words![stream, RELAXED])?;
                    let during = status(it, stream)?;
                    let mut graph = 0u64;
                    it.ok("cuStreamEndCapture", words![stream, &mut graph])?;
                    let after = status(it, stream)?;
                    it.ok("cuGraphDestroy", words![graph])?;
                    ensure!(
                        (before, during, after) == (0, 1, 0),
                        "{before}, {during}, {after}"
                    );
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuStreamBeginCapture"),
            "a stream that is captured is not captured again",
            |it| {
                capturing(it, (ALONE, RELAXED), |stream| {
                    let seen = it.code("cuStreamBeginCapture_v2", words![stream, RELAXED])?;
                    ensure!(seen.0 != SUCCESS, "it succeeded");
                    Ok(())
                })
            },
        )
        .uncertain(),
        Check::new(
            of("cuStreamBeginCapture"),
            "the legacy stream cannot be captured",
            |it| {
                it.expect(
                    STREAM_CAPTURE_UNSUPPORTED,
                    "cuStreamBeginCapture_v2",
                    words![Word::NULL, GLOBAL],
                )?;
                it.expect(
                    STREAM_CAPTURE_UNSUPPORTED,
                    "cuStreamBeginCapture_v2",
                    words![LEGACY, GLOBAL],
                )
            },
        ),
        Check::new(
            of("cuStreamBeginCapture"),
            "the thread's default stream can be captured",
            |it| {
                it.ok("cuStreamBeginCapture_v2", words![PER_THREAD, OF_THREAD])?;
                let seen = launched(it, PER_THREAD)?;
                let mut graph = 0u64;
                it.ok("cuStreamEndCapture", words![PER_THREAD, &mut graph])?;
                let count = nodes(it, graph)?;
                it.ok("cuGraphDestroy", words![graph])?;
                ensure!(
                    seen == SUCCESS && count == 1,
                    "the launch gave {seen}, {count} nodes"
                );
                Ok(())
            },
        ),
        Check::new(
            of("cuStreamEndCapture"),
            "a stream that is not captured is refused",
            |it| {
                with_stream(it, ALONE, |stream| {
                    let mut graph = 0u64;
                    let seen = it.code("cuStreamEndCapture", words![stream, &mut graph])?;
                    ensure!(seen.0 != SUCCESS, "it succeeded");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuStreamEndCapture"),
            "a stream that was forked and not joined is told of",
            |it| {
                let event = it.made("cuEventCreate", words![0u32])?;
                let seen = with_stream(it, ALONE, |side| {
                    with_stream(it, ALONE, |stream| {
                        it.ok("cuStreamBeginCapture_v2", words![stream, RELAXED])?;
                        it.ok("cuEventRecord", words![event, stream])?;
                        it.ok("cuStreamWaitEvent", words![side, event, 0u32])?;
                        let launch = launched(it, side)?;
                        let mut graph = 0u64;
                        let ended = it.code("cuStreamEndCapture", words![stream, &mut graph])?;
                        ensure!(
                            launch == SUCCESS && ended.0 == STREAM_CAPTURE_UNJOINED,
                            "the end gave {ended}"
                        );
                        Ok(())
                    })
                });
                it.ok("cuEventDestroy_v2", words![event])?;
                seen
            },
        ),
        Check::new(
            of("cuStreamEndCapture"),
            "a fork that is joined is two branches of one graph",
            |it| {
                let events = (
                    it.made("cuEventCreate", words![0u32])?,
                    it.made("cuEventCreate", words![0u32])?,
                );
                let mut graph = 0u64;
                it.kernel(c"nothing")?;
                with_stream(it, ALONE, |side| {
                    with_stream(it, ALONE, |stream| {
                        it.ok("cuStreamBeginCapture_v2", words![stream, RELAXED])?;
                        launched(it, stream)?;
                        it.ok("cuEventRecord", words![events.0, stream])?;
                        it.ok("cuStreamWaitEvent", words![side, events.0, 0u32])?;
                        launched(it, side)?;
                        launched(it, stream)?;
                        it.ok("cuEventRecord", words![events.1, side])?;
                        it.ok("cuStreamWaitEvent", words![stream, events.1, 0u32])?;
                        launched(it, stream)?;
                        it.ok("cuStreamEndCapture", words![stream, &mut graph])
                    })
                })?;
                let (count, mut edges) = (nodes(it, graph)?, 0usize);
                it.ok(
                    "cuGraphGetEdges",
                    words![graph, Word::NULL, Word::NULL, &mut edges],
                )?;
                it.ok("cuGraphDestroy", words![graph])?;
                it.ok("cuEventDestroy_v2", words![events.0])?;
                it.ok("cuEventDestroy_v2", words![events.1])?;
                ensure!((count, edges) == (4, 4), "{count} nodes, {edges} edges");
                Ok(())
            },
        ),
    ]
}
