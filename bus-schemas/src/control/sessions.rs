//! Sessions as known to a leader: its answer to administrators, exact at the time of the request.
//! Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::codec::message::Message;
use crate::id::{GpuId, Incarnation, SessionId, Tenant};

/// Administrator to leader, a request for the sessions and the reason that each waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionsRequest {
    /// Wire version.
    pub v: u16,
    /// Only sessions with higher ids: the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SessionId>,
    /// Only this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Only sessions of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// Only sessions on this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuId>,
}

impl Message for SessionsRequest {
    const ARRAY: bool = false;
}

/// The leader's answer to a [`SessionsRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Wire version.
    pub v: u16,
    /// Sessions by id, at most [`crate::limits::SESSION_ROWS`].
    #[serde(with = "rows")]
    pub sessions: Vec<SessionStatus>,
    /// True if there are more: ask again with the last id in `after`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// True if the leader has just taken over and may not know all sessions yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

impl Message for Sessions {
    const ARRAY: bool = false;
}

/// The reason that a session's next work is not granted, as far as the leader knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionWait {
    /// None: all announced work is granted and not done yet, or runs as it arrives.
    #[default]
    Nothing,
    /// The session's own program: nothing is queued, granted or running.
    Program,
    /// Other sessions are before it.
    Order,
    /// The session is next, and the device's window is full.
    Window,
    /// The tenant's cap.
    Cap,
    /// The tenant's bound on work that is granted and not done.
    Bound,
    /// The target of a tenant of higher priority: the session's next slice is too long for it.
    Target,
    /// The session's memory is swapped out.
    Memory,
    /// The tenant is suspended.
    Suspended,
    /// All grants are held back.
    Hold,
    /// The worker has not received the queued ops yet.
    Worker,
    /// The session is being closed.
    Closing,
    /// A reason that only a newer leader knows.
    Unknown,
}

impl SessionWait {
    /// All reasons, each at the index of its number.
    pub const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Program,
        Self::Order,
        Self::Window,
        Self::Cap,
        Self::Bound,
        Self::Target,
        Self::Memory,
        Self::Suspended,
        Self::Hold,
        Self::Worker,
        Self::Closing,
        Self::Unknown,
    ];

    /// Returns the name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Program => "program",
            Self::Order => "order",
            Self::Window => "window",
            Self::Cap => "cap",
            Self::Bound => "bound",
            Self::Target => "target",
            Self::Memory => "memory",
            Self::Suspended => "suspended",
            Self::Hold => "hold",
            Self::Worker => "worker",
            Self::Closing => "closing",
            Self::Unknown => "unknown",
        }
    }
}

/// The leader's state of one session: a row of 88 bytes, fields in this order, each number of 8
/// bytes. The last one is the index of the reason in [`SessionWait::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStatus {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among all sessions that the tenant ever had, from 1.
    pub ordinal: u64,
    /// Its worker.
    pub incarnation: Incarnation,
    /// The device of that worker.
    pub gpu: GpuId,
    /// Ops that are queued at the leader and not granted.
    pub queued: u64,
    /// Charged nanoseconds granted and not done.
    pub outstanding_ns: u64,
    /// The reason that its next work is not granted.
    pub waits: SessionWait,
}

impl Row for SessionStatus {
    const SIZE: usize = 88;

    fn write(&self, out: &mut Vec<u8>) {
        let waits = SessionWait::ALL.iter().position(|it| *it == self.waits);
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.session.0, self.ordinal, self.incarnation.0]);
        put(
            out,
            &[u64::from(self.gpu), self.queued, self.outstanding_ns],
        );
        put(out, &[waits.unwrap_or_default() as u64]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            session: SessionId(fields.u64()?),
            ordinal: fields.u64()?,
            incarnation: Incarnation(fields.u64()?),
            gpu: fields.u64()?.try_into().ok()?,
            queued: fields.u64()?,
            outstanding_ns: fields.u64()?,
            waits: wait_of(fields.u64()?),
        })
    }
}

/// Returns the reason with a number; numbers of a newer leader are unknown.
fn wait_of(number: u64) -> SessionWait {
    let index = usize::try_from(number).ok();
    let known = index.and_then(|index| SessionWait::ALL.get(index));
    known.copied().unwrap_or(SessionWait::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_is_at_its_number_and_newer_ones_are_read() {
        for (number, wait) in (0..).zip(SessionWait::ALL) {
            assert_eq!(wait_of(number), wait);
            assert_eq!(wait as u64, number);
        }
        assert_eq!(wait_of(u64::MAX), SessionWait::Unknown);
        assert_eq!(wait_of(400), SessionWait::Unknown);
    }
}
