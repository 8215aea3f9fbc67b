//! A CUDA driver without a GPU. It exports the functions of the driver API that `device-cuda` uses; memory,
//! copies and fills are real, kernels only take time.
//!
//! Time is virtual. Each thread has a clock, which a call moves on by the cost that `tests/gpu/costs.json` has
//! for it. Streams run on a model of the device in the same time. So a test sees which calls wait, and for how
//! long, the same each time.
//!
//! [`FakeCuda`] is the tests' side: it loads the library and counts, delays and fails its calls. The README
//! says what is modelled, and by which figures.

mod codes;
mod costs;
mod driver;
mod effects;
mod exports;
mod gpu;
mod journal;
mod kernels;
mod memory;
mod modules;
mod objects;
mod tests_side;
mod threads;
mod timeline;

pub use journal::LoggedCall;
pub use tests_side::{Call, FakeCuda, Planned, in_own_process, library};

/// Nanoseconds of virtual time.
pub type Nanos = u64;
