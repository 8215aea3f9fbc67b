//! The driver's result codes.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
use bus_schemas::Code;
use bus_schemas::Failure;
use client_session::ClientError;

use crate::fork::is_forked;
use crate::lock::lock;

/// A `CUresult` that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

/// The result of the functions behind the exports.
pub(crate) type Result<T = ()> = std::result::Result<T, Status>;

macro_rules! codes {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        #[expect(dead_code, reason = "the list is whole; not every code is ours to give")]
        impl Status {
            $(pub(crate) const $name: Self = Self($code);)*
        }

        /// Code, name and meaning of every result.
        static CODES: &[(i32, &str, &str)] = &[
            (0, "CUDA_SUCCESS\0", "no error\0"),
            $(($code, concat!("CUDA_ERROR_", $symbol, "\0"), concat!($text, "\0")),)*
        ];
    };
}

impl Status {
    /// A code of the runtime, which the driver has no name for.
    pub(crate) const INVALID_CONFIGURATION: Self = Self(9);
}

codes! {
    INVALID_VALUE = 1, "INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "NOT_INITIALIZED", "initialization error";
    DEINITIALIZED = 4, "DEINITIALIZED", "driver shutting down";
    PROFILER_DISABLED = 5, "PROFILER_DISABLED", "profiler disabled";
    PROFILER_NOT_INITIALIZED = 6, "PROFILER_NOT_INITIALIZED", "profiler not initialized";
    PROFILER_ALREADY_STARTED = 7, "PROFILER_ALREADY_STARTED", "profiler already started";
    PROFILER_ALREADY_STOPPED = 8, "PROFILER_ALREADY_STOPPED", "profiler already stopped";
    STUB_LIBRARY = 34, "STUB_LIBRARY", "stub library";
    CALL_REQUIRES_NEWER_DRIVER = 36, "CALL_REQUIRES_NEWER_DRIVER", "call requires newer driver";
    DEVICE_UNAVAILABLE = 46, "DEVICE_UNAVAILABLE", "the device is not available any more";
    MULTICAST_RESOURCE_FULL = 47, "MULTICAST_RESOURCE_FULL", "multicast resource full";
    NO_DEVICE = 100, "NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "INVALID_DEVICE", "invalid device ordinal";
    DEVICE_NOT_LICENSED = 102, "DEVICE_NOT_LICENSED", "device not licensed";
    INVALID_IMAGE = 200, "INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "INVALID_CONTEXT", "invalid device context";
    CONTEXT_ALREADY_CURRENT = 202, "CONTEXT_ALREADY_CURRENT", "context already current";
    MAP_FAILED = 205, "MAP_FAILED", "map failed";
    UNMAP_FAILED = 206, "UNMAP_FAILED", "unmap failed";
    ARRAY_IS_MAPPED = 207, "ARRAY_IS_MAPPED", "array is mapped";
    ALREADY_MAPPED = 208, "ALREADY_MAPPED", "already mapped";
    NO_BINARY_FOR_GPU = 209, "NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    ALREADY_ACQUIRED = 210, "ALREADY_ACQUIRED", "already acquired";
    NOT_MAPPED = 211, "NOT_MAPPED", "not mapped";
    NOT_MAPPED_AS_ARRAY = 212, "NOT_MAPPED_AS_ARRAY", "not mapped as array";
    NOT_MAPPED_AS_POINTER = 213, "NOT_MAPPED_AS_POINTER", "not mapped as pointer";
    ECC_UNCORRECTABLE = 214, "ECC_UNCORRECTABLE", "ecc uncorrectable";
    UNSUPPORTED_LIMIT = 215, "UNSUPPORTED_LIMIT", "unsupported limit";
    CONTEXT_ALREADY_IN_USE = 216, "CONTEXT_ALREADY_IN_USE", "context already in use";
    PEER_ACCESS_UNSUPPORTED = 217, "PEER_ACCESS_UNSUPPORTED", "peer access unsupported";
    INVALID_PTX = 218, "INVALID_PTX", "a PTX JIT compilation failed";
    INVALID_GRAPHICS_CONTEXT = 219, "INVALID_GRAPHICS_CONTEXT", "invalid graphics context";
    NVLINK_UNCORRECTABLE = 220, "NVLINK_UNCORRECTABLE", "nvlink uncorrectable";
    JIT_COMPILER_NOT_FOUND = 221, "JIT_COMPILER_NOT_FOUND", "jit compiler not found";
    UNSUPPORTED_PTX_VERSION = 222, "UNSUPPORTED_PTX_VERSION", "the PTX was made for a newer driver";
    JIT_COMPILATION_DISABLED = 223, "JIT_COMPILATION_DISABLED", "jit compilation disabled";
    UNSUPPORTED_EXEC_AFFINITY = 224, "UNSUPPORTED_EXEC_AFFINITY", "unsupported exec affinity";
    UNSUPPORTED_DEVSIDE_SYNC = 225, "UNSUPPORTED_DEVSIDE_SYNC", "unsupported devside sync";
    CONTAINED = 226, "CONTAINED", "contained";
    INSUFFICIENT_LOADER_VERSION = 227, "INSUFFICIENT_LOADER_VERSION", "insufficient loader version";
    INVALID_SOURCE = 300, "INVALID_SOURCE", "invalid source";
    FILE_NOT_FOUND = 301, "FILE_NOT_FOUND", "file not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, "SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found";
    SHARED_OBJECT_INIT_FAILED = 303, "SHARED_OBJECT_INIT_FAILED", "shared object init failed";
    OPERATING_SYSTEM = 304, "OPERATING_SYSTEM", "operating system";
    INVALID_HANDLE = 400, "INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "ILLEGAL_STATE", "illegal state";
    LOSSY_QUERY = 402, "LOSSY_QUERY", "lossy query";
    NOT_FOUND = 500, "NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    LAUNCH_INCOMPATIBLE_TEXTURING = 703, "LAUNCH_INCOMPATIBLE_TEXTURING", "launch incompatible texturing";
    PEER_ACCESS_ALREADY_ENABLED = 704, "PEER_ACCESS_ALREADY_ENABLED", "peer access already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "PEER_ACCESS_NOT_ENABLED", "peer access not enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "PRIMARY_CONTEXT_ACTIVE", "primary context active";
    CONTEXT_IS_DESTROYED = 709, "CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "ASSERT", "device-side assert triggered";
    TOO_MANY_PEERS = 711, "TOO_MANY_PEERS", "too many peers";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "HOST_MEMORY_ALREADY_REGISTERED", "host memory is registered already";
    HOST_MEMORY_NOT_REGISTERED = 713, "HOST_MEMORY_NOT_REGISTERED", "host memory is not registered";
    HARDWARE_STACK_ERROR = 714, "HARDWARE_STACK_ERROR", "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "ILLEGAL_INSTRUCTION", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "MISALIGNED_ADDRESS", "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "INVALID_ADDRESS_SPACE", "invalid address space";
    INVALID_PC = 718, "INVALID_PC", "invalid pc";
    LAUNCH_FAILED = 719, "LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "COOPERATIVE_LAUNCH_TOO_LARGE", "cooperative launch too large";
    TENSOR_MEMORY_LEAK = 721, "TENSOR_MEMORY_LEAK", "tensor memory leak";
    NOT_PERMITTED = 800, "NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = 801, "NOT_SUPPORTED", "operation not supported";
    SYSTEM_NOT_READY = 802, "SYSTEM_NOT_READY", "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = 803, "SYSTEM_DRIVER_MISMATCH", "system driver mismatch";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", "compat not supported on device";
    MPS_CONNECTION_FAILED = 805, "MPS_CONNECTION_FAILED", "mps connection failed";
    MPS_RPC_FAILURE = 806, "MPS_RPC_FAILURE", "mps rpc failure";
    MPS_SERVER_NOT_READY = 807, "MPS_SERVER_NOT_READY", "mps server not ready";
    MPS_MAX_CLIENTS_REACHED = 808, "MPS_MAX_CLIENTS_REACHED", "mps max clients reached";
    MPS_MAX_CONNECTIONS_REACHED = 809, "MPS_MAX_CONNECTIONS_REACHED", "mps max connections reached";
    MPS_CLIENT_TERMINATED = 810, "MPS_CLIENT_TERMINATED", "mps client terminated";
    CDP_NOT_SUPPORTED = 811, "CDP_NOT_SUPPORTED", "cdp not supported";
    CDP_VERSION_MISMATCH = 812, "CDP_VERSION_MISMATCH", "cdp version mismatch";
    STREAM_CAPTURE_UNSUPPORTED = 900, "STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "STREAM_CAPTURE_INVALIDATED", "stream capture invalidated";
    STREAM_CAPTURE_MERGE = 902, "STREAM_CAPTURE_MERGE", "stream capture merge";
    STREAM_CAPTURE_UNMATCHED = 903, "STREAM_CAPTURE_UNMATCHED", "stream capture unmatched";
    STREAM_CAPTURE_UNJOINED = 904, "STREAM_CAPTURE_UNJOINED", "stream capture unjoined";
    STREAM_CAPTURE_ISOLATION = 905, "STREAM_CAPTURE_ISOLATION", "stream capture isolation";
    STREAM_CAPTURE_IMPLICIT = 906, "STREAM_CAPTURE_IMPLICIT", "stream capture implicit";
    CAPTURED_EVENT = 907, "CAPTURED_EVENT", "captured event";
    STREAM_CAPTURE_WRONG_THREAD = 908, "STREAM_CAPTURE_WRONG_THREAD", "stream capture wrong thread";
    TIMEOUT = 909, "TIMEOUT", "timeout";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "GRAPH_EXEC_UPDATE_FAILURE", "graph exec update failure";
    EXTERNAL_DEVICE = 911, "EXTERNAL_DEVICE", "external device";
    INVALID_CLUSTER_SIZE = 912, "INVALID_CLUSTER_SIZE", "invalid cluster size";
    FUNCTION_NOT_LOADED = 913, "FUNCTION_NOT_LOADED", "function not loaded";
    INVALID_RESOURCE_TYPE = 914, "INVALID_RESOURCE_TYPE", "invalid resource type";
    INVALID_RESOURCE_CONFIGURATION = 915, "INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration";
    KEY_ROTATION = 916, "KEY_ROTATION", "key rotation";
    STREAM_DETACHED = 917, "STREAM_DETACHED", "stream detached";
    GRAPH_RECAPTURE_FAILURE = 918, "GRAPH_RECAPTURE_FAILURE", "graph recapture failure";
    FABRIC_NOT_READY = 919, "FABRIC_NOT_READY", "fabric not ready";
    UNKNOWN = 999, "UNKNOWN", "unknown error";
}

impl Status {
    /// The status as the result of a function that always fails.
    pub(crate) fn err(self) -> Result {
        Err(self)
    }
}

/// Name and meaning of a code, each with a terminating zero byte.
pub(crate) fn describe(code: i32) -> Option<(&'static str, &'static str)> {
    let at = CODES.binary_search_by_key(&code, |row| row.0).ok()?;
    Some((CODES[at].1, CODES[at].2))
}

impl From<&Failure> for Status {
    fn from(failure: &Failure) -> Self {
        let status = Self(failure.code.cuda() as i32);
        if status == Self::ASSERT {
            assertion(&failure.detail);
        }
        note(status, failure.to_string());
        status
    }
}

/// Writes a kernel's failed assertion to stderr once, as drivers do.
fn assertion(detail: &str) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        // stderr may be closed.
        let text = driver_text(detail);
        let _ = writeln!(std::io::stderr(), "{}", text.as_deref().unwrap_or(detail));
    }
}

/// A failed assertion in the format of drivers:
/// `FILE:LINE: FUNCTION: block: [0,0,0], thread: [1,0,0] Assertion ...`. Our own format has the
/// place first.
fn driver_text(detail: &str) -> Option<String> {
    let (place, said) = detail.split_once("]: ")?;
    let (block, thread) = place.split_once("block ")?.1.split_once(", thread ")?;
    let (head, assertion) = said.split_once(": assertion ")?;
    let plain = |place: &str| place.replace(' ', "");
    let (block, thread) = (plain(block), plain(thread));
    Some(format!(
        "{head}: block: {block}, thread: {thread}] Assertion {assertion}."
    ))
}

impl From<ClientError> for Status {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(failure) | ClientError::Session(failure) => failure.into(),
            ClientError::Connect(detail) => {
                note(Self::SYSTEM_NOT_READY, detail.clone());
                Self::SYSTEM_NOT_READY
            }
            ClientError::Evidence { .. } => Self::OPERATING_SYSTEM,
        }
    }
}

/// Details of statuses for `cuGetErrorString`: the last detail of each code. The texts are kept
/// forever, like those of the driver, so their number is bounded.
static DETAILS: Mutex<Vec<(i32, String, &'static str)>> = Mutex::new(Vec::new());
const DETAILS_KEPT: usize = 256;

/// Notes the detail of a status.
pub(crate) fn note(status: Status, detail: String) {
    let mut details = lock(&DETAILS);
    if details.len() >= DETAILS_KEPT
        || details
            .iter()
            .any(|row| row.0 == status.0 && row.1 == detail)
    {
        // The newest detail of a code comes last.
        if let Some(at) = details
            .iter()
            .position(|row| row.0 == status.0 && row.1 == detail)
        {
            let row = details.remove(at);
            details.push(row);
        }
        return;
    }
    let meaning = describe(status.0).map_or("", |(_, text)| text.trim_end_matches('\0'));
    let plain: String = detail.chars().filter(|c| *c != '\0').collect();
    let text = format!("{meaning}: {plain}\0").leak();
    details.push((status.0, detail, text));
}

/// Meaning of a code with the noted detail, with a terminating zero byte.
pub(crate) fn explain(code: i32) -> Option<&'static str> {
    let (_, text) = describe(code)?;
    if is_forked() {
        // The lock may be held by a thread that does not exist in this process.
        return Some(text);
    }
    let details = lock(&DETAILS);
    Some(
        details
            .iter()
            .rev()
            .find(|row| row.0 == code)
            .map_or(text, |row| row.2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_every_failure_has_one() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for code in Code::ALL {
            assert!(describe(code.cuda() as i32).is_some(), "{code}");
        }
    }

    #[test]
    fn a_false_assertion_is_reported_as_drivers_do() {
        let detail = "assertion in kernel `f`, PTX line 5, block [0, 0, 0], thread [31, 0, 0]: a.cu:7: void \
                      f(int): assertion `x < y` failed";
        let wanted =
            "a.cu:7: void f(int): block: [0,0,0], thread: [31,0,0] Assertion `x < y` failed.";
        assert_eq!(driver_text(detail).as_deref(), Some(wanted));
        assert_eq!(driver_text("something else"), None);
    }

    #[test]
    fn the_last_detail_explains_a_code() {
        assert_eq!(explain(Status::MAP_FAILED.0), Some("map failed\0"));
        note(Status::MAP_FAILED, "first".into());
        note(Status::MAP_FAILED, "second".into());
        assert_eq!(explain(Status::MAP_FAILED.0), Some("map failed: second\0"));
        note(Status::MAP_FAILED, "first".into());
        assert_eq!(explain(Status::MAP_FAILED.0), Some("map failed: first\0"));
        assert_eq!(explain(12_345), None);
    }
}
