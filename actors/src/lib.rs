//! The actix shells of Warploom: one actor per role, speaking over NATS.

pub mod client;
mod host_clock;
mod inbox;
pub mod leader;
mod publisher;
mod repeated;
mod stream;
#[cfg(test)]
mod testing;
mod timer;
pub mod worker;
