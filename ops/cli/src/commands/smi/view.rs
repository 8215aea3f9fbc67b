//! The view of `warploom smi`: the tenant's devices, numbered, with their processes.

use admin::errors::UsageError;
use nvml::{DeviceState, ProcessState, Viewer, arranged, driver_version_for};

/// A device with its number.
#[derive(Debug)]
pub(super) struct Shown {
    /// Its number in this list.
    pub(super) index: usize,
    pub(super) device: DeviceState,
    pub(super) processes: Vec<ProcessState>,
}

/// All devices by their number in the cluster, with all the tenant's processes.
pub(super) fn all(mut devices: Vec<DeviceState>) -> Vec<Shown> {
    devices.sort_by_key(|device| device.gpu);
    numbered(devices, |_| true)
}

/// The devices with the numbers that the viewer's program sees, at most `most`. Only processes on
/// the viewer's host are included.
pub(super) fn of_program(devices: Vec<DeviceState>, viewer: &Viewer, most: usize) -> Vec<Shown> {
    let devices = arranged(devices, viewer, most);
    numbered(devices, |process| process.host == viewer.host)
}

fn numbered(devices: Vec<DeviceState>, told: impl Fn(&ProcessState) -> bool) -> Vec<Shown> {
    let shown = devices.into_iter().enumerate().map(|(index, device)| {
        let processes = device.processes.iter().filter(|it| told(it)).cloned();
        Shown {
            index,
            processes: processes.collect(),
            device,
        }
    });
    shown.collect()
}

/// The version of CUDA that programs on these devices are told.
pub(super) fn cuda_version(shown: &[Shown]) -> String {
    let devices = shown.iter().map(|it| &it.device.properties);
    let version = driver_version_for(devices.filter_map(|it| it.gpu_driver()));
    format!("{}.{}", version / 1_000, version % 1_000 / 10)
}

/// Keeps the devices of these names: an index, a UUID, a place on the bus.
///
/// # Errors
/// [`UsageError`] for a name that no device has.
pub(super) fn chosen(shown: Vec<Shown>, names: &[String]) -> Result<Vec<Shown>, UsageError> {
    if names.is_empty() {
        return Ok(shown);
    }
    let is = |it: &Shown, name: &str| match name.parse::<usize>() {
        Ok(index) => it.index == index,
        Err(_) => {
            let place = it.device.bus_id();
            let name = name.to_ascii_lowercase();
            it.device.uuid().to_ascii_lowercase() == name
                || place == name
                || format!("0000{place}") == name
        }
    };
    for name in names {
        if !shown.iter().any(|it| is(it, name.trim())) {
            let count = shown.len();
            return Err(UsageError(format!(
                "--id {name:?} is no device's index, UUID or PCI bus id; there are {count} \
                 (`warploom smi -L` lists them)"
            )));
        }
    }
    let kept = |it: &Shown| names.iter().any(|name| is(it, name.trim()));
    Ok(shown.into_iter().filter(kept).collect())
}
