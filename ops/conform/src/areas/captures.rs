//! Captures of streams: what they record, and what is refused beside them.

use std::thread;

use super::streams::with_stream;
use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{
    CAPTURED_EVENT, INVALID_VALUE, STREAM_CAPTURE_IMPLICIT, STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_UNJOINED, STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_WRONG_THREAD, SUCCESS,
};
use crate::driver::{Word, words};
use crate::finding::{Finding, Outcome, ensure};

const STREAMS: &str = "Stream Management";
/// `CU_STREAM_NON_BLOCKING`.
const ALONE: u32 = 1;
const GLOBAL: i32 = 0;
const OF_THREAD: i32 = 1;
const RELAXED: i32 = 2;
/// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// A stream that is captured. However the body leaves it, the capture is ended and its graph destroyed.
fn capturing(bench: &Bench, mode: i32, body: impl FnOnce(u64) -> Outcome) -> Outcome {
    with_stream(bench, ALONE, |stream| {
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

fn status(bench: &Bench, stream: u64) -> Result<i32, Finding> {
    let mut status = 9i32;
    bench.ok("cuStreamIsCapturing", words![stream, &mut status])?;
    Ok(status)
}

fn launched(bench: &Bench, stream: u64) -> Result<i32, Finding> {
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

/// Nodes of a graph.
fn nodes(bench: &Bench, graph: u64) -> Result<usize, Finding> {
    let mut count = 0usize;
    bench.ok("cuGraphGetNodes", words![graph, Word::NULL, &mut count])?;
    Ok(count)
}

pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, STREAMS);
    let refused = |function: &'static str,
                   claim: &'static str,
                   mode: i32,
                   code: i32,
                   body: fn(&Bench, u64) -> Result<i32, Finding>| {
        Check::new(of(function), claim, move |it| {
            it.module()?;
            capturing(it, mode, |stream| {
                let seen = body(it, stream)?;
                ensure!(seen == code, "it gave {seen}, not {code}");
                Ok(())
            })
        })
    };
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
                capturing(it, RELAXED, |stream| {
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
        refused(
            "cuStreamSynchronize",
            "a captured stream cannot be waited for",
            RELAXED,
            STREAM_CAPTURE_UNSUPPORTED,
            |it, stream| Ok(it.code("cuStreamSynchronize", words![stream])?.0),
        ),
        refused(
            "cuStreamQuery",
            "a captured stream cannot be queried",
            RELAXED,
            STREAM_CAPTURE_UNSUPPORTED,
            |it, stream| Ok(it.code("cuStreamQuery", words![stream])?.0),
        ),
        refused(
            "cuCtxSynchronize",
            "a context with a captured stream cannot be waited for",
            GLOBAL,
            STREAM_CAPTURE_UNSUPPORTED,
            |it, _| Ok(it.code("cuCtxSynchronize", words![])?.0),
        ),
        refused(
            "cuMemAlloc",
            "a global capture forbids allocation",
            GLOBAL,
            STREAM_CAPTURE_UNSUPPORTED,
            |it, _| {
                let mut address = 0u64;
                Ok(it.code("cuMemAlloc_v2", words![&mut address, 64usize])?.0)
            },
        ),
        refused(
            "cuMemAlloc",
            "a capture of the thread forbids allocation in it",
            OF_THREAD,
            STREAM_CAPTURE_UNSUPPORTED,
            |it, _| {
                let mut address = 0u64;
                Ok(it.code("cuMemAlloc_v2", words![&mut address, 64usize])?.0)
            },
        ),
        refused(
            "cuMemAlloc",
            "a relaxed capture allows allocation",
            RELAXED,
            SUCCESS,
            |it, _| {
                let mut address = 0u64;
                let seen = it.code("cuMemAlloc_v2", words![&mut address, 64usize])?.0;
                it.ok("cuMemFree_v2", words![address])?;
                Ok(seen)
            },
        ),
        refused(
            "cuMemcpyHtoD",
            "a copy that waits is unsafe under a global capture",
            GLOBAL,
            STREAM_CAPTURE_IMPLICIT,
            |it, _| {
                let own = [0u8; 64];
                let (mut at, mut bytes) = (0u64, 0usize);
                it.ok(
                    "cuModuleGetGlobal_v2",
                    words![&mut at, &mut bytes, it.module()?, c"counter"],
                )?;
                Ok(it.code("cuMemcpyHtoD_v2", words![at, &own, 4usize])?.0)
            },
        ),
        Check::new(
            of("cuThreadExchangeStreamCaptureMode"),
            "it gives the mode before and keeps the new one",
            |it| {
                let mut mode = RELAXED;
                it.ok("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
                let (first, mut back) = (mode, mode);
                it.ok("cuThreadExchangeStreamCaptureMode", words![&mut back])?;
                ensure!((first, back) == (GLOBAL, RELAXED), "{first}, then {back}");
                Ok(())
            },
        ),
        Check::new(
            of("cuThreadExchangeStreamCaptureMode"),
            "a mode that there is not is refused",
            |it| {
                let mut mode = 7i32;
                it.expect(
                    INVALID_VALUE,
                    "cuThreadExchangeStreamCaptureMode",
                    words![&mut mode],
                )
            },
        ),
        Check::new(
            of("cuThreadExchangeStreamCaptureMode"),
            "a relaxed thread may allocate under a global capture",
            |it| {
                capturing(it, GLOBAL, |_| {
                    let (mut mode, mut address) = (RELAXED, 0u64);
                    it.ok("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
                    let seen = it.code("cuMemAlloc_v2", words![&mut address, 64usize])?;
                    it.ok("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
                    if seen.0 == SUCCESS {
                        it.ok("cuMemFree_v2", words![address])?;
                    }
                    ensure!(seen.0 == SUCCESS, "it gave {seen}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuStreamEndCapture"),
            "another thread cannot end a capture of the thread",
            |it| {
                capturing(it, OF_THREAD, |stream| {
                    let driver = it.driver();
                    let seen = thread::spawn(move || {
                        let mut graph = 0u64;
                        driver.call("cuStreamEndCapture", words![stream, &mut graph])
                    });
                    let seen = seen
                        .join()
                        .map_err(|_| Finding("the thread panicked".into()))?;
                    let seen = seen.map(|it| it.0);
                    ensure!(seen == Some(STREAM_CAPTURE_WRONG_THREAD), "{seen:?}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuStreamIsCapturing"),
            "a forbidden call invalidates the capture",
            |it| {
                capturing(it, GLOBAL, |stream| {
                    it.code("cuStreamSynchronize", words![stream])?;
                    let status = status(it, stream)?;
                    ensure!(status == 2, "the status is {status}");
                    let seen = launched(it, stream)?;
                    ensure!(
                        seen == STREAM_CAPTURE_INVALIDATED,
                        "a launch behind it gave {seen}"
                    );
                    let mut graph = 9u64;
                    let ended = it.code("cuStreamEndCapture", words![stream, &mut graph])?;
                    ensure!(
                        ended.0 == STREAM_CAPTURE_INVALIDATED && graph == 0,
                        "the end gave {ended}, graph {graph:#x}"
                    );
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuLaunchKernel"),
            "the legacy stream cannot be used beside a capture that it would block",
            |it| {
                it.kernel(c"nothing")?;
                with_stream(it, 0, |stream| {
                    it.ok("cuStreamBeginCapture_v2", words![stream, GLOBAL])?;
                    let seen = launched(it, 0)?;
                    let mut graph = 0u64;
                    it.code("cuStreamEndCapture", words![stream, &mut graph])?;
                    ensure!(seen == STREAM_CAPTURE_IMPLICIT, "the launch gave {seen}");
                    Ok(())
                })
            },
        ),
        Check::new(
            of("cuEventQuery"),
            "an event that was captured cannot be queried or waited for",
            |it| {
                let event = it.made("cuEventCreate", words![0u32])?;
                let seen = capturing(it, RELAXED, |stream| {
                    it.ok("cuEventRecord", words![event, stream])?;
                    let query = it.code("cuEventQuery", words![event])?;
                    ensure!(query.0 == CAPTURED_EVENT, "the query gave {query}");
                    Ok(())
                });
                it.ok("cuEventDestroy_v2", words![event])?;
                seen
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
