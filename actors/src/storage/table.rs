//! The table of a cluster's streams and buckets: what is kept where, and how much of it.

use std::time::Duration;

use async_nats::jetstream::stream::StorageType;
use bus_schemas::limits;

const MIB: u64 = 1 << 20;
/// Bytes of the record stream where the cluster is not set to anything else.
pub const RECORD_BYTES: u64 = 8 << 30;
/// A kernel that ran nowhere for so long is forgotten.
const KERNEL_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the marker of an expired lease stays.
const MARKER: Duration = Duration::from_secs(10);
/// The key, beside the lease, of what whoever tends the broker says is wrong with its disk: in
/// memory, so that it can be said while nothing else can be written.
pub const FAULT: &str = "fault";

/// A stream or bucket of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stored {
    /// Bucket: who leads.
    Lease,
    /// Bucket: tenants, settings, profile, pin, placement.
    State,
    /// Stream: the leaders' inputs.
    Record,
    /// Stream: what tenants used.
    Usage,
    /// Bucket: what was measured of kernels.
    Kernels,
    /// Bucket: tokens and logins of controllers, and what devices did in the part of the record that was cut off.
    Control,
    /// Bucket: answers of controllers to requests with an idempotency key.
    Answers,
}

impl Stored {
    /// All there are, the most important first.
    pub const ALL: [Self; 7] = [
        Self::Lease,
        Self::State,
        Self::Usage,
        Self::Kernels,
        Self::Control,
        Self::Answers,
        Self::Record,
    ];
}

impl Stored {
    /// Bytes of a server's disk that it is to have at least; none of what is kept in memory.
    #[must_use]
    pub const fn least_bytes(self) -> u64 {
        let row = Row::of(self);
        match row.storage {
            StorageType::File => row.least,
            StorageType::Memory => 0,
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) storage: StorageType,
    /// Bytes it may hold.
    pub(super) bytes: u64,
    /// Bytes it may hold where the broker has no room for as many.
    pub(super) least: u64,
    /// Of a bucket: values kept of each key, their age, whether what expires leaves a marker.
    pub(super) bucket: Option<(i64, Duration, Option<Duration>)>,
}

impl Row {
    /// The table: the one place that says what is kept where, and how much of it.
    pub(super) const fn of(stored: Stored) -> Self {
        let (file, forever) = (StorageType::File, Duration::ZERO);
        match stored {
            Stored::Lease => Self {
                storage: StorageType::Memory,
                bytes: MIB,
                least: MIB,
                bucket: Some((1, forever, Some(MARKER))),
            },
            Stored::State => Self {
                storage: file,
                bytes: 128 * MIB,
                least: 8 * MIB,
                bucket: Some((limits::STATE_HISTORY, forever, None)),
            },
            Stored::Record => Self {
                storage: file,
                bytes: RECORD_BYTES,
                least: 4 * MIB,
                bucket: None,
            },
            Stored::Usage => Self {
                storage: file,
                bytes: 1024 * MIB,
                least: 4 * MIB,
                bucket: None,
            },
            Stored::Kernels => Self {
                storage: file,
                bytes: 64 * MIB,
                least: 4 * MIB,
                bucket: Some((1, KERNEL_AGE, None)),
            },
            Stored::Control => Self {
                storage: file,
                bytes: 12 * MIB,
                least: MIB,
                bucket: Some((1, forever, Some(MARKER))),
            },
            // Apart: answers, which clients cause, take no room of tokens and logins. Few, for on a small disk
            // the record has what is left.
            Stored::Answers => Self {
                storage: file,
                bytes: 4 * MIB,
                least: MIB,
                bucket: Some((1, forever, Some(MARKER))),
            },
        }
    }
}
