//! A span as the shells know it, finished.

use std::time::Instant;

use bus_schemas::{Epoch, GpuId, GpuPosition, SessionId};

use crate::context::{SpanId, TraceContext};

/// What a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanName {
    /// Client: from the first op after the previous sync to the sync's answer.
    Request,
    /// Leader: from an intent's arrival to the grant of its last op.
    Queue,
    /// Worker: from the start of a slice's first op to the end of its last.
    Execute,
    /// Worker: while a session's memory came back to the device, of the first op that waited for it.
    Swap,
}

impl SpanName {
    /// The name in traces.
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

/// A finished span. What is `None` or 0 does not apply and is left out.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// What it is about.
    pub name: SpanName,
    /// The span itself.
    pub context: TraceContext,
    /// Its parent.
    pub parent: Option<SpanId>,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Whose it is.
    pub tenant: &'a str,
    /// The session.
    pub session: SessionId,
    /// The device.
    pub gpu: Option<GpuId>,
    /// The epoch of its last grant.
    pub epoch: Epoch,
    /// The gpu position of its last grant.
    pub position: GpuPosition,
    /// Ops.
    pub ops: u64,
    /// Launches among them.
    pub launches: u64,
    /// Measured device nanoseconds.
    pub device_ns: u64,
    /// The code of the error it ended with.
    pub error: Option<&'a str>,
}
