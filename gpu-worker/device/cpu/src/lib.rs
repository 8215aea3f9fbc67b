//! PTX on the CPU: a warp-vector engine that runs one decoded instruction for 32 lanes at once.
//!
//! [`Program::build`] decodes a module; [`Instance::new`] places its variables in a session's
//! [`Memory`]. [`Engine::launch`] runs an entry of it, or [`Engine::start`] makes a [`Running`]
//! that stops and resumes between instructions. [`CpuDevice`] is all of it as a worker's device.

mod decode;
mod device;
mod engine;
mod error;
mod lane_loop;
mod lane_value;
mod memory;
#[cfg(all(target_arch = "x86_64", unix))]
mod native;
mod ops;
mod shared;
mod watched;

pub use device::{CpuConfig, CpuDevice, DeviceModel};
pub use engine::{
    BlockOrder, Engine, EngineConfig, Grid, Instance, Program, Progress, Running, Stats,
};
pub use error::{BuildError, Fault, FaultKind, LaunchError, MemoryError};
pub use lane_loop::Isa;
pub use memory::Memory;
