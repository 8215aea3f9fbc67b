//! Processes of the tenant on this machine, as their clients named them.

use super::Known;
use crate::abi::{Handle, Out, OutList};
use crate::guard::api;
use crate::layout::{ProcessSample, ProcessV1, ProcessV2};
use crate::snapshot::{ProcessState, percent};
use crate::status::{Result, Status};

/// Means that a process is not bound to a part of a device.
const NO_INSTANCE: u32 = u32::MAX;

/// Converts each process of the tenant on this machine with `told`.
fn list<T>(known: &Known, told: impl Fn(&ProcessState) -> T) -> Result<Vec<T>> {
    let here = known.device()?.processes_on(&known.0.viewer.host);
    Ok(here.map(told).collect())
}

fn first(process: &ProcessState) -> ProcessV1 {
    ProcessV1 {
        pid: process.pid,
        used: process.held,
    }
}

fn second(process: &ProcessState) -> ProcessV2 {
    ProcessV2 {
        pid: process.pid,
        used: process.held,
        gpu_instance: NO_INSTANCE,
        compute_instance: NO_INSTANCE,
    }
}

/// Answers with no processes: none uses graphics, or NVIDIA's own service for sharing.
fn none<T: Copy>(handle: Handle, count: &Out<'_, u32>, list: &OutList<'_, T>) -> Result {
    count.check()?;
    Known::of(handle)?;
    list.put(count, &[])
}

api! {
    fn nvmlDeviceGetComputeRunningProcesses_v3(handle: Handle, count: Out<'_, u32>, to: OutList<'_, ProcessV2>)
        also nvmlDeviceGetComputeRunningProcesses_v2 {
        count.check()?;
        to.put(&count, &list(&Known::now(handle)?, second)?)
    }

    fn nvmlDeviceGetComputeRunningProcesses(handle: Handle, count: Out<'_, u32>, to: OutList<'_, ProcessV1>) {
        count.check()?;
        to.put(&count, &list(&Known::now(handle)?, first)?)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(handle: Handle, count: Out<'_, u32>, to: OutList<'_, ProcessV2>)
        also nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3,
            nvmlDeviceGetMPSComputeRunningProcesses_v2 {
        none(handle, &count, &to)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(handle: Handle, count: Out<'_, u32>, to: OutList<'_, ProcessV1>)
        also nvmlDeviceGetMPSComputeRunningProcesses {
        none(handle, &count, &to)
    }

    fn nvmlDeviceGetProcessUtilization(
        handle: Handle,
        to: OutList<'_, ProcessSample>,
        count: Out<'_, u32>,
        seen: u64,
    ) {
        count.check()?;
        let known = Known::now(handle)?;
        let time = known.0.taken;
        let samples = list(&known, |process| ProcessSample {
            pid: process.pid,
            time,
            sm: percent(process.busy_ppm),
            memory: 0,
            encoder: 0,
            decoder: 0,
        })?;
        if samples.is_empty() || time <= seen {
            return Err(Status::NOT_FOUND);
        }
        to.put(&count, &samples)
    }
}
