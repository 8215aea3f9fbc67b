//! Sessions with their memory off the device: none of their slices goes there until the memory returns.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

/// Progress of a session's way off the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    /// The device still has this many of its slices.
    Leaving(usize),
    /// The device has none of its slices, and must be told to swap it out.
    Left,
    /// The device was told.
    Out,
    /// A slice waits for the memory, and [`super::Action::Want`] was returned.
    Wanted,
}

/// The sessions that are away.
#[derive(Debug, Default)]
pub(super) struct AwaySessions(BTreeMap<SessionId, Away>);

impl AwaySessions {
    /// True if a session is away.
    pub(super) fn contains(&self, session: SessionId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&session)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that a session leaves, while the device has this many of its slices.
    pub(super) fn leave(&mut self, session: SessionId, slices: usize) {
        self.0.entry(session).or_insert(match slices {
            0 => Away::Left,
            slices => Away::Leaving(slices),
        });
    }

    /// Notes that the device gets a slice of a session that is being closed; the slice fails there.
    pub(super) fn submitted(&mut self, session: SessionId) {
        if let Some(away) = self.0.get_mut(&session) {
            *away = match *away {
                Away::Left => Away::Leaving(1),
                Away::Leaving(slices) => Away::Leaving(slices + 1),
                told => told,
            };
        }
    }

    /// Notes that the device has completed a slice of a session.
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

    /// Takes a session that the device has no slice of any more and must be told to swap out.
    pub(super) fn take_left(&mut self) -> Option<SessionId> {
        let mut sessions = self.0.iter_mut();
        let (session, away) = sessions.find(|(_, away)| **away == Away::Left)?;
        *away = Away::Out;
        Some(*session)
    }

    /// Notes that a slice of an away session waits. Returns true if this is new and must be reported.
    pub(super) fn want(&mut self, session: SessionId) -> bool {
        let away = self.0.get_mut(&session);
        let news = away.filter(|away| matches!(away, Away::Out));
        news.is_some_and(|away| {
            *away = Away::Wanted;
            true
        })
    }

    /// Removes a session: its memory is on the device, or it has ended.
    pub(super) fn remove(&mut self, session: SessionId) {
        self.0.remove(&session);
    }
}
