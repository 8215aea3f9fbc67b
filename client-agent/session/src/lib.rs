//! The client's shell around a session's outbox: a [`SessionChannel`] per session, one [`Driver`]
//! for all channels of a connection, and the [`Session`] that programs use.
//!
//! User threads append to a channel under a short lock and publish from their own thread. Messages
//! and timers are handled by one task per session beside the connection. A thread that waits for an
//! answer runs those tasks meanwhile. So a sync switches threads no more often than a bare request
//! does.
//!
//! There is no actor system here, and no telemetry library: the agent of `actors` adds both. The drop-in
//! `libcuda`, which runs inside the processes of other programs, has neither. In a cluster that traces, a channel
//! publishes reports of its requests, and the tracer exports them.

mod caller;
mod changes;
mod channel;
mod driver;
mod error;
mod module;
mod name;
mod observer;
mod open;
mod process;
mod program;
mod serve;
mod session;
mod signal;
mod version;
mod wait;

pub use caller::set_traceparent;
pub use changes::memory_changes;
pub use channel::{Answer, Reading, SessionChannel};
pub use driver::Driver;
pub use error::{ClientError, Result, refused};
pub use module::{Function, Images, LaunchOn, Module};
pub use name::{bus_id, gpu_uuid, uuid_text};
pub use observer::{Observer, Unobserved};
pub use open::{Opening, open};
pub use program::ProgramSettings;
pub use serve::serve;
pub use session::Session;
pub use signal::{block_signals, without_signals};
pub use version::{GPU_DRIVER, driver_version, driver_version_for, settle_driver_version};
pub use wait::{block_on, block_until};
