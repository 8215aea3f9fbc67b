//! One session, shared by all threads of its program, in the order of a launch's path. Ops leave
//! through [`outbound`], messages arrive through [`inbound`], and waiting threads get their results
//! from [`answer`].

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
