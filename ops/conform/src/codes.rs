//! The driver's result codes that checks use.

/// The name of a code, without `CUDA_ERROR_`.
pub(crate) fn name(code: i32) -> Option<&'static str> {
    let found = NAMES.iter().find(|(number, _)| *number == code);
    found.map(|(_, name)| *name)
}

macro_rules! codes {
    ($($name:ident = $code:literal;)*) => {
        $(pub(crate) const $name: i32 = $code;)*
        const NAMES: &[(i32, &str)] = &[$(($code, stringify!($name))),*];
    };
}

codes! {
    SUCCESS = 0;
    INVALID_VALUE = 1;
    OUT_OF_MEMORY = 2;
    NOT_INITIALIZED = 3;
    INVALID_DEVICE = 101;
    INVALID_IMAGE = 200;
    INVALID_CONTEXT = 201;
    UNSUPPORTED_LIMIT = 215;
    INVALID_PTX = 218;
    UNSUPPORTED_PTX_VERSION = 222;
    FILE_NOT_FOUND = 301;
    INVALID_HANDLE = 400;
    NOT_FOUND = 500;
    LAUNCH_OUT_OF_RESOURCES = 701;
    PEER_ACCESS_NOT_ENABLED = 705;
    CONTEXT_IS_DESTROYED = 709;
    HOST_MEMORY_ALREADY_REGISTERED = 712;
    HOST_MEMORY_NOT_REGISTERED = 713;
    STREAM_CAPTURE_UNSUPPORTED = 900;
    STREAM_CAPTURE_INVALIDATED = 901;
    STREAM_CAPTURE_MERGE = 902;
    STREAM_CAPTURE_UNJOINED = 904;
    STREAM_CAPTURE_ISOLATION = 905;
    STREAM_CAPTURE_IMPLICIT = 906;
    CAPTURED_EVENT = 907;
    STREAM_CAPTURE_WRONG_THREAD = 908;
    GRAPH_EXEC_UPDATE_FAILURE = 910;
}
