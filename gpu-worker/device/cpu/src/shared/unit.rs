//! Units, and how many mappings the host gives for them.

use crate::memory::PAGE;

/// Bytes of a unit. The last one of a copy is its whole pages that are left.
pub(crate) const UNIT: u64 = 1 << 20;
/// Bytes of the smallest last unit: each costs the host a mapping, which has to be worth it.
pub(crate) const LEAST: u64 = 16 * PAGE;

/// Mappings that a process may have on this host.
pub(crate) fn mappings() -> u64 {
    /// What Linux has where nothing else is said.
    const USUAL: u64 = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(USUAL)
}
