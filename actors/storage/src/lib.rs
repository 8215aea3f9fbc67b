//! The table of all streams and buckets that a cluster keeps in its broker, each with a limit.
//!
//! A limit reserves a stream's bytes: the broker refuses to create another stream that would need
//! them. So everything here has a limit, and the record cannot take the room of the others. The
//! lease is kept in memory, in a bucket of its own, so that a leader can be elected even if the
//! broker's disk fails.

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
pub use refusals::is_missing;
pub use store::Storage;
pub use table::{FAULT, RECORD_BYTES, Stored};
pub use weights::{Removed, StoredWeights, TensorChunks, TensorReader, WeightsError, WeightsStore};
