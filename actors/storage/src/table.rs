//! The table of a cluster's streams and buckets: their contents, storage and size.

use std::time::Duration;

use async_nats::jetstream::stream::StorageType;
use bus_schemas::limits;

const MIB: u64 = 1 << 20;
/// Bytes of the record stream, unless the cluster sets another number.
pub const RECORD_BYTES: u64 = 8 << 30;
/// Time after which an unused kernel is forgotten.
const KERNEL_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time that the marker of an expired lease stays.
const MARKER: Duration = Duration::from_secs(10);
/// Key, beside the lease, of the disk fault that the broker's operator reports. It is in memory, so
/// that it can be written when nothing else can.
pub const FAULT: &str = "fault";

/// A stream or bucket of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stored {
    /// Bucket: the lease.
    Lease,
    /// Bucket: tenants, settings, profile, pin, placement.
    State,
    /// Stream: the leaders' inputs.
    Record,
    /// Stream: usage by tenants.
    Usage,
    /// Bucket: measurements of kernels.
    Kernels,
    /// Bucket: tokens and logins of controllers, and the activity of devices in the part of the
    /// record that was cut off.
    Control,
    /// Bucket: controllers' answers to requests with an idempotency key.
    Answers,
    /// Stream: programs' reports of their requests, until the tracer has exported them. Only a tracer makes it.
    Requests,
}

impl Stored {
    /// All streams and buckets, most important first.
    pub const ALL: [Self; 8] = [
        Self::Lease,
        Self::State,
        Self::Usage,
        Self::Kernels,
        Self::Control,
        Self::Answers,
        Self::Requests,
        Self::Record,
    ];
}

impl Stored {
    /// Returns the least bytes that it needs of a server's disk; 0 if it is kept in memory.
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
    /// Maximum bytes.
    pub(super) bytes: u64,
    /// Maximum bytes if the broker has no room for `bytes`.
    pub(super) least: u64,
    /// For a bucket: values kept of each key, their age, and the lifetime of markers of expired
    /// values.
    pub(super) bucket: Option<(i64, Duration, Option<Duration>)>,
}

impl Row {
    /// The table: the only place that defines storage and size of each.
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
            // Separate, so that answers, which clients cause, take no room from tokens and logins.
            // Small, because on a small disk the record gets what is left.
            Stored::Answers => Self {
                storage: file,
                bytes: 4 * MIB,
                least: MIB,
                bucket: Some((1, forever, Some(MARKER))),
            },
            Stored::Requests => Self {
                storage: file,
                bytes: 64 * MIB,
                least: MIB,
                bucket: None,
            },
        }
    }
}
