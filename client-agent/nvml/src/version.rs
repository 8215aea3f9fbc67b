//! The driver's version, as tools that list devices show it.

/// The branch of NVIDIA's drivers that speaks CUDA 13.0, as `cuDriverGetVersion` says here unless a
/// program is told otherwise. Tools compare the number; there is no such driver on this machine.
const DRIVER: &str = "580.00";

/// The text of `nvmlSystemGetDriverVersion`.
#[must_use]
pub fn driver_text() -> &'static str {
    DRIVER
}
