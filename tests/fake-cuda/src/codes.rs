//! Error codes of the driver API, and their names.

use std::ffi::CStr;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NOT_INITIALIZED: u32 = 3;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_IMAGE: u32 = 200;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const INVALID_PTX: u32 = 218;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
pub(crate) const LAUNCH_OUT_OF_RESOURCES: u32 = 701;
pub(crate) const MISALIGNED_ADDRESS: u32 = 716;
pub(crate) const INVALID_CLUSTER_SIZE: u32 = 912;

/// Codes that a test may plan, beside those above.
const NAMES: [(u32, &CStr); 22] = [
    (SUCCESS, c"CUDA_SUCCESS"),
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE"),
    (OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY"),
    (NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED"),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE"),
    (INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT"),
    (209, c"CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (214, c"CUDA_ERROR_ECC_UNCORRECTABLE"),
    (INVALID_PTX, c"CUDA_ERROR_INVALID_PTX"),
    (222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND"),
    (NOT_READY, c"CUDA_ERROR_NOT_READY"),
    (ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    (
        LAUNCH_OUT_OF_RESOURCES,
        c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    ),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT"),
    (MISALIGNED_ADDRESS, c"CUDA_ERROR_MISALIGNED_ADDRESS"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED"),
    (INVALID_CLUSTER_SIZE, c"CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (999, c"CUDA_ERROR_UNKNOWN"),
];

/// Returns the name of a code that the driver knows.
pub(crate) fn name(code: u32) -> Option<&'static CStr> {
    let known = NAMES.iter().find(|(it, _)| *it == code);
    known.map(|(_, name)| *name)
}
