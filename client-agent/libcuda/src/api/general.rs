//! Initialisation, errors, versions, finding functions.

use std::ffi::{c_char, c_int, c_void};

use super::{put, put_if, text};
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

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(version, driver_version()) }
    }

    fn cuGetErrorString(error: c_int, string: *mut *const c_char) {
        let found = explain(error);
        // SAFETY: the caller's pointer; the text ends with a zero byte and stays.
        unsafe { put(string, found.map_or(std::ptr::null(), |text| text.as_ptr().cast()))? };
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    fn cuGetErrorName(error: c_int, string: *mut *const c_char) {
        let found = describe(error);
        // SAFETY: as above.
        unsafe { put(string, found.map_or(std::ptr::null(), |(name, _)| name.as_ptr().cast()))? };
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    fn cuGetProcAddress(name: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64) {
        // SAFETY: the caller's pointers.
        let (found, _, status) = address(unsafe { text(name)? }, version, flags);
        // SAFETY: the caller's pointer.
        unsafe { put(function, found)? };
        if status == 0 { Ok(()) } else { Err(Status(status)) }
    }

    fn cuGetProcAddress_v2(
        name: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
        answer: *mut c_int,
    ) {
        // SAFETY: the caller's pointers.
        let (found, why, status) = address(unsafe { text(name)? }, version, flags);
        // SAFETY: the caller's pointers.
        unsafe {
            put(function, found)?;
            put_if(answer, why);
        }
        if status == 0 { Ok(()) } else { Err(Status(status)) }
    }

    fn cuGetExportTable(table: *mut *const c_void, id: *const [u8; 16]) {
        if id.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        let found = tables::find(unsafe { id.read_unaligned() });
        // SAFETY: as above.
        unsafe { put(table, found.unwrap_or(std::ptr::null()))? };
        found.map(|_| ())
    }

    fn cuModuleGetLoadingMode(mode: *mut c_int) {
        // SAFETY: the caller's pointer. Lazy, unless the user says otherwise.
        unsafe { put(mode, if is_eager() { 1 } else { 2 }) }
    }

    fn cuProfilerStart() {
        process().map(|_| ())
    }

    fn cuProfilerStop() {
        process().map(|_| ())
    }
}
