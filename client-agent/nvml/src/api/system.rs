//! Initialisation, errors, versions, properties of the machine.

use std::ffi::c_char;

use client_session::{driver_version, settle_driver_version};

use crate::abi::{Out, OutText};
use crate::guard::api;
use crate::library::{self, Wanted};
use crate::status::{Result, Status};
use crate::version::driver_text;

/// The version of NVML that these functions belong to.
const NVML: &str = "13.580.00";

/// The text of a result code: static, or kept until the process ends.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(code: i32) -> *const c_char {
    library::explain(code)
}

/// The name of a process: the first word of its command line, or its name in the kernel.
fn process_name(pid: u32) -> Result<String> {
    let read = |file| std::fs::read(format!("/proc/{pid}/{file}"));
    let line = read("cmdline").map_err(|_| Status::NOT_FOUND)?;
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    if !first.is_empty() {
        return Ok(String::from_utf8_lossy(first).into_owned());
    }
    let short = read("comm").map_err(|_| Status::NOT_FOUND)?;
    Ok(String::from_utf8_lossy(&short).trim_end().to_owned())
}

/// The CUDA version of the driver, by the tenant's GPUs if they are known. Before `nvmlInit` nothing
/// asks for them.
fn cuda_version() -> i32 {
    if let Ok(view) = library::view(Wanted::Properties) {
        let devices = view.devices.iter();
        settle_driver_version(devices.filter_map(|it| it.properties.gpu_driver()));
    }
    driver_version()
}

api! {
    fn nvmlInit_v2() also nvmlInit { library::init() }

    fn nvmlInitWithFlags(_flags: u32) { library::init() }

    fn nvmlShutdown() { library::shutdown() }

    fn nvmlSystemGetDriverVersion(text: OutText<'_>, room: u32) { text.put(room, driver_text()) }

    fn nvmlSystemGetNVMLVersion(text: OutText<'_>, room: u32) { text.put(room, NVML) }

    fn nvmlSystemGetCudaDriverVersion(version: Out<'_, i32>) also nvmlSystemGetCudaDriverVersion_v2 {
        version.put(cuda_version())
    }

    fn nvmlSystemGetProcessName(pid: u32, text: OutText<'_>, room: u32) {
        text.put_cut(room, &process_name(pid)?)
    }

    fn nvmlUnitGetCount(count: Out<'_, u32>) { count.put(0) }

    fn nvmlGetExcludedDeviceCount(count: Out<'_, u32>) { count.put(0) }
}
