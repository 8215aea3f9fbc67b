//! Initialisation, errors, versions, lookup of functions.

use std::ffi::{c_char, c_int, c_void};

use client_session::driver_version;

use crate::abi::{In, Out, Text};
use crate::guard::api;
use crate::process::init;
use crate::settings::is_eager;
use crate::status::{Result, Status, describe, explain};
use crate::symbol::{self, Found};
use crate::tables;

/// The flag of `cuGetProcAddress` that asks for per-thread default streams.
const PER_THREAD: u64 = 2;

/// Looks up a function. Returns 0, or the reason why it is not found.
fn find(
    name: &Text<'_>,
    function: &Out<'_, *mut c_void>,
    version: c_int,
    flags: u64,
) -> Result<c_int> {
    // Programs built for a newer CUDA ask for its functions, and learn below which are missing.
    // The driver's version is settled late: only a program that asks for more needs it here.
    if version > symbol::newest() && version > driver_version() {
        return Err(Status::INVALID_VALUE);
    }
    let (found, reason) = match symbol::find(name.take()?, version, flags & PER_THREAD != 0) {
        Found::Address(address) => (address.cast_mut().cast(), 0),
        Found::Unknown => (std::ptr::null_mut(), 1),
        Found::TooNew => (std::ptr::null_mut(), 2),
    };
    function.put(found)?;
    Ok(reason)
}

/// Returns a static text that ends with a zero byte; null if there is none.
fn put_text(to: &Out<'_, *const c_char>, text: Option<&'static str>) -> Result {
    to.put(text.map_or(std::ptr::null(), |text| text.as_ptr().cast()))?;
    text.map(|_| ()).ok_or(Status::INVALID_VALUE)
}

api! {
    fn cuInit(flags: u32) => match flags {
        0 => init(),
        _ => Err(Status::INVALID_VALUE),
    };

    fn cuDriverGetVersion(version: Out<'_, c_int>) => version.put(driver_version());
    fn cuGetErrorString(error: c_int, string: Out<'_, *const c_char>) => put_text(&string, explain(error));
    fn cuGetErrorName(error: c_int, string: Out<'_, *const c_char>)
        => put_text(&string, describe(error).map(|(name, _)| name));
    // This version reports a missing function by its status only.
    fn cuGetProcAddress(name: Text<'_>, function: Out<'_, *mut c_void>, version: c_int, flags: u64)
        => match find(&name, &function, version, flags)? {
            0 => Ok(()),
            _ => Err(Status::NOT_FOUND),
        };
    fn cuGetProcAddress_v2(
        name: Text<'_>, function: Out<'_, *mut c_void>, version: c_int, flags: u64, why: Out<'_, c_int>,
    ) {
        let reason = find(&name, &function, version, flags)?;
        why.put_if(reason);
        Ok(())
    }

    fn cuGetExportTable(table: Out<'_, *const c_void>, id: In<'_, [u8; 16]>) {
        let found = tables::find(id.take()?);
        table.put(found.unwrap_or(std::ptr::null()))?;
        found
    }

    // Lazy, unless the user sets eager loading.
    fn cuModuleGetLoadingMode(mode: Out<'_, c_int>) => mode.put(if is_eager() { 1 } else { 2 });

    fn cuProfilerStart() also cuProfilerStop => Ok(());
}
