//! Failures as the CUDA errors that a program expects.

use crate::error::{Fault, FaultKind, LaunchError, MemoryError};
use bus_schemas::{Code, Failure};

pub(super) fn memory_failure(error: MemoryError) -> Failure {
    let code = match error {
        MemoryError::IllegalAddress { .. } => Code::IllegalAddress,
        MemoryError::Misaligned(_) | MemoryError::Width(_) => Code::BadAddress,
        MemoryError::Occupied { .. } | MemoryError::NotAllocated(_) => Code::BadAddress,
        MemoryError::OutOfMemory(_) => Code::OutOfMemory,
    };
    Failure::new(code, error.to_string())
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        memory_failure(error)
    }
}

pub(super) fn fault_failure(fault: &Fault) -> Failure {
    let code = match fault.kind {
        FaultKind::IllegalAddress => Code::IllegalAddress,
        FaultKind::Misaligned => Code::Misaligned,
        FaultKind::IllegalInstruction => Code::IllegalInstruction,
        FaultKind::Trap => Code::Trap,
        FaultKind::Assert => Code::Assert,
        FaultKind::Timeout => Code::Watchdog,
        FaultKind::StackOverflow => Code::StackOverflow,
    };
    Failure::new(code, fault.to_string())
}

/// The failure of a feature that only GPUs from Hopper on support.
pub(super) fn hopper() -> Failure {
    let detail = "clusters and tensor maps run on GPUs of compute capability 9.0 and later, not on a CPU worker";
    Failure::new(Code::BadLaunch, detail)
}

pub(super) fn launch_failure(error: LaunchError) -> Failure {
    let code = match &error {
        LaunchError::UnknownEntry(_) => Code::UnknownFunction,
        LaunchError::Grid(_) | LaunchError::Block(_) | LaunchError::Params { .. } => {
            Code::BadLaunch
        }
        LaunchError::BlockLimit { .. } | LaunchError::Shared(..) => Code::LaunchResources,
        LaunchError::BlockMemory { .. } => Code::OutOfMemory,
        LaunchError::Fault(fault) => return fault_failure(fault),
    };
    Failure::new(code, error.to_string())
}
