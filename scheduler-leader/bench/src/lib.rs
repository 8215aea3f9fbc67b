//! Loads to measure the leader's cores; the caller brings the clock. No part of the product depends
//! on this crate.
//!
//! * [`Load`]: the scheduler alone, with sessions that have endless work.
//! * [`Fleet`]: the whole protocol core, with modelled GPUs and clients.

mod exchange;
mod fleet;
mod load;
mod models;

pub use fleet::Fleet;
pub use load::Load;
