//! One session as all threads of its program share it, in the order of a launch's way: ops leave through
//! [`outbound`], what comes back arrives through [`inbound`], and whoever waits finds it in [`answer`].

mod answer;
mod inbound;
mod ipc;
mod maps;
mod memory;
mod offers;
mod outbound;
mod places;
mod progress;
mod state;

pub use answer::{Answer, Reading};
pub use outbound::SessionChannel;
