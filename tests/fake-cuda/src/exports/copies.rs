//! Copies and fills in a stream.

use super::abi::{In, Out};
use crate::driver::{CallKind, Driver, call, with};
use crate::effects::Effect;
use crate::timeline::{Engine, Work};
use crate::{Nanos, codes::INVALID_VALUE};

fn copy(
    driver: &mut Driver,
    stream: u64,
    end: Nanos,
    (engine, bytes): (Engine, u64),
    effect: Effect,
) -> Result<(), u32> {
    driver.stream(stream)?;
    if bytes > 0 {
        driver.push(stream, end, Work::Copy { engine, bytes }, Some(effect));
    }
    Ok(())
}

fn is_pinned(host: u64, bytes: u64) -> bool {
    with(|driver| driver.memory.is_pinned(host, bytes))
}

/// Copies to the device. Bytes that are not pinned the driver takes during the call.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, host: In<u8>, bytes: u64, stream: u64) -> u32 {
    let kind = CallKind::new("cuMemcpyHtoDAsync_v2")
        .bytes(bytes)
        .on(stream);
    let (address, way) = (host.address(), (Engine::Inwards, bytes));
    if is_pinned(address, bytes) {
        return call(kind.label("pinned"), |driver, end| {
            driver.memory.check(to, bytes).map_err(|_| INVALID_VALUE)?;
            let host = address;
            copy(driver, stream, end, way, Effect::Bring { to, host, bytes })
        });
    }
    let kind = kind.as_costly_as("cuMemcpyHtoD_v2").label("pageable");
    call(kind, |driver, end| {
        driver.memory.check(to, bytes).map_err(|_| INVALID_VALUE)?;
        let bytes = host.all(bytes as usize)?;
        copy(driver, stream, end, way, Effect::Put { to, bytes })
    })
}

/// Copies to the host. If that is not pinned, the call waits for the copy.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(host: Out<u8>, from: u64, bytes: u64, stream: u64) -> u32 {
    let kind = CallKind::new("cuMemcpyDtoHAsync_v2")
        .bytes(bytes)
        .on(stream);
    let (address, way) = (host.address(), (Engine::Outwards, bytes));
    if is_pinned(address, bytes) {
        return call(kind.label("pinned"), |driver, end| {
            driver
                .memory
                .check(from, bytes)
                .map_err(|_| INVALID_VALUE)?;
            let host = address;
            copy(
                driver,
                stream,
                end,
                way,
                Effect::Fetch { host, from, bytes },
            )
        });
    }
    let kind = kind.as_costly_as("cuMemcpyDtoH_v2").label("pageable");
    call(kind.waiting(), |driver, _| {
        driver.stream(stream)?;
        let read = driver.memory.read(from, bytes).map_err(|_| INVALID_VALUE)?;
        host.put_all(&read)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: u64, stream: u64) -> u32 {
    let kind = CallKind::new("cuMemcpyDtoDAsync_v2")
        .bytes(bytes)
        .on(stream);
    call(kind, |driver, end| {
        driver.memory.check(to, bytes).map_err(|_| INVALID_VALUE)?;
        driver
            .memory
            .check(from, bytes)
            .map_err(|_| INVALID_VALUE)?;
        let way = (Engine::Within, bytes);
        copy(driver, stream, end, way, Effect::Copy { to, from, bytes })
    })
}

fn fill(name: &'static str, (to, count): (u64, u64), value: Vec<u8>, stream: u64) -> u32 {
    let bytes = count.saturating_mul(value.len() as u64);
    call(
        CallKind::new(name).bytes(bytes).on(stream),
        |driver, end| {
            driver.memory.check(to, bytes).map_err(|_| INVALID_VALUE)?;
            if !to.is_multiple_of(value.len() as u64) {
                return Err(INVALID_VALUE);
            }
            let way = (Engine::Within, bytes);
            copy(driver, stream, end, way, Effect::Fill { to, value, count })
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: u64, stream: u64) -> u32 {
    fill("cuMemsetD8Async", (to, count), vec![value], stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: u64, stream: u64) -> u32 {
    fill(
        "cuMemsetD16Async",
        (to, count),
        value.to_le_bytes().into(),
        stream,
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: u64, stream: u64) -> u32 {
    fill(
        "cuMemsetD32Async",
        (to, count),
        value.to_le_bytes().into(),
        stream,
    )
}
