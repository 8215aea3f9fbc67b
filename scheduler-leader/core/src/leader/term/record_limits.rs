//! Bounds of a term's record, from the cluster's settings.

use bus_schemas::ClusterSettings;

use crate::time::Nanos;

/// Epochs that the record is kept in.
const EPOCHS: u64 = 8;
/// Bytes of an epoch's inputs at most: whoever replays it for an anchor has to remember all of its
/// grants until the next epoch's seals say which of them stand.
const EPOCH_BYTES: u64 = 32 << 20;

/// What the cluster's settings say of the record.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLimits {
    /// Bytes that may wait to be recorded.
    pub(super) buffer: usize,
    /// An epoch ends when its inputs are of so many bytes.
    pub(super) bytes: u64,
    /// An epoch ends when it is so old.
    pub(super) age: Nanos,
}

impl RecordLimits {
    /// As the settings say. An epoch is an eighth of what is kept, so that what is cut off at a
    /// time is, too.
    pub(super) fn of(settings: &ClusterSettings) -> Self {
        const SECOND: u64 = 1_000_000_000;
        Self {
            buffer: usize::try_from(settings.record_buffer).unwrap_or(usize::MAX),
            bytes: (settings.record_max_bytes / EPOCHS).min(EPOCH_BYTES),
            age: (settings.record_max_age_s / EPOCHS)
                .max(1)
                .saturating_mul(SECOND),
        }
    }
}
