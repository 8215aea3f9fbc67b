//! The device of a worker: its settings, and what makes it.

use std::time::Duration;

use actors::worker::MakeDevice;
use bus_schemas::Failure;
use device::Device;
use device_cpu::{CpuConfig, CpuDevice, DeviceModel, Isa};
use device_cuda::CudaDevice;

use crate::choice::{DeviceChoice, EngineChoice};

/// Memory kept free on a GPU if nothing is set.
const GPU_RESERVE: u64 = 2 << 30;

/// How a worker's device is set.
#[derive(Debug, Clone)]
pub struct DeviceSettings {
    /// Which device.
    pub choice: DeviceChoice,
    /// Memory that sessions may have together, bytes; by default what the device has.
    pub capacity: Option<u64>,
    /// Memory kept free, bytes; by default 2 GiB on a GPU and none on a CPU.
    pub reserve: Option<u64>,
    /// Threads of the CPU device; 0 is one per core.
    pub threads: usize,
    /// A kernel that runs longer on the CPU device is ended.
    pub watchdog: Duration,
    /// What runs kernels on the CPU device.
    pub engine: EngineChoice,
    /// What a CPU device says of itself.
    pub model: DeviceModel,
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
        }
    }
}

impl DeviceSettings {
    /// What makes the device, on the thread that will own it.
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
                Some(gpu) => Box::new(gpu) as Box<dyn Device>,
                None => Box::new(self.cpu().usable()?),
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

/// A GPU that was asked for is not there.
fn needed(failure: Failure) -> Failure {
    let advice = "worker.device is cuda; with auto or cpu the CPU serves";
    Failure::new(failure.code, format!("{}; {advice}", failure.detail))
}
