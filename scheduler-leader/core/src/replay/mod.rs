//! The replay: the launch order, computed again from the record.

mod anchor;
mod anchoring;
mod chains;
mod changes;
mod costs;
mod error;
mod explaining;
mod failures;
mod launches;
mod recompute;
mod replayed;
mod reports;
mod stop;
mod stream;
mod unrecorded_use;

pub use crate::leader::Gap;
pub use anchor::{Anchor, Anchored};
pub use anchoring::beginning;
pub use changes::{Change, ReplayedChange};
pub use error::ReplayError;
pub use failures::ReplayedFailure;
pub use recompute::{Replay, replay};
pub use replayed::{End, Fate, Hole, Replayed, ReplayedPosition, Tail};
pub use reports::{ReportedWork, UnrecordedUse};
pub use stop::{Stop, StopError, Stopped, replay_until};
pub use unrecorded_use::unrecorded_use;
