//! Connections of a listener that strangers reach. Each address has a share of them, a connection that waits
//! for its other end gives way to a new one, and a write that makes no progress ends its connection.

mod activity;
mod origin;
mod places;
mod timed;

pub use activity::Answering;
pub use origin::Origin;
pub use places::{Bounds, Place, Places};
pub use timed::Timed;
