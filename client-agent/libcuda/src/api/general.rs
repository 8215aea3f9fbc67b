//! Initialisation, errors, versions, finding functions.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{In, Out, Text};
use crate::guard::api;
use crate::process::{init, process};
use crate::settings::{driver_version, is_eager};
use crate::status::{Status, describe, explain};
use crate::symbol::{self, Found};
use crate::tables;

/// The flag of `cuGetProcAddress` that asks for per-thread default streams.
const PER_THREAD: u64 = 2;

fn address(name: &str, version: c_int, flags: u64) -> (*mut c_void, c_int, i32) {
    match symbol::find(name, version, flags & PER_THREAD != 0) {
        Found::Address(address) => (address.cast_mut().cast(), 0, 0),
        Found::Unknown => (std::ptr::null_mut(), 1, Status::NOT_FOUND.0),
        Found::TooNew => (std::ptr::null_mut(), 2, Status::NOT_FOUND.0),
    }
}

api! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        init()
    }

    fn cuDriverGetVersion(version: Out<'_, c_int>) {
        version.put(driver_version())
    }

    fn cuGetErrorString(error: c_int, string: Out<'_, *const c_char>) {
        let found = explain(error);
        // The text ends with a zero byte and stays.
        string.put(found.map_or(std::ptr::null(), |text| text.as_ptr().cast()))?;
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    fn cuGetErrorName(error: c_int, string: Out<'_, *const c_char>) {
        let found = describe(error);
        string.put(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr().cast()))?;
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    fn cuGetProcAddress(name: Text<'_>, function: Out<'_, *mut c_void>, version: c_int, flags: u64) {
        let (found, _, status) = address(name.take()?, version, flags);
        function.put(found)?;
        if status == 0 { Ok(()) } else { Err(Status(status)) }
    }

    fn cuGetProcAddress_v2(
        name: Text<'_>,
        function: Out<'_, *mut c_void>,
        version: c_int,
        flags: u64,
        answer: Out<'_, c_int>,
    ) {
        let (found, why, status) = address(name.take()?, version, flags);
        function.put(found)?;
        answer.put_if(why);
        if status == 0 { Ok(()) } else { Err(Status(status)) }
    }

    fn cuGetExportTable(table: Out<'_, *const c_void>, id: In<'_, [u8; 16]>) {
        let found = tables::find(id.take()?);
        table.put(found.unwrap_or(std::ptr::null()))?;
        found.map(|_| ())
    }

    fn cuModuleGetLoadingMode(mode: Out<'_, c_int>) {
        // Lazy, unless the user says otherwise.
        mode.put(if is_eager() { 1 } else { 2 })
    }

    fn cuProfilerStart() {
        process().map(|_| ())
    }

    fn cuProfilerStop() {
        process().map(|_| ())
    }
}
