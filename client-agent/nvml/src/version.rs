//! The driver's version, as shown by tools that list devices.

/// The branch of NVIDIA's drivers for CUDA 13.0, which `cuDriverGetVersion` reports on CPUs. Tools
/// compare the number; there is no such driver on this machine. Workers do not tell theirs.
const DRIVER: &str = "580.00";

/// The text of `nvmlSystemGetDriverVersion`.
#[must_use]
pub fn driver_text() -> &'static str {
    DRIVER
}
