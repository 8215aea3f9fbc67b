//! The client's shell: an [`Agent`] per process (its actor, its connection), a [`Line`] per
//! session.
//!
//! User threads append to a line under a short lock and publish from where they are. What is
//! heard, and every timer, is the business of one task per session beside the connection, and
//! whoever waits for an answer runs those tasks meanwhile: a sync changes threads no more often
//! than a bare request does. That is why sessions are tasks and not actors, which cannot change
//! threads; what is not on a launch's way (opening, signs of life, reigns) is the agent's actor's.

mod agent;
mod driver;
mod error;
mod evidence;
mod line;
mod publish;
mod request;
mod session;
mod wait;

pub use agent::{Agent, AgentSettings};
pub use error::ClientError;
pub use line::{Answer, Line};
pub use wait::block_on;
