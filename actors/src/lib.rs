//! The actix shells of Warploom: one actor per role, speaking over NATS.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "leader")]
pub mod leader;
#[cfg(any(feature = "leader", feature = "worker"))]
mod publisher;
#[cfg(any(feature = "leader", feature = "worker"))]
mod repeated;
#[cfg(any(feature = "leader", feature = "worker"))]
pub mod storage;
#[cfg(any(feature = "leader", feature = "worker"))]
mod stream;
#[cfg(feature = "telemetry")]
pub mod telemetry;
#[cfg(all(test, any(feature = "leader", feature = "worker")))]
mod testing;
#[cfg(any(feature = "leader", feature = "worker"))]
mod timer;
#[cfg(feature = "worker")]
pub mod worker;
