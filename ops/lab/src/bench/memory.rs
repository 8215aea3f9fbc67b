//! Resident memory of processes, and the binary's size.

use anyhow::{Context, Result};

/// Resident memory of a process, KiB.
///
/// # Errors
/// When the process is gone or the system has no `/proc`.
pub(super) fn resident_kib(pid: u32) -> Result<f64> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    // The roll-up counts page by page; the status is cheaper, lags a little, and is always there.
    let (text, key) = match read("smaps_rollup") {
        Ok(text) => (text, "Rss:"),
        Err(_) => (
            read("status").with_context(|| format!("process {pid}"))?,
            "VmRSS:",
        ),
    };
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(key));
    let kib = lines
        .next()
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.with_context(|| format!("process {pid} has no resident memory"))
}

/// From now on [`peak_kib`] of a process counts anew.
///
/// # Errors
/// When the process is gone or the system does not count peaks.
pub(super) fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("forgetting the peak memory of process {pid}"))
}

/// Most resident memory that a process had, KiB.
///
/// # Errors
/// When the process is gone or the system does not count peaks.
pub(super) fn peak_kib(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let text = text.with_context(|| format!("process {pid}"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("VmHWM:"));
    let kib = lines
        .next()
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.with_context(|| format!("process {pid} has no peak memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_resident() {
        let before = resident_kib(std::process::id()).unwrap();
        let touched = vec![1_u8; 32 << 20];
        let after = resident_kib(std::process::id()).unwrap();
        assert!(
            after - before > 24.0 * 1024.0,
            "{before} {after} {}",
            touched.len()
        );
        assert!(resident_kib(u32::MAX).is_err());
    }
}
