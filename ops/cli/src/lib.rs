//! The commands of the product and the local cluster. The binary is `ops/warploom`; benchmarks, demo,
//! chaos and simulations are in `ops/lab`.

pub mod client_settings;
pub mod commands;
pub mod display;
pub mod drop_in;
pub mod exit;
pub mod global;
mod host_memory;
pub mod local;
pub mod timeline;
pub mod weights;
