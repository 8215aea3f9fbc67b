//! What a leader knows of sessions: its answer to administrators, exact at the moment when it is asked.
//! Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::codec::message::Message;
use crate::id::{GpuId, Incarnation, SessionId, Tenant};

/// Administrator to leader, a request: which sessions are there, and what does each wait for?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionsRequest {
    /// Wire version.
    pub v: u16,
    /// Only sessions whose ids are higher: the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SessionId>,
    /// Only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Only those of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// Only those on this device.
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
    /// Sessions by id, [`crate::limits::SESSION_ROWS`] at most.
    #[serde(with = "rows")]
    pub sessions: Vec<SessionStatus>,
    /// There are more: ask again with the last one's id in `after`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// The leader has taken over just now and may not know all sessions yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

impl Message for Sessions {
    const ARRAY: bool = false;
}

/// What keeps a session's next work from being granted, as far as the leader knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionWait {
    /// Nothing: all that was announced is granted and not done yet, or runs as it comes.
    #[default]
    Nothing,
    /// Its own program: nothing is queued, granted or running.
    Program,
    /// Others are before it.
    Order,
    /// It is next, and the device's window is full.
    Window,
    /// Its tenant's cap.
    Cap,
    /// Its tenant's bound on work that is granted and not done.
    Bound,
    /// The target of a tenant of higher priority, for which its next slice is too long.
    Target,
    /// Its memory: it is swapped out.
    Memory,
    /// Its tenant is suspended.
    Suspended,
    /// All grants are held back.
    Hold,
    /// Its worker: that has not received yet what is queued.
    Worker,
    /// It is being closed.
    Closing,
    /// Something that a newer leader knows of.
    Unknown,
}

impl SessionWait {
    /// Every one, each at its number.
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

    /// Its name in tables and JSON.
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

/// What the leader knows of one session: a row of 88 bytes, fields in this order, each number of 8
/// bytes; the last one is what it waits for, as its place in [`SessionWait::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStatus {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among all that the tenant ever had, from 1.
    pub ordinal: u64,
    /// Its worker.
    pub incarnation: Incarnation,
    /// That worker's device.
    pub gpu: GpuId,
    /// Ops that are queued at the leader and not granted.
    pub queued: u64,
    /// Charged nanoseconds granted and not done.
    pub outstanding_ns: u64,
    /// What keeps its next work from being granted.
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

/// What a number says; of a newer leader's nothing more is known.
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
