//! Events: states, times, order.

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::driver::{Argument as _, Word, words};
use crate::finding::{Outcome, ensure};

const EVENTS: &str = "Event Management";
/// `CU_EVENT_DISABLE_TIMING`, `CU_EVENT_INTERPROCESS`.
const UNTIMED: u32 = 2;
const SHARED: u32 = 4;

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, EVENTS);
    vec![
        Check::new(
            of("cuEventQuery"),
            "an event that was not recorded is done",
            |it| {
                with_event(it, 0, |event| {
                    it.ok("cuEventQuery", words![event])?;
                    it.ok("cuEventSynchronize", words![event])
                })
            },
        ),
        Check::new(
            of("cuEventElapsedTime"),
            "time between events that were recorded is not negative",
            |it| {
                let mut time = -1f32;
                between(it, (0, 0), true, |start, end| {
                    it.ok("cuEventElapsedTime", words![&mut time, start, end])
                })?;
                ensure!(time >= 0.0, "{time} ms");
                Ok(())
            },
        ),
        Check::new(
            of("cuEventElapsedTime"),
            "events that were not recorded are invalid handles",
            |it| {
                let mut time = 0f32;
                between(it, (0, 0), false, |start, end| {
                    it.expect(
                        INVALID_HANDLE,
                        "cuEventElapsedTime",
                        words![&mut time, start, end],
                    )
                })
            },
        ),
        Check::new(
            of("cuEventElapsedTime"),
            "events without timing are invalid handles",
            |it| {
                let mut time = 0f32;
                between(it, (UNTIMED, 0), true, |start, end| {
                    it.expect(
                        INVALID_HANDLE,
                        "cuEventElapsedTime",
                        words![&mut time, start, end],
                    )
                })
            },
        ),
        Check::new(
            of("cuEventCreate"),
            "an event between processes has no timing",
            |it| {
                let mut event = 0u64;
                it.expect(INVALID_VALUE, "cuEventCreate", words![&mut event, SHARED])
            },
        ),
        Check::new(
            of("cuStreamWaitEvent"),
            "work behind it sees what was before the event",
            |it| {
                let (fill, increment, address) = (
                    it.kernel(c"fill")?,
                    it.kernel(c"increment")?,
                    it.alloc(4096)?,
                );
                let streams = (
                    it.made("cuStreamCreate", words![1u32])?,
                    it.made("cuStreamCreate", words![1u32])?,
                );
                let seen = with_event(it, UNTIMED, |event| {
                    for round in 0..20u64 {
                        on(it, fill, streams.0, &[address, round, 1024])?;
                        it.ok("cuEventRecord", words![event, streams.0])?;
                        it.ok("cuStreamWaitEvent", words![streams.1, event, 0u32])?;
                        on(it, increment, streams.1, &[address, 1024])?;
                        it.ok("cuStreamSynchronize", words![streams.1])?;
                        let seen = it.read::<u32>(address, 1024)?;
                        ensure!(
                            seen == [round as u32 + 1; 1024],
                            "round {round}: {}",
                            seen[0]
                        );
                    }
                    Ok(())
                });
                it.ok("cuStreamDestroy_v2", words![streams.0])?;
                it.ok("cuStreamDestroy_v2", words![streams.1])?;
                seen
            },
        ),
    ]
}

fn with_event(bench: &Bench, flags: u32, body: impl FnOnce(u64) -> Outcome) -> Outcome {
    let event = bench.made("cuEventCreate", words![flags])?;
    let seen = body(event);
    bench.ok("cuEventDestroy_v2", words![event])?;
    seen
}

/// Calls a body with two events around a kernel that does nothing; the events are recorded or not.
fn between(
    bench: &Bench,
    flags: (u32, u32),
    are_recorded: bool,
    body: impl FnOnce(u64, u64) -> Outcome,
) -> Outcome {
    let kernel = bench.kernel(c"nothing")?;
    with_event(bench, flags.0, |start| {
        with_event(bench, flags.1, |end| {
            if are_recorded {
                bench.ok("cuEventRecord", words![start, Word::NULL])?;
                bench.launch(kernel, 1, 1, &[])?;
                bench.ok("cuEventRecord", words![end, Word::NULL])?;
                bench.ok("cuEventSynchronize", words![end])?;
            }
            body(start, end)
        })
    })
}

/// Launches 1024 threads on a stream.
fn on(bench: &Bench, kernel: u64, stream: u64, parameters: &[u64]) -> Outcome {
    let places: Vec<u64> = parameters.iter().map(|it| it.word().0).collect();
    bench.ok(
        "cuLaunchKernel",
        words![
            kernel,
            4u32,
            1u32,
            1u32,
            256u32,
            1u32,
            1u32,
            0u32,
            stream,
            places.as_slice(),
            Word::NULL,
        ],
    )
}
