//! Resident memory of processes, and the binary's size.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Resident memory of a process, KiB.
///
/// # Errors
/// If the process is gone or the system has no `/proc`.
pub(super) fn resident_kib(pid: u32) -> Result<f64> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    // The roll-up counts page by page. The status is cheaper and always there, but lags a little.
    let (text, key) = match read("smaps_rollup") {
        Ok(text) => (text, "Rss:"),
        Err(_) => (
            read("status").with_context(|| format!("process {pid}"))?,
            "VmRSS:",
        ),
    };
    kib(&text, key).with_context(|| format!("process {pid} has no resident memory"))
}

/// The figure in a line of `/proc`, in KiB.
fn kib(text: &str, key: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(key));
    let rest = lines.next()?.trim();
    rest.strip_suffix("kB")?.trim().parse().ok()
}

/// Memory of a process, in bytes: its anonymous memory and its memory files, mapped or not, each page once.
///
/// # Errors
/// If the process is gone or the system does not report it.
pub(super) fn stored_bytes(pid: u32) -> Result<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let rollup = rollup.with_context(|| format!("process {pid}"))?;
    let beside = kib(&rollup, "Pss_Anon:").context("the system says what is anonymous")?;
    let is_memory = |file: &Path| {
        let target = std::fs::read_link(file).unwrap_or_default();
        target.to_string_lossy().starts_with("/memfd:")
    };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let files = files.filter(|file| is_memory(file));
    let files = files.filter_map(|file| std::fs::metadata(file).ok());
    Ok(beside * 1024.0 + files.map(|file| file.blocks() as f64 * 512.0).sum::<f64>())
}

/// Resets the peak that [`peak_kib`] reads.
///
/// # Errors
/// If the process is gone or the system does not count peaks.
pub(super) fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("forgetting the peak memory of process {pid}"))
}

/// Peak resident memory of a process, in KiB.
///
/// # Errors
/// If the process is gone or the system does not count peaks.
pub(super) fn peak_kib(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let text = text.with_context(|| format!("process {pid}"))?;
    kib(&text, "VmHWM:").with_context(|| format!("process {pid} has no peak memory"))
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
