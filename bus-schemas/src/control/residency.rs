//! The place of sessions' memory: on the device, or swapped out to the host. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::id::SessionId;

/// The place of a session's memory.
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
    /// All places, each at the index of its number.
    const ALL: [Self; 4] = [Self::Resident, Self::Leaving, Self::Out, Self::Coming];
}

/// A session's memory and its place: a row of 32 bytes, fields in this order, each a number of 8
/// bytes. The place is 0 (resident), 1 (leaving), 2 (out) or 3 (coming), and the last field is 0 or
/// 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionResidency {
    /// The session.
    pub session: SessionId,
    /// Bytes that it holds, in any place.
    pub bytes: u64,
    /// The place of the bytes.
    pub place: Place,
    /// True if they may not be swapped out, because the client or the tenant's settings forbid it.
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

/// Worker to leaders, with its heartbeats, if its memory is overcommitted: the memory of its
/// sessions and its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Bytes that all sessions may hold together, including those swapped out.
    pub limit: u64,
    /// Time to move a mebibyte in either direction, as last measured, in nanoseconds.
    pub ns_per_mib: u64,
    /// The sessions that hold most, at most [`crate::limits::RESIDENCY_ROWS`], while the memory of
    /// all does not fit on the device. Else empty.
    #[serde(with = "rows")]
    pub sessions: Vec<SessionResidency>,
}

/// State of swapping on a device, for people; totals count from the worker's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapStatus {
    /// Bytes that all sessions may hold together, including those swapped out.
    pub limit: u64,
    /// Swapped-out bytes in the host's memory, and their maximum.
    pub memory: (u64, u64),
    /// Swapped-out bytes in the swap file, and their maximum.
    pub file: (u64, u64),
    /// Number of swap-outs, and the bytes moved.
    pub outs: (u64, u64),
    /// Number of swap-ins, and the bytes moved.
    pub ins: (u64, u64),
    /// Total time that sessions with work waited for their memory to return, nanoseconds.
    pub waited_ns: u64,
    /// For the sessions that are moving: the bytes moved so far, and all their bytes.
    pub moving: (u64, u64),
    /// The sessions of the answer that are pinned or not resident.
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
