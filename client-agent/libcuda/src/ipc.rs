//! Memory that processes of one tenant share: names that pass between processes, and the memory
//! that this process has opened.
//!
//! Exported memory is known by a key that only its name contains; the worker looks it up among the
//! tenant's exports there. A name also says which worker that is; it cannot be opened elsewhere.

use std::collections::HashMap;
use std::sync::Mutex;

use bus::random_id;
use bus_schemas::{ExportKey, Incarnation, SessionId};
use client_session::Session;

use crate::lock::Seldom;

/// The data that another process needs to use exported memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) key: ExportKey,
    worker: Incarnation,
    session: SessionId,
}

/// Bytes of a name.
pub(crate) const NAME: usize = 64;

impl Name {
    /// The name as bytes for other processes; `magic` states its kind.
    pub(crate) fn bytes(&self, magic: [u8; 8]) -> [u8; NAME] {
        let [first, second] = self.key.0;
        let words = [first, second, self.worker.0, self.session.0];
        let mut bytes = [0; NAME];
        bytes[..8].copy_from_slice(&magic);
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a name of the kind `magic`.
    pub(crate) fn read(bytes: &[u8; NAME], magic: [u8; 8]) -> Option<Self> {
        let mut words = bytes.as_chunks::<8>().0.iter().copied();
        let found = words.next()?;
        let mut words = words.map(u64::from_le_bytes);
        let key = ExportKey([words.next()?, words.next()?]);
        let name = Self {
            key,
            worker: Incarnation(words.next()?),
            session: SessionId(words.next()?),
        };
        (found == magic && words.all(|word| word == 0)).then_some(name)
    }

    /// Makes a new name for an object of a session.
    pub(crate) fn new(session: &Session) -> Self {
        let opened = session.opened();
        Self {
            key: ExportKey([random_id(), random_id()]),
            worker: opened.incarnation,
            session: opened.session,
        }
    }

    /// True if the object is on the worker of this session.
    pub(crate) fn is_beside(&self, session: &Session) -> bool {
        session.opened().incarnation == self.worker
    }

    /// True if the object belongs to this session.
    pub(crate) fn is_of(&self, session: &Session) -> bool {
        session.opened().session == self.session
    }
}

/// The exports and imports of a device's session.
#[derive(Debug, Default)]
pub(crate) struct Ipc {
    /// Names by the first address of the allocation.
    pub(crate) exported: Seldom<HashMap<u64, Name>>,
    pub(crate) opened: Mutex<HashMap<ExportKey, Opened>>,
}

/// Opened memory.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) address: u64,
    /// The reserved range that contains it.
    pub(crate) room: u64,
    /// Number of opens that were not closed.
    pub(crate) times: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_nothing_else_is_one() {
        let name = Name {
            key: ExportKey([7, u64::MAX]),
            worker: Incarnation(9),
            session: SessionId(11),
        };
        let bytes = name.bytes(*b"WL-TEST1");
        assert_eq!(Name::read(&bytes, *b"WL-TEST1"), Some(name));
        assert_eq!(Name::read(&bytes, *b"WL-TEST2"), None);
        let mut other = bytes;
        other[63] = 1;
        assert_eq!(Name::read(&other, *b"WL-TEST1"), None);
        assert_eq!(Name::read(&[0; NAME], *b"WL-TEST1"), None);
    }
}
