//! Sessions of a device with their memory off it, or on its way.
//!
//! The [`SwapSpace`] has their bytes: in the host's memory, and in a file once that is full. A thread, the
//! *mover*, moves them, so that the device's thread never waits for a move. [`Away`] has the sessions
//! meanwhile, and keeps a device's contract about them (`device::Device::swap_out`). The device defines a
//! session's memory ([`Movable`]).

mod away;
mod config;
mod gate;
mod keep;
mod memory_tier;
mod movable;
mod mover;
mod progress;
mod reserve;
mod runs;
mod space;

pub use away::{Away, Returned};
pub use config::{SwapConfig, SwapFile};
pub use keep::Keep;
pub use movable::Movable;
pub use space::{SwapSpace, SwappedBytes};
