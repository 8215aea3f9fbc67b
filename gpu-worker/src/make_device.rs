//! The device of a worker, made as its settings say.

use actors::worker::MakeDevice;
use bus_schemas::Failure;
use device::Device;
use device_cpu::{CpuConfig, CpuDevice, Isa, Model};
use device_cuda::CudaDevice;

use crate::choice::{DeviceChoice, EngineChoice};
use crate::settings::WorkerSettings;

/// Memory kept free on a GPU if nothing is set.
const GPU_RESERVE: u64 = 2 << 30;

/// What makes the chosen device, on the thread that will own it.
pub(crate) fn maker(settings: &WorkerSettings) -> MakeDevice {
    let (choice, ordinal) = (settings.device, settings.ordinal);
    let (capacity, reserve) = (settings.capacity, settings.reserve);
    let (threads, watchdog) = (settings.threads, settings.watchdog);
    let (engine, model) = (settings.engine, settings.model);
    Box::new(move || {
        let gpu = || CudaDevice::open(ordinal, capacity, reserve.unwrap_or(GPU_RESERVE));
        let gpu = match choice {
            DeviceChoice::Cuda => Some(gpu().map_err(needed)?),
            DeviceChoice::Auto if device_cuda::is_present() => match gpu() {
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
        match gpu {
            Some(gpu) => Ok(Box::new(gpu) as Box<dyn Device>),
            None => Ok(cpu(threads, capacity, reserve, watchdog, (engine, model))),
        }
    })
}

/// A GPU that was asked for is not there.
fn needed(failure: Failure) -> Failure {
    let advice = "worker.device is cuda; with auto or cpu the CPU serves";
    Failure::new(failure.code, format!("{}; {advice}", failure.detail))
}

fn cpu(
    threads: usize,
    capacity: Option<u64>,
    reserve: Option<u64>,
    watchdog: std::time::Duration,
    (engine, model): (EngineChoice, Model),
) -> Box<dyn Device> {
    let usual = CpuConfig::default();
    let capacity = capacity.unwrap_or(usual.capacity);
    Box::new(CpuDevice::new(CpuConfig {
        threads: if threads == 0 { usual.threads } else { threads },
        capacity: capacity.saturating_sub(reserve.unwrap_or(0)),
        watchdog,
        isa: match engine {
            EngineChoice::Native => usual.isa,
            EngineChoice::Interpreter => Isa::Avx2,
        },
        model,
    }))
}
