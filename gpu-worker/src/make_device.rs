//! The device of a worker: its settings, and its construction.

use std::path::PathBuf;
use std::time::Duration;

use actors::worker::MakeDevice;
use bus_schemas::{Code, Failure};
use device::Device;
use device_cpu::{CpuConfig, CpuDevice, DeviceModel, Isa};
use device_cuda::CudaDevice;
use device_swap::{SwapConfig, SwapFile, SwapSpace};

use crate::choice::{DeviceChoice, EngineChoice};

/// Memory kept free on a GPU by default.
const GPU_RESERVE: u64 = 2 << 30;

/// The settings of a worker's device.
#[derive(Debug, Clone)]
pub struct DeviceSettings {
    /// The device to use.
    pub choice: DeviceChoice,
    /// Memory that sessions may have together, bytes; by default all that the device has.
    pub capacity: Option<u64>,
    /// Memory kept free, bytes; by default 2 GiB on a GPU and none on a CPU.
    pub reserve: Option<u64>,
    /// Number of threads of the CPU device; 0 stands for one per core.
    pub threads: usize,
    /// Time after which the CPU device ends a kernel.
    pub watchdog: Duration,
    /// The engine for kernels on the CPU device.
    pub engine: EngineChoice,
    /// Properties that a CPU device reports.
    pub model: DeviceModel,
    /// Room for sessions' memory that is not on the device.
    pub swap: SwapSettings,
}

/// Room for sessions' memory that is not on the device. By default there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwapSettings {
    /// Memory that sessions may hold together, in percent of the memory that fits on the device. 100 and less
    /// means no more than fits.
    pub overcommit: u32,
    /// Bytes of the host's memory. By default as many as sessions may hold together, if that is more than
    /// fits on the device.
    pub memory: Option<u64>,
    /// Bytes of a file, for memory that exceeds the host's part. They are reserved when the worker starts.
    pub file: u64,
    /// The directory of that file.
    pub dir: Option<PathBuf>,
}

impl SwapSettings {
    /// Creates the room for a device of this capacity, if any is asked for.
    fn space(&self, capacity: u64) -> Result<Option<SwapSpace>, Failure> {
        let file = match (self.file, &self.dir) {
            (0, _) => None,
            (bytes, Some(dir)) => Some(SwapFile {
                dir: dir.clone(),
                bytes,
            }),
            (bytes, None) => {
                let detail = format!(
                    "a swap file of {bytes} bytes needs a directory: name one on a disk with as much room"
                );
                return Err(Failure::new(Code::BadSettings, detail));
            }
        };
        let together = device::overcommitted(capacity, self.overcommit);
        let usual = if self.overcommit > 100 { together } else { 0 };
        let memory = self.memory.unwrap_or(usual);
        SwapSpace::new(&SwapConfig { memory, file })
    }
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self {
            choice: DeviceChoice::Auto,
            capacity: None,
            reserve: None,
            threads: 1,
            watchdog: Duration::from_secs(30),
            engine: EngineChoice::Native,
            model: DeviceModel::default(),
            swap: SwapSettings::default(),
        }
    }
}

impl DeviceSettings {
    /// Returns the function that makes the device, on the thread that will own it.
    pub(crate) fn maker(self) -> MakeDevice {
        Box::new(move || {
            let gpu = match self.choice {
                DeviceChoice::Cuda => Some(self.gpu().map_err(needed)?),
                DeviceChoice::Auto if device_cuda::is_present() => match self.gpu() {
                    Ok(gpu) => Some(gpu),
                    Err(failure) => {
                        tracing::warn!(%failure, "the GPU cannot be opened; the CPU serves instead");
                        None
                    }
                },
                DeviceChoice::Auto if device_cuda::is_drop_in() => {
                    tracing::warn!("libcuda here is Warploom's own drop-in; the CPU serves");
                    None
                }
                DeviceChoice::Auto | DeviceChoice::Cpu => None,
            };
            Ok(match gpu {
                Some(gpu) => {
                    let space = self.swap.space(gpu.info().capacity)?;
                    Box::new(gpu.swapping(space)) as Box<dyn Device>
                }
                None => {
                    let cpu = self.cpu().usable()?;
                    let space = self.swap.space(cpu.info().capacity)?;
                    Box::new(cpu.swapping(space))
                }
            })
        })
    }

    fn gpu(&self) -> Result<CudaDevice, Failure> {
        CudaDevice::open(0, self.capacity, self.reserve.unwrap_or(GPU_RESERVE))
    }

    fn cpu(&self) -> CpuDevice {
        let usual = CpuConfig::default();
        let capacity = self.capacity.unwrap_or(usual.capacity);
        CpuDevice::new(CpuConfig {
            threads: if self.threads == 0 {
                usual.threads
            } else {
                self.threads
            },
            capacity: capacity.saturating_sub(self.reserve.unwrap_or(0)),
            watchdog: self.watchdog,
            isa: match self.engine {
                EngineChoice::Native => usual.isa,
                EngineChoice::Interpreter => Isa::Avx2,
            },
            model: self.model,
        })
    }
}

/// Adds advice to the failure of a GPU that was required.
fn needed(failure: Failure) -> Failure {
    let advice = "worker.device is cuda; with auto or cpu the CPU serves";
    Failure::new(failure.code, format!("{}; {advice}", failure.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(swap: SwapSettings) -> Result<Box<dyn Device>, Failure> {
        let settings = DeviceSettings {
            choice: DeviceChoice::Cpu,
            capacity: Some(1 << 24),
            swap,
            ..DeviceSettings::default()
        };
        settings.maker()()
    }

    #[test]
    fn a_device_has_the_swap_space_that_is_asked_for() {
        let none = made(SwapSettings::default()).expect("usable");
        assert_eq!(none.swap_use(), None);
        let both = made(SwapSettings {
            memory: Some(1 << 20),
            file: 1 << 21,
            dir: Some(std::env::temp_dir()),
            overcommit: 100,
        });
        let room = both.expect("usable").swap_use().expect("a swap space");
        assert_eq!((room.memory, room.file), ((0, 1 << 20), (0, 1 << 21)));
        let overcommit = 150;
        let usual = SwapSettings::default();
        let half_more = made(SwapSettings {
            overcommit,
            ..usual
        });
        let room = half_more.expect("usable").swap_use().expect("a swap space");
        assert_eq!((room.memory.1, room.file.1), ((1 << 23) * 3, 0));
    }

    #[test]
    fn a_swap_file_without_room_refuses_the_worker() {
        let refused = |file, dir| {
            let usual = SwapSettings::default();
            let made = made(SwapSettings { file, dir, ..usual });
            made.err().expect("no such room").detail
        };
        let detail = refused(1 << 50, Some(std::env::temp_dir()));
        assert!(detail.contains("1125899906842624 bytes"), "{detail}");
        let detail = refused(4_096, None);
        assert!(detail.contains("needs a directory"), "{detail}");
    }
}
