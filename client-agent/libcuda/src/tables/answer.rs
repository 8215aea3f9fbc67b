//! The functions in the tables.

#![expect(unsafe_code, reason = "a C interface: pointers of the caller's")]

use std::ffi::{c_int, c_void};

use super::digest::{Device, Question};
use super::layout::Integrity;
use super::{digest, layout, storage};
use crate::api::{cuCtxGetCurrent, cuDevicePrimaryCtxRetain, cuModuleLoadData};
use crate::guard::guard;
use crate::process::process;
use crate::settings::driver_version;
use crate::status::Status;

/// A destructor of what is kept with a context: (context, key, value).
pub(super) type Destructor = unsafe extern "C" fn(usize, usize, usize);

/// Memory that tools would write to. Zero: nothing is switched on.
static QUIET: [u64; 4096] = [0; 4096];

/// Does nothing, and that is right.
pub(super) extern "C" fn nothing() -> c_int {
    0
}

/// A function of which nothing is known but its place.
pub(super) extern "C" fn unknown<const PLACE: usize>() -> c_int {
    super::asked::missed(PLACE);
    0
}

/// The primary context of a device, retained.
pub(super) unsafe extern "C" fn primary_context(context: *mut usize, device: c_int) -> c_int {
    // SAFETY: the caller's pointer, as that function takes it.
    unsafe { cuDevicePrimaryCtxRetain(context, device) }
}

/// Loads an image that the program was linked with.
pub(super) unsafe extern "C" fn load(module: *mut usize, image: *const c_void) -> c_int {
    // SAFETY: the caller's pointers, as that function takes them.
    unsafe { cuModuleLoadData(module, image) }
}

/// Where tools would say what they want to hear of.
pub(super) unsafe extern "C" fn hooks(buffer: *mut *const c_void, size: *mut usize) {
    // SAFETY: the caller's pointers, or null.
    unsafe {
        if !buffer.is_null() {
            buffer.write(QUIET.as_ptr().cast());
        }
        if !size.is_null() {
            size.write(QUIET.len());
        }
    }
}

/// The calling thread's context.
pub(super) unsafe extern "C" fn thread_context(context: *mut usize, kind: c_int) -> c_int {
    let _ = kind;
    // SAFETY: the caller's pointer, as that function takes it.
    unsafe { cuCtxGetCurrent(context) }
}

/// Keeps a value with a context; null is the current one.
pub(super) unsafe extern "C" fn put(
    context: usize,
    key: usize,
    value: usize,
    destructor: Option<Destructor>,
) -> c_int {
    guard("the runtime's tables", || {
        storage::put(context, key, value, destructor)
    })
}

/// Forgets a value; its destructor is not called.
pub(super) unsafe extern "C" fn delete(context: usize, key: usize) -> c_int {
    guard("the runtime's tables", || storage::delete(context, key))
}

/// A value that is kept with a context.
pub(super) unsafe extern "C" fn get(value: *mut usize, context: usize, key: usize) -> c_int {
    guard("the runtime's tables", || {
        let found = storage::get(context, key)?;
        if value.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { value.write(found) };
        Ok(())
    })
}

/// Something that a context may have, and ours have not.
pub(super) unsafe extern "C" fn check(
    context: usize,
    state: *mut u32,
    more: *mut *const c_void,
) -> c_int {
    let _ = (context, more);
    // SAFETY: the caller's pointer, or null.
    unsafe {
        if !state.is_null() {
            state.write(0);
        }
    }
    0
}

/// No tool looks at this context.
pub(super) unsafe extern "C" fn tools(context: usize, state: *mut u64) -> c_int {
    let _ = context;
    // SAFETY: the caller's pointer, or null.
    unsafe {
        if !state.is_null() {
            state.write(1);
        }
    }
    0
}

/// What belongs to a number in a context: something of which nothing is known but that it is there.
pub(super) unsafe extern "C" fn belonging(
    context: usize,
    number: u64,
    found: *mut *const c_void,
) -> c_int {
    let _ = context;
    if found.is_null() {
        return Status::INVALID_VALUE.0;
    }
    if number == u64::MAX {
        return Status::INVALID_HANDLE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { found.write(QUIET.as_ptr().cast()) };
    0
}

/// A number of what [`belonging`] found.
pub(super) unsafe extern "C" fn number(context: usize, of: usize, found: *mut u64) -> c_int {
    let _ = context;
    if of == 0 || found.is_null() {
        return Status::INVALID_VALUE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { found.write(0) };
    0
}

/// The number by which the runtime knows that it was answered.
pub(super) unsafe extern "C" fn integrity(version: u32, seconds: u64, out: *mut [u8; 16]) -> c_int {
    guard("the runtime's tables", || {
        if out.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let devices = process()?.devices.iter().map(|device| {
            let properties = &device.properties;
            let place = [PCI_DOMAIN, PCI_BUS, PCI_DEVICE]
                .map(|number| properties.attribute(number).unwrap_or(0));
            Device {
                uuid: properties.uuid(),
                place,
            }
        });
        let question = Question {
            driver: driver_version() as u32,
            version,
            process: std::process::id(),
            // SAFETY: it has no conditions.
            thread: unsafe { libc::pthread_self() } as u32,
            runtime: Integrity::runtime(),
            integrity: layout::INTEGRITY.address(),
            function: integrity as *const () as u64,
            seconds,
        };
        // SAFETY: the caller's pointer.
        unsafe { out.write(digest::answer(&question, devices)) };
        Ok(())
    })
}

/// `CUdevice_attribute`s: where a device is.
const PCI_DOMAIN: i32 = 50;
const PCI_BUS: i32 = 33;
const PCI_DEVICE: i32 = 34;
