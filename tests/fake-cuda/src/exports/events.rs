//! Streams and events.

use super::abi::Out;
use crate::Nanos;
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::driver::{CallKind, Driver, call, with};
use crate::gpu::PRIORITIES;
use crate::timeline::Work;

const NON_BLOCKING: u32 = 1;
const DISABLE_TIMING: u32 = 2;
/// Known flags of events.
const EVENT_FLAGS: u32 = 7;

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(to: Out<u64>, flags: u32, priority: i32) -> u32 {
    call(CallKind::new("cuStreamCreateWithPriority"), |driver, _| {
        if flags > NON_BLOCKING {
            return Err(INVALID_VALUE);
        }
        let stream = driver.streams.add(&mut driver.handles, ());
        // A priority beyond the range is the nearest in it.
        let (least, greatest) = PRIORITIES;
        driver
            .timeline
            .add_stream(stream, priority.clamp(greatest, least));
        to.put(stream)
    })
}

/// Destroys a stream at once for its program; its work goes on.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    let kind = CallKind::new("cuStreamDestroy_v2").on(stream);
    call(kind, |driver, _| {
        driver.streams.remove(stream)?;
        driver.timeline.remove_stream(stream);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    let kind = CallKind::new("cuStreamSynchronize").on(stream).waiting();
    call(kind, |driver, _| driver.stream(stream).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: u64) -> u32 {
    call(CallKind::new("cuStreamQuery").on(stream), |driver, end| {
        driver.stream(stream)?;
        match driver.timeline.is_busy_at(stream, end) {
            true => Err(NOT_READY),
            false => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, flags: u32) -> u32 {
    let kind = CallKind::new("cuStreamWaitEvent").on(stream);
    call(kind, |driver, end| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        driver.stream(stream)?;
        driver.events.get(event)?;
        let record = driver.timeline.marks().last(event);
        driver.push(stream, end, Work::Wait { event, record }, None);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(to: Out<u64>, flags: u32) -> u32 {
    let timed = flags & DISABLE_TIMING == 0;
    call(
        CallKind::new("cuEventCreate").label(label(timed)),
        |driver, _| {
            if flags > EVENT_FLAGS {
                return Err(INVALID_VALUE);
            }
            let event = driver.events.add(&mut driver.handles, ());
            driver.timeline.add_event(event, timed);
            to.put(event)
        },
    )
}

fn label(timed: bool) -> &'static str {
    if timed { "timing" } else { "no timing" }
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    call(CallKind::new("cuEventDestroy_v2"), |driver, _| {
        driver.events.remove(event)?;
        driver.timeline.remove_event(event);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    let timed = with(|driver| driver.timeline.marks().is_timed(event));
    let kind = CallKind::new("cuEventRecord")
        .label(label(timed))
        .on(stream);
    call(kind, |driver, end| {
        driver.stream(stream)?;
        driver.events.get(event)?;
        driver.timeline.record(stream, event, end);
        Ok(())
    })
}

/// Time at which an event's last record was passed, seen at a time; `None` if it was not.
fn passed(driver: &Driver, event: u64, at: Nanos) -> Option<Nanos> {
    let marks = driver.timeline.marks();
    let passed = marks.passed(event, marks.last(event));
    passed.filter(|passed| *passed <= at)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: u64) -> u32 {
    call(CallKind::new("cuEventQuery"), |driver, end| {
        driver.events.get(event)?;
        passed(driver, event, end).map(|_| ()).ok_or(NOT_READY)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(to: Out<f32>, first: u64, last: u64) -> u32 {
    call(CallKind::new("cuEventElapsedTime"), |driver, end| {
        let marks = driver.timeline.marks();
        let known = |event| marks.exists(event) && marks.is_timed(event) && marks.last(event) > 0;
        if !known(first) || !known(last) {
            return Err(INVALID_HANDLE);
        }
        let (first, last) = (passed(driver, first, end), passed(driver, last, end));
        let (first, last) = first.zip(last).ok_or(NOT_READY)?;
        let ns = last as f64 - first as f64;
        to.put((ns / 1e6) as f32)
    })
}

/// Writes a word when the stream comes to it.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWriteValue32_v2(stream: u64, to: u64, value: u32, _flags: u32) -> u32 {
    let kind = CallKind::new("cuStreamWriteValue32_v2").on(stream);
    call(kind, |driver, end| {
        driver.stream(stream)?;
        let engine = crate::timeline::Engine::Within;
        let effect = crate::effects::Effect::Word { to, value };
        driver.push(stream, end, Work::Copy { engine, bytes: 4 }, Some(effect));
        Ok(())
    })
}
