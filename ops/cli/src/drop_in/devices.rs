//! The devices that a program gets, by which its variables are chosen.

use bus_schemas::DeviceProperties;

/// The devices that a program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramDevices {
    /// Number of devices.
    pub count: u32,
    /// True if all are GPUs: libraries then send machine code, as with a local GPU.
    pub gpus: bool,
    /// The lowest version of the drivers of the GPUs that may be among them, as the driver API
    /// writes it. `None` if there is no GPU.
    pub driver: Option<u32>,
}

impl ProgramDevices {
    /// `count` devices that may be CPUs.
    #[must_use]
    pub const fn unknown(count: u32) -> Self {
        Self {
            count,
            gpus: false,
            driver: None,
        }
    }

    /// `count` devices, any of `candidates`.
    ///
    /// The leader chooses among them when the program opens its sessions, long after its variables
    /// are set. So one CPU, or one device of unknown kind, makes all of them CPUs: programs then
    /// send PTX, which a GPU compiles too, only more slowly. Machine code would fail on the CPU.
    #[must_use]
    pub fn among<'d>(
        count: u32,
        candidates: impl IntoIterator<Item = &'d DeviceProperties>,
    ) -> Self {
        let candidates: Vec<_> = candidates.into_iter().collect();
        Self {
            count,
            gpus: !candidates.is_empty() && candidates.iter().all(|it| it.is_gpu()),
            driver: candidates.iter().filter_map(|it| it.gpu_driver()).min(),
        }
    }

    /// The devices, taken for those that the setting `run.device` names: `cpu` or `gpu`. With
    /// `auto` they stay as they are.
    #[must_use]
    pub fn taken_for(self, setting: &str) -> Self {
        let gpus = match setting {
            "cpu" => false,
            "gpu" => true,
            _ => self.gpus,
        };
        Self { gpus, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if devices of these kinds are taken for GPUs.
    fn are_gpus(kinds: &[&str]) -> bool {
        let device = |kind: &&str| DeviceProperties {
            kind: (*kind).into(),
            ..DeviceProperties::default()
        };
        let devices: Vec<_> = kinds.iter().map(device).collect();
        ProgramDevices::among(2, &devices).gpus
    }

    #[test]
    fn one_device_that_may_be_a_cpu_makes_all_of_them_cpus() {
        assert!(are_gpus(&["cuda"]));
        assert!(are_gpus(&["cuda", "cuda"]));
        assert!(!are_gpus(&["cpu"]));
        assert!(!are_gpus(&["cuda", "cpu"]));
        assert!(!are_gpus(&["cpu", "cuda"]));
        assert!(!are_gpus(&["cuda", ""]), "an older worker does not say");
        assert!(!are_gpus(&[]), "there is none yet");
        assert!(!ProgramDevices::unknown(1).gpus);
    }

    #[test]
    fn the_lowest_driver_of_the_gpus_counts() {
        let lowest = |drivers: &[(&str, u32)]| {
            let device = |(kind, driver): &(&str, u32)| DeviceProperties {
                kind: (*kind).into(),
                driver: *driver,
                ..DeviceProperties::default()
            };
            let devices: Vec<_> = drivers.iter().map(device).collect();
            ProgramDevices::among(1, &devices).driver
        };
        assert_eq!(lowest(&[("cuda", 13_020), ("cuda", 12_080)]), Some(12_080));
        assert_eq!(lowest(&[("cuda", 13_020), ("cpu", 13_000)]), Some(13_020));
        assert_eq!(lowest(&[("cuda", 0)]), None, "an older worker does not say");
        assert_eq!(lowest(&[("cpu", 13_000)]), None);
    }

    #[test]
    fn the_setting_comes_before_what_the_cluster_says() {
        for gpus in [false, true] {
            let devices = ProgramDevices {
                gpus,
                ..ProgramDevices::unknown(2)
            };
            assert_eq!(devices.taken_for("auto"), devices);
            assert!(!devices.taken_for("cpu").gpus);
            assert!(devices.taken_for("gpu").gpus);
            assert_eq!(devices.taken_for("gpu").count, 2);
        }
    }
}
