//! The actix shells of Warploom: one actor per role, speaking over NATS.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "leader")]
pub mod leader;
#[cfg(feature = "telemetry")]
pub mod telemetry;
#[cfg(feature = "worker")]
pub mod worker;
