//! Units, and the number of mappings that the host allows for them.

use crate::memory::PAGE;

/// Bytes of a unit. The last unit of a copy is the rest of its whole pages.
pub(crate) const UNIT: u64 = 1 << 20;
/// Minimum bytes of a last unit; each unit costs the host a mapping, which must be worth it.
pub(crate) const LEAST: u64 = 16 * PAGE;

/// Maximum number of mappings of a process on this host.
pub(crate) fn mappings() -> u64 {
    /// Default of Linux.
    const USUAL: u64 = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(USUAL)
}
