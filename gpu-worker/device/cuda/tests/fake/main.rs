//! The CUDA device on a fake driver, without a GPU and in virtual time: `tests/fake-cuda`.
//!
//! Each test runs in a process of its own, which has a driver of its own.

mod closed;
mod compiled;
mod conforms;
mod exported;
mod failures;
mod loader;
mod queries;
mod script;
mod setup;
mod slices;
mod waits;
