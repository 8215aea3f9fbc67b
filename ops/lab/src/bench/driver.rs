//! The driver API as measured programs call it: the library is loaded by its path.

#![expect(unsafe_code, reason = "calls a C interface")]

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use anyhow::{Result, bail};
use libloading::Library;

/// `cuLaunchKernel`.
pub(super) type Launch = unsafe extern "C" fn(
    usize,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    usize,
    *const *const c_void,
    *const *const c_void,
) -> c_int;

/// The functions that measured programs call, as any program gets them.
pub(super) struct Driver {
    pub(super) launch: Launch,
    pub(super) alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    pub(super) free: unsafe extern "C" fn(u64) -> c_int,
    pub(super) to_device: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    pub(super) to_host: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
    pub(super) record: unsafe extern "C" fn(usize, usize) -> c_int,
    pub(super) sync: unsafe extern "C" fn() -> c_int,
    pub(super) event: unsafe extern "C" fn(*mut usize, u32) -> c_int,
    pub(super) load: unsafe extern "C" fn(*mut usize, *const c_void) -> c_int,
    pub(super) function: unsafe extern "C" fn(*mut usize, usize, *const c_char) -> c_int,
    pub(super) attribute: unsafe extern "C" fn(usize, c_int, c_int) -> c_int,
    _library: Library,
}

/// Turns a status other than 0 into an error.
pub(super) fn check(status: c_int, what: &str) -> Result<()> {
    if status != 0 {
        bail!("{what}: CUDA error {status}");
    }
    Ok(())
}

impl Driver {
    /// Loads the library, initialises it, and makes a context.
    pub(super) fn load(folder: &Path) -> Result<Self> {
        // SAFETY: the signatures are the driver's; loading it starts nothing.
        unsafe {
            let library = Library::new(folder.join("libcuda.so.1"))?;
            let init: unsafe extern "C" fn(u32) -> c_int = *library.get(b"cuInit")?;
            let context: unsafe extern "C" fn(*mut usize, u32, c_int) -> c_int =
                *library.get(b"cuCtxCreate_v2")?;
            check(init(0), "cuInit")?;
            let mut made = 0;
            check(context(&mut made, 0, 0), "cuCtxCreate")?;
            Ok(Self {
                launch: *library.get(b"cuLaunchKernel")?,
                alloc: *library.get(b"cuMemAlloc_v2")?,
                free: *library.get(b"cuMemFree_v2")?,
                to_device: *library.get(b"cuMemcpyHtoD_v2")?,
                to_host: *library.get(b"cuMemcpyDtoH_v2")?,
                record: *library.get(b"cuEventRecord")?,
                sync: *library.get(b"cuCtxSynchronize")?,
                event: *library.get(b"cuEventCreate")?,
                load: *library.get(b"cuModuleLoadData")?,
                function: *library.get(b"cuModuleGetFunction")?,
                attribute: *library.get(b"cuFuncSetAttribute")?,
                _library: library,
            })
        }
    }
}
