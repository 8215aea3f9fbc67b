//! The client's agent: an [`Agent`] per process (its actor, its connection) and the telemetry of
//! each session's requests. The sessions themselves are channels
//! ([`client_session::SessionChannel`]), tasks beside the connection and not actors, which cannot change
//! threads; what is not on a launch's way (opening, signs of life, new leaders) is the agent's actor's.

mod agent;
mod evidence;
mod request;
mod settings;

pub use agent::Agent;
pub use settings::ClientSettings;
