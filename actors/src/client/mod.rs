//! The client's agent: an [`Agent`] per process (its actor, its connection) and the telemetry of
//! each session's requests. Sessions are channels ([`client_session::SessionChannel`]): tasks
//! beside the connection and not actors, which cannot change threads. The agent's actor handles all
//! that is not on a launch's path: opening, signs of life, new leaders.

mod agent;
mod evidence;
mod request;
mod settings;

pub use agent::Agent;
pub use settings::ClientSettings;
