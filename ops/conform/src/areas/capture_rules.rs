//! Calls during captures: the refused calls, the capture modes that refuse them, and the captures
//! that they invalidate.

use std::rc::Rc;
use std::thread;

use driver_api::{DriverFunction, DuringCapture, FUNCTIONS};

use super::captures::{ALONE, GLOBAL, OF_THREAD, RELAXED, STREAMS, capturing, launched, status};
use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{
    CAPTURED_EVENT, INVALID_VALUE, STREAM_CAPTURE_IMPLICIT, STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURE_ISOLATION, STREAM_CAPTURE_MERGE, STREAM_CAPTURE_UNSUPPORTED,
    STREAM_CAPTURE_WRONG_THREAD, SUCCESS,
};
use crate::driver::{Driver, Word, words};
use crate::finding::{Finding, ensure};
use crate::fixture::Fixture;

/// A stream that the legacy stream waits for.
const BLOCKING: u32 = 0;
/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`, `CU_STREAM_CAPTURE_STATUS_INVALIDATED`.
const UNDER_WAY: i32 = 1;
const OVER: i32 = 2;

/// Makes a call during a capture of a stream; returns its code.
type Call = fn(&Bench, u64) -> Result<i32, Finding>;

/// A call during a capture: the function and the claim; the stream's flags and the capture's mode;
/// the call; the expected code, and the expected status of the capture afterwards.
type Rule = ((&'static str, &'static str), (u32, i32), Call, (i32, i32));

const RULES: &[Rule] = &[
    (
        (
            "cuStreamSynchronize",
            "a captured stream cannot be waited for",
        ),
        (ALONE, RELAXED),
        |it, stream| code(it, "cuStreamSynchronize", words![stream]),
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        ("cuStreamQuery", "a captured stream cannot be queried"),
        (ALONE, RELAXED),
        |it, stream| code(it, "cuStreamQuery", words![stream]),
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        (
            "cuCtxSynchronize",
            "a context with a captured stream cannot be waited for",
        ),
        (ALONE, GLOBAL),
        |it, _| code(it, "cuCtxSynchronize", words![]),
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        ("cuCtxSynchronize", "nor can it under a relaxed capture"),
        (ALONE, RELAXED),
        |it, _| code(it, "cuCtxSynchronize", words![]),
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        ("cuMemAlloc", "a global capture forbids allocation"),
        (ALONE, GLOBAL),
        allocate,
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        (
            "cuMemAlloc",
            "a capture of the thread forbids allocation in it",
        ),
        (ALONE, OF_THREAD),
        allocate,
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        ("cuMemAlloc", "a relaxed capture allows allocation"),
        (ALONE, RELAXED),
        allocate,
        (SUCCESS, UNDER_WAY),
    ),
    (
        (
            "cuMemAlloc",
            "a global capture forbids allocation in other threads",
        ),
        (ALONE, GLOBAL),
        |it, _| elsewhere(it, allocate_there),
        (STREAM_CAPTURE_UNSUPPORTED, OVER),
    ),
    (
        (
            "cuMemAlloc",
            "a capture of a thread allows allocation in others",
        ),
        (ALONE, OF_THREAD),
        |it, _| elsewhere(it, allocate_there),
        (SUCCESS, UNDER_WAY),
    ),
    (
        (
            "cuThreadExchangeStreamCaptureMode",
            "a relaxed thread may allocate under a global capture",
        ),
        (ALONE, GLOBAL),
        |it, _| {
            let mut mode = RELAXED;
            it.ok("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
            let seen = allocate(it, 0);
            it.ok("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
            seen
        },
        (SUCCESS, UNDER_WAY),
    ),
    (
        (
            "cuThreadExchangeStreamCaptureMode",
            "another thread's global capture does not concern a thread that says so",
        ),
        (ALONE, GLOBAL),
        |it, _| {
            elsewhere(it, |driver| {
                let mut mode = OF_THREAD;
                driver.call("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
                allocate_there(driver)
            })
        },
        (SUCCESS, UNDER_WAY),
    ),
    (
        (
            "cuThreadExchangeStreamCaptureMode",
            "a mode that there is not is refused",
        ),
        (ALONE, RELAXED),
        |it, _| {
            let mut mode = 7i32;
            code(it, "cuThreadExchangeStreamCaptureMode", words![&mut mode])
        },
        (INVALID_VALUE, UNDER_WAY),
    ),
    (
        (
            "cuLaunchKernel",
            "the legacy stream cannot be used beside a capture that it would block",
        ),
        (BLOCKING, RELAXED),
        |it, _| launched(it, 0),
        (STREAM_CAPTURE_IMPLICIT, OVER),
    ),
    (
        (
            "cuLaunchKernel",
            "the legacy stream goes on beside a capture of a stream that does not block",
        ),
        (ALONE, GLOBAL),
        |it, _| launched(it, 0),
        (SUCCESS, UNDER_WAY),
    ),
    (
        (
            "cuStreamIsCapturing",
            "of the legacy stream nothing is told beside a capture that it would block",
        ),
        (BLOCKING, RELAXED),
        |it, _| {
            let mut status = 0i32;
            code(it, "cuStreamIsCapturing", words![Word::NULL, &mut status])
        },
        (STREAM_CAPTURE_IMPLICIT, UNDER_WAY),
    ),
    (
        (
            "cuStreamEndCapture",
            "another thread cannot end a capture of the thread",
        ),
        (ALONE, OF_THREAD),
        |it, stream| {
            let driver = it.driver();
            joined(thread::spawn(move || {
                let mut graph = 0u64;
                driver.call("cuStreamEndCapture", words![stream, &mut graph])
            }))
        },
        (STREAM_CAPTURE_WRONG_THREAD, UNDER_WAY),
    ),
    (
        (
            "cuStreamWaitEvent",
            "a captured stream does not wait for what was not captured",
        ),
        (ALONE, RELAXED),
        |it, stream| {
            with_event(it, |event| {
                it.ok("cuEventRecord", words![event, Word::NULL])?;
                code(it, "cuStreamWaitEvent", words![stream, event, 0u32])
            })
        },
        (STREAM_CAPTURE_ISOLATION, OVER),
    ),
    (
        ("cuStreamWaitEvent", "two captures are not merged"),
        (ALONE, RELAXED),
        |it, stream| {
            let mut seen = Ok(SUCCESS);
            capturing(it, (ALONE, RELAXED), |other| {
                seen = with_event(it, |event| {
                    it.ok("cuEventRecord", words![event, other])?;
                    code(it, "cuStreamWaitEvent", words![stream, event, 0u32])
                });
                Ok(())
            })?;
            seen
        },
        (STREAM_CAPTURE_MERGE, OVER),
    ),
    (
        (
            "cuEventQuery",
            "an event that was captured cannot be queried",
        ),
        (ALONE, RELAXED),
        |it, stream| captured_event(it, stream, "cuEventQuery"),
        (CAPTURED_EVENT, UNDER_WAY),
    ),
    (
        (
            "cuEventSynchronize",
            "an event that was captured cannot be waited for",
        ),
        (ALONE, RELAXED),
        |it, stream| captured_event(it, stream, "cuEventSynchronize"),
        (CAPTURED_EVENT, UNDER_WAY),
    ),
];

fn code(bench: &Bench, symbol: &str, words: &[Word]) -> Result<i32, Finding> {
    Ok(bench.code(symbol, words)?.0)
}

fn allocate(bench: &Bench, _: u64) -> Result<i32, Finding> {
    let mut address = 0u64;
    let seen = code(bench, "cuMemAlloc_v2", words![&mut address, 64usize])?;
    if seen == SUCCESS {
        bench.freed_later(address);
    }
    Ok(seen)
}

fn allocate_there(driver: &'static Driver) -> Option<crate::driver::Code> {
    let (mut context, mut address) = (0u64, 0u64);
    driver.call("cuDevicePrimaryCtxRetain", words![&mut context, 0i32])?;
    driver.call("cuCtxSetCurrent", words![context])?;
    let seen = driver.call("cuMemAlloc_v2", words![&mut address, 64usize])?;
    // Freed in a mode in which no capture forbids it.
    let mut mode = RELAXED;
    driver.call("cuThreadExchangeStreamCaptureMode", words![&mut mode])?;
    driver.call("cuMemFree_v2", words![address])?;
    driver.call("cuDevicePrimaryCtxRelease_v2", words![0i32])?;
    Some(seen)
}

/// The code of a call in another thread.
fn elsewhere(
    bench: &Bench,
    body: fn(&'static Driver) -> Option<crate::driver::Code>,
) -> Result<i32, Finding> {
    let driver = bench.driver();
    joined(thread::spawn(move || body(driver)))
}

fn joined(thread: thread::JoinHandle<Option<crate::driver::Code>>) -> Result<i32, Finding> {
    let seen = thread.join().ok().flatten();
    seen.map(|it| it.0)
        .ok_or_else(|| Finding("the driver lacks a function of the check's".into()))
}

fn with_event(
    bench: &Bench,
    body: impl FnOnce(u64) -> Result<i32, Finding>,
) -> Result<i32, Finding> {
    let event = bench.made("cuEventCreate", words![0u32])?;
    let seen = body(event);
    bench.ok("cuEventDestroy_v2", words![event])?;
    seen
}

fn captured_event(bench: &Bench, stream: u64, symbol: &str) -> Result<i32, Finding> {
    with_event(bench, |event| {
        bench.ok("cuEventRecord", words![event, stream])?;
        code(bench, symbol, words![event])
    })
}

pub(super) fn checks() -> Vec<Check> {
    let rules = RULES.iter().map(|((function, claim), beside, call, then)| {
        Check::new((function, STREAMS), *claim, move |it| {
            it.module()?;
            capturing(it, *beside, |stream| {
                let seen = (call(it, stream)?, status(it, stream)?);
                ensure!(
                    seen == *then,
                    "it gave {}, not {}; the capture's status was {}, not {}",
                    seen.0,
                    then.0,
                    seen.1,
                    then.1
                );
                Ok(())
            })
        })
    });
    let mut checks: Vec<Check> = rules.collect();
    checks.extend(others());
    checks.extend(of_table());
    checks
}

fn others() -> Vec<Check> {
    let of = |function| (function, STREAMS);
    vec![
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
            of("cuStreamEndCapture"),
            "behind a call that was refused nothing is captured, and there is no graph",
            |it| {
                it.module()?;
                capturing(it, (ALONE, GLOBAL), |stream| {
                    it.code("cuStreamSynchronize", words![stream])?;
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
            of("cuEventRecord"),
            "an event that was captured is one again where it is recorded again",
            |it| {
                let event = it.made("cuEventCreate", words![0u32])?;
                let seen = capturing(it, (ALONE, RELAXED), |stream| {
                    it.ok("cuEventRecord", words![event, stream])
                });
                let after = it.code("cuEventQuery", words![event])?;
                it.ok("cuEventRecord", words![event, Word::NULL])?;
                let waited = it.code("cuEventSynchronize", words![event])?;
                it.ok("cuEventDestroy_v2", words![event])?;
                seen?;
                ensure!(
                    (after.0, waited.0) == (CAPTURED_EVENT, SUCCESS),
                    "{after}, then {waited}"
                );
                Ok(())
            },
        ),
    ]
}

/// Checks of the functions of the table that a capture forbids, each during a capture.
fn of_table() -> Vec<Check> {
    let fixture = Rc::new(Fixture::default());
    let mut checks = Vec::new();
    for function in FUNCTIONS.iter().filter(|it| is_newest(it)) {
        let mut refused = |claim: &str, beside: (u32, i32), codes: &'static [i32]| {
            let fixture = Rc::clone(&fixture);
            let made = Check::new((function.base(), function.section), claim, move |it| {
                let words = fixture.arguments(it, function)?;
                capturing(it, beside, |stream| {
                    it.expect_one_of(codes, function.symbol, &words)?;
                    let status = status(it, stream)?;
                    ensure!(status == OVER, "the capture's status is {status}");
                    Ok(())
                })
            });
            // The manual defines such calls in general, and names few of them.
            checks.push(made.uncertain());
        };
        let unsafely: (&str, (u32, i32), &[i32]) = (
            "a capture of the thread forbids it",
            (ALONE, OF_THREAD),
            &[STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_IMPLICIT],
        );
        match function.capture {
            DuringCapture::Allowed => {}
            DuringCapture::Unsafe => refused(unsafely.0, unsafely.1, unsafely.2),
            DuringCapture::OnLegacy => {
                refused(unsafely.0, unsafely.1, unsafely.2);
                refused(
                    "it uses the legacy stream, which a relaxed capture of a blocking one forbids",
                    (BLOCKING, RELAXED),
                    &[STREAM_CAPTURE_IMPLICIT],
                );
            }
        }
    }
    checks
}

/// True if the table has no later version of the function.
fn is_newest(function: &DriverFunction) -> bool {
    let last = FUNCTIONS.iter().rfind(|it| it.base() == function.base());
    last.is_some_and(|it| it.symbol == function.symbol)
}
