//! The CUDA version of the driver, as this process's program is told.
//!
//! On a GPU it is that of NVIDIA's driver there, and a setting only lowers it. Functions of a newer
//! version would be promised and then be missing. On a CPU it is what the setting says.
//!
//! The first version that the program is told holds until the process ends. The CUDA runtime asks
//! for it before `cuInit`, and computes with it later.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The version of this library, which programs on CPUs are told by default.
const OWN: i32 = 13_000;
/// The oldest version that can be set. Its runtime is the oldest one that is tested.
const OLDEST: i32 = 11_000;
/// The variable with the user's setting. Some programs send PTX only to a driver as new as their
/// own toolkit.
pub(crate) const SETTING: &str = "WARPLOOM_CLIENT_DRIVER_VERSION";
/// The variable with the lowest version of the drivers of the GPUs that the tenant may get. `run`
/// asks for it, because the program may need it before it opens a session.
pub const GPU_DRIVER: &str = "WARPLOOM_GPU_DRIVER_VERSION";

/// The version that the program was told; 0 before that.
static TOLD: AtomicI32 = AtomicI32::new(0);

/// The CUDA version of the driver, 1000 times the major plus 10 times the minor.
#[must_use]
pub fn driver_version() -> i32 {
    match TOLD.load(Ordering::Relaxed) {
        0 => keep(&TOLD, driver_version_for([])),
        told => told,
    }
}

/// Settles the version by the drivers of the GPUs among the program's devices, unless the program
/// has been told one before.
pub fn settle_driver_version(gpus: impl IntoIterator<Item = u32>) {
    if TOLD.load(Ordering::Relaxed) == 0 {
        keep(&TOLD, driver_version_for(gpus));
    }
}

/// The version for a program on GPUs with these drivers, or on CPUs if there are none.
#[must_use]
pub fn driver_version_for(gpus: impl IntoIterator<Item = u32>) -> i32 {
    let read = |name: &str| std::env::var_os(name).and_then(|text| version(&text));
    let known = gpus.into_iter().filter_map(|it| i32::try_from(it).ok());
    let lowest = known.filter(|it| *it > 0).chain(read(GPU_DRIVER)).min();
    chosen(read(SETTING), lowest)
}

/// The version by the setting and the lowest one of the GPUs' drivers.
fn chosen(setting: Option<i32>, gpus: Option<i32>) -> i32 {
    match (setting, gpus) {
        (Some(setting), Some(gpus)) => setting.min(gpus),
        (setting, gpus) => setting.or(gpus).unwrap_or(OWN),
    }
}

/// Keeps a version if there is none yet, and returns the one that is kept.
fn keep(told: &AtomicI32, version: i32) -> i32 {
    match told.compare_exchange(0, version, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => version,
        Err(before) => before,
    }
}

/// A version such as 12.4.
pub(crate) fn version(text: &OsStr) -> Option<i32> {
    let (major, minor) = text.to_str()?.split_once('.')?;
    let (major, minor) = (major.parse::<u8>().ok()?, minor.parse::<u8>().ok()?);
    let version = i32::from(major) * 1000 + i32::from(minor) * 10;
    (version >= OLDEST && minor < 100).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_with_a_dot() {
        let read = |text: &str| version(OsStr::new(text));
        assert_eq!(read("11.8"), Some(11_080));
        assert_eq!(read("13.0"), Some(13_000));
        assert_eq!(read("13.4"), Some(13_040));
        for wrong in ["10.2", "13", "13.4.1", "", "13.x", "13.100"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_gpus_own_version_is_only_lowered_and_a_cpus_is_what_the_setting_says() {
        assert_eq!(chosen(None, None), 13_000);
        assert_eq!(chosen(Some(13_040), None), 13_040);
        assert_eq!(chosen(Some(12_040), None), 12_040);
        assert_eq!(chosen(None, Some(12_080)), 12_080);
        assert_eq!(chosen(None, Some(13_020)), 13_020);
        assert_eq!(chosen(Some(12_040), Some(12_080)), 12_040);
        assert_eq!(chosen(Some(13_040), Some(12_080)), 12_080, "not raised");
    }

    #[test]
    fn the_lowest_of_several_drivers_counts_and_one_that_is_not_known_does_not() {
        // No other test of this crate sets the variables.
        assert_eq!(driver_version_for([]), 13_000);
        assert_eq!(driver_version_for([13_020, 12_080]), 12_080);
        assert_eq!(driver_version_for([13_020, 0]), 13_020);
    }

    #[test]
    fn the_first_version_that_is_told_holds() {
        let told = AtomicI32::new(0);
        assert_eq!(keep(&told, 12_080), 12_080);
        assert_eq!(keep(&told, 13_000), 12_080);
    }
}
