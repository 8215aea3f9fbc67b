//! Sessions of a device whose memory is not on it, or is on its way.
//!
//! The [`SwapSpace`] has their bytes: in the host's memory, and in a file once that is full. A thread,
//! the *mover*, carries them there and back, so that the device's thread never waits for a move. [`Away`]
//! has the sessions meanwhile, and does for a device what its contract says of them
//! (`device::Device::swap_out`); what a session's memory is, the device says ([`Movable`]).

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
pub use space::{Stored, SwapSpace};
