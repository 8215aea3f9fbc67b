//! Where sessions' memory is: on the device, or swapped out to the host. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::id::SessionId;

/// Where a session's memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// On the device.
    #[default]
    Resident,
    /// On its way to the host.
    Leaving,
    /// On the host: nothing of the session runs.
    Out,
    /// On its way to the device.
    Coming,
}

impl Place {
    /// Every place, each at its number.
    const ALL: [Self; 4] = [Self::Resident, Self::Leaving, Self::Out, Self::Coming];
}

/// A session's memory and where it is: a row of 32 bytes, fields in this order, each a number of 8
/// bytes: the place as 0 (resident), 1 (leaving), 2 (out) or 3 (coming), the last one 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionResidency {
    /// The session.
    pub session: SessionId,
    /// Bytes that it holds, wherever they are.
    pub bytes: u64,
    /// Where they are.
    pub place: Place,
    /// They may not be swapped out: its client or its tenant's settings forbid it.
    pub pinned: bool,
}

impl Row for SessionResidency {
    const SIZE: usize = 32;

    fn write(&self, out: &mut Vec<u8>) {
        let place = Place::ALL.iter().position(|place| *place == self.place);
        put(out, &[self.session.0, self.bytes]);
        put(out, &[place.unwrap_or(0) as u64, u64::from(self.pinned)]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (session, bytes) = (SessionId(fields.u64()?), fields.u64()?);
        let place = usize::try_from(fields.u64()?).ok()?;
        Some(Self {
            session,
            bytes,
            place: *Place::ALL.get(place)?,
            pinned: match fields.u64()? {
                0 => false,
                1 => true,
                _ => return None,
            },
        })
    }
}

/// Worker to leaders, with its heartbeats where its memory is overcommitted: what its sessions hold, and
/// where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Bytes that all sessions may hold together, those that are swapped out included.
    pub limit: u64,
    /// Nanoseconds that a mebibyte takes to move, either way, as measured last.
    pub ns_per_mib: u64,
    /// While what sessions hold does not fit on the device: those that hold most,
    /// [`crate::limits::RESIDENCY_ROWS`] of them at most; else none.
    #[serde(with = "rows")]
    pub sessions: Vec<SessionResidency>,
}

/// How a device's memory is swapped, to people; totals count from the worker's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapStatus {
    /// Bytes that all sessions may hold together, those that are swapped out included.
    pub limit: u64,
    /// Bytes that the host's memory holds of them, and may hold.
    pub memory: (u64, u64),
    /// Bytes that the swap file holds of them, and may hold.
    pub file: (u64, u64),
    /// Times that a session was swapped out, and the bytes moved.
    pub outs: (u64, u64),
    /// Times that a session was brought back, and the bytes moved.
    pub ins: (u64, u64),
    /// Nanoseconds that sessions with work waited for their memory to come back, added up.
    pub waited_ns: u64,
    /// Bytes of the sessions that are moving now that have been moved, and of all that they hold.
    pub moving: (u64, u64),
    /// The sessions of the answer that are not resident, or pinned.
    #[serde(with = "rows")]
    pub sessions: Vec<SessionResidency>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_as_they_were_written_and_nothing_else_reads() {
        for (place, pinned) in Place::ALL.into_iter().zip([false, true, false, true]) {
            let row = SessionResidency {
                session: SessionId(7),
                bytes: u64::MAX,
                place,
                pinned,
            };
            let mut bytes = Vec::new();
            row.write(&mut bytes);
            assert_eq!(bytes.len(), SessionResidency::SIZE);
            assert_eq!(SessionResidency::read(&bytes), Some(row));
            for meaningless in [16, 24] {
                let mut other = bytes.clone();
                other[meaningless] = 4;
                assert_eq!(SessionResidency::read(&other), None);
            }
        }
    }
}
