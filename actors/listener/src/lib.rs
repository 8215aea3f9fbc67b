//! Connections of a listener that strangers can reach. Each address has a bounded share of them. A
//! connection that waits for its peer gives way to a new one. A write that makes no progress ends
//! its connection.

mod activity;
mod origin;
mod places;
mod timed;

pub use activity::Answering;
pub use origin::Origin;
pub use places::{Bounds, ConnectionPlace, Places};
pub use timed::Timed;
