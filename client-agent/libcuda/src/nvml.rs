//! The little of NVIDIA's management library that programs ask for before they use a device: the drop-in
//! is found by that library's name too, where `warploom run` sees a program that needs it.
//!
//! XLA starts it, and goes on without whatever else it does not find there.

#![expect(unsafe_code, reason = "exports of a C interface")]

/// Starts the library: there is nothing to start.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlInit_v2() -> i32 {
    0
}

/// Ends what [`nvmlInit_v2`] began.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlShutdown() -> i32 {
    0
}
