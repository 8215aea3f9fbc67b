//! Kernels that checks run, as PTX: the only kernel format of the suite.

/// A module of kernels and variables.
pub(crate) const PTX: &str = include_str!("kernels.ptx");
