//! Checks that Warploom's own driver fails, each with the reason.

/// Work of a captured stream is recorded, and other calls go on as if nothing were captured.
const CAPTURE: &str =
    "a capture does not watch what else the program calls: its mode is not obeyed yet";

/// Name of the check, and why it fails.
pub(super) const ALL: &[(&str, &str)] = &[
    (
        "cuMemSetMemPool: a null pool is refused",
        "pools are chosen by cuDeviceSetMemPool alone",
    ),
    (
        "cuMemGetAddressRange: a variable of a module lies in a range",
        "variables lie with their module, which is no allocation of the program's",
    ),
    (
        "cuPointerGetAttribute: a variable of a module that was unloaded is no device memory",
        "the part of a device's addresses where modules lie is told as a whole",
    ),
    (
        "cuDevicePrimaryCtxRelease: a released context that is current allocates no memory",
        "a released primary context that is still current goes on, as if it were retained again",
    ),
    (
        "cuLibraryGetManaged: a plain variable is not found as a managed one",
        "the PTX parser does not keep which variables are managed",
    ),
    (
        "cuCtxSynchronize: a context with a captured stream cannot be waited for",
        CAPTURE,
    ),
    ("cuMemAlloc: a global capture forbids allocation", CAPTURE),
    (
        "cuMemAlloc: a capture of the thread forbids allocation in it",
        CAPTURE,
    ),
    (
        "cuMemcpyHtoD: a copy that waits is unsafe under a global capture",
        CAPTURE,
    ),
    (
        "cuThreadExchangeStreamCaptureMode: it gives the mode before and keeps the new one",
        CAPTURE,
    ),
    (
        "cuThreadExchangeStreamCaptureMode: a mode that there is not is refused",
        CAPTURE,
    ),
    (
        "cuStreamEndCapture: another thread cannot end a capture of the thread",
        CAPTURE,
    ),
    (
        "cuStreamIsCapturing: a forbidden call invalidates the capture",
        CAPTURE,
    ),
    (
        "cuLaunchKernel: the legacy stream cannot be used beside a capture that it would block",
        CAPTURE,
    ),
    (
        "cuEventQuery: an event that was captured cannot be queried or waited for",
        CAPTURE,
    ),
];
