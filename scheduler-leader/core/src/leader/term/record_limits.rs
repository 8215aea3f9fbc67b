//! Bounds of a term's record, from the cluster's settings.

use bus_schemas::ClusterSettings;

use crate::time::Nanos;

/// Number of epochs among which the record is divided.
const EPOCHS: u64 = 8;
/// Maximum bytes of an epoch's inputs. A replay for an anchor must remember all of its grants until
/// the next epoch's seals say which of them stand.
const EPOCH_BYTES: u64 = 32 << 20;

/// The limits of the record in the cluster's settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLimits {
    /// Bytes that may wait to be recorded.
    pub(super) buffer: usize,
    /// Bytes of inputs at which an epoch ends.
    pub(super) bytes: u64,
    /// Age at which an epoch ends.
    pub(super) age: Nanos,
}

impl RecordLimits {
    /// The limits of the settings. An epoch is an eighth of what is kept, so that each cut removes
    /// an eighth too.
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
