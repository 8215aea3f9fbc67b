//! Sessions whose memory is not on the device: nothing of them goes there until it is.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

/// How far a session is from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    /// The device has slices of it still, so many.
    Leaving(usize),
    /// It has none, and the device is to be told.
    Left,
    /// It was told.
    Out,
    /// A slice waits for it, and that was said.
    Wanted,
}

/// The sessions that are away.
#[derive(Debug, Default)]
pub(super) struct AwaySessions(BTreeMap<SessionId, Away>);

impl AwaySessions {
    /// Whether a session is away.
    pub(super) fn contains(&self, session: SessionId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&session)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A session is to leave, of which the device has so many slices.
    pub(super) fn leave(&mut self, session: SessionId, slices: usize) {
        self.0.entry(session).or_insert(match slices {
            0 => Away::Left,
            slices => Away::Leaving(slices),
        });
    }

    /// The device gets a slice of a session that is being closed: it fails there.
    pub(super) fn submitted(&mut self, session: SessionId) {
        if let Some(away) = self.0.get_mut(&session) {
            *away = match *away {
                Away::Left => Away::Leaving(1),
                Away::Leaving(slices) => Away::Leaving(slices + 1),
                told => told,
            };
        }
    }

    /// The device has completed a slice of a session.
    pub(super) fn completed(&mut self, session: SessionId) {
        if let Some(away) = self.0.get_mut(&session)
            && let Away::Leaving(slices) = away
        {
            *away = match slices.saturating_sub(1) {
                0 => Away::Left,
                left => Away::Leaving(left),
            };
        }
    }

    /// A session of which the device has no slice any more, and is to be told.
    pub(super) fn take_left(&mut self) -> Option<SessionId> {
        let mut sessions = self.0.iter_mut();
        let (session, away) = sessions.find(|(_, away)| **away == Away::Left)?;
        *away = Away::Out;
        Some(*session)
    }

    /// A slice of a session that is away waits. Gives whether that is to be said: it was not before.
    pub(super) fn want(&mut self, session: SessionId) -> bool {
        let away = self.0.get_mut(&session);
        let news = away.filter(|away| matches!(away, Away::Out));
        news.is_some_and(|away| {
            *away = Away::Wanted;
            true
        })
    }

    /// Its memory is on the device, or it has ended.
    pub(super) fn remove(&mut self, session: SessionId) {
        self.0.remove(&session);
    }
}
