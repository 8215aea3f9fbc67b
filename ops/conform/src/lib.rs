//! A conformance suite for any CUDA driver: checks of the driver API by documented behaviour, in
//! our own words.
//!
//! A driver is a shared object with functions that are called by name. Each area of checks runs in
//! its own process, so that a driver that crashes or hangs fails only one check. Many checks are
//! generated from the table of the API ([`driver_api`]); the others are written by hand, each a
//! function in `areas`.

mod areas;
mod bench;
mod check;
mod codes;
mod driver;
mod finding;
mod fixture;
mod host;
mod kernels;
mod report;
mod run;
mod serve;

pub use areas::names as area_names;
pub use report::{CheckResult, Report, Verdict};
pub use run::{Plan, run};
pub use serve::serve;
