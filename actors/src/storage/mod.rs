//! The table of all streams and buckets that a cluster keeps in its broker, each with a limit.
//!
//! A stream with a limit has its bytes reserved: the broker refuses to make another one that would
//! need them. So nothing here is without a limit, and what others need is not taken by the record.
//! The lease is kept in memory, in a bucket of its own: whatever becomes of the broker's disk, a
//! leader can be elected.

mod bounds;
mod copies;
mod device_days;
mod epochs;
mod refusals;
mod room;
mod store;
mod table;
mod weights;

pub use copies::{Copies, Copy};
pub use device_days::{EpochDays, StoredDay, stored_days};
pub use epochs::epochs;
pub(crate) use refusals::is_missing;
pub use store::Storage;
pub use table::{FAULT, RECORD_BYTES, Stored};
pub use weights::{Removed, TensorChunks, TensorReader, Weights, WeightsError, WeightsStore};
