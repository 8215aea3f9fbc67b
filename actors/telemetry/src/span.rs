//! A finished span, as the shells know it.

use std::time::Instant;

use bus_schemas::{Epoch, GpuId, GpuPosition, SessionId};

use crate::context::{SpanId, TraceContext};

/// The subject of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanName {
    /// Client: from the first op after the previous sync to the sync's answer.
    Request,
    /// Leader: from an intent's arrival to the grant of its last op.
    Queue,
    /// Worker: from the start of a slice's first op to the end of its last.
    Execute,
    /// Worker: the return of a session's memory to the device, for the first op that waited for it.
    Swap,
}

impl SpanName {
    /// Returns the name in traces.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Queue => "queue",
            Self::Execute => "execute",
            Self::Swap => "swap",
        }
    }
}

/// A finished span. Fields that are `None` or 0 do not apply and are left out.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// The subject.
    pub name: SpanName,
    /// The span itself.
    pub context: TraceContext,
    /// Its parent.
    pub parent: Option<SpanId>,
    /// Start of the span.
    pub start: Instant,
    /// End of the span.
    pub end: Instant,
    /// The tenant.
    pub tenant: &'a str,
    /// The session.
    pub session: SessionId,
    /// The device.
    pub gpu: Option<GpuId>,
    /// The epoch of its last grant.
    pub epoch: Epoch,
    /// The gpu position of its last grant.
    pub position: GpuPosition,
    /// Number of ops.
    pub ops: u64,
    /// Number of launches among them.
    pub launches: u64,
    /// Measured device nanoseconds.
    pub device_ns: u64,
    /// The code of the error that ended it.
    pub error: Option<&'a str>,
}
