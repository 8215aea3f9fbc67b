//! Recomputes the launch order from the record.

mod accounting;
mod anchor;
mod anchoring;
mod chains;
mod error;
mod launches;
mod recompute;
mod replayed;
mod reports;
mod stop;
mod stream;

pub use crate::leader::Gap;
pub use accounting::unaccounted;
pub use anchor::{Anchor, Anchored};
pub use anchoring::beginning;
pub use error::ReplayError;
pub use recompute::{Replay, replay};
pub use replayed::{End, Fate, Hole, Position, Replayed, Tail};
pub use reports::{ReportedWork, Unaccounted};
pub use stop::{Stop, StopError, Stopped, replay_until};
