//! The waits of the record, each told once: of what ended since the tracer started.
//!
//! The record may be read from its beginning more than once. Its sessions run their ops in order. So an op that was
//! told is known by the last op of its session.

use std::collections::HashMap;

use bus_schemas::{GrantKind, OpNumber, SessionId};
use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::{Timing, Wait};

/// Number of sessions from which on old ones are forgotten.
const SESSIONS: usize = 65_536;
/// Time after its last work at which a session may be forgotten, nanoseconds.
const OLD: u64 = 3_600_000_000_000;

/// The last op of a session that was told.
#[derive(Debug, Clone, Copy)]
struct Told {
    last: OpNumber,
    /// The time of its end.
    ended: u64,
    /// The reading of the record that told the session first.
    reading: u64,
}

/// The sessions of the record.
#[derive(Debug)]
pub(crate) struct Waits {
    sessions: HashMap<SessionId, Told>,
    /// Number of readings of the record from its beginning.
    reading: u64,
    /// True while the record is followed without a gap.
    is_whole: bool,
    /// The latest end that was told.
    record: u64,
    /// The latest end before the record was read from its beginning last, or the start of the tracer.
    before: u64,
}

impl Waits {
    /// Counts what ends from now on, nanoseconds since 1970.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            sessions: HashMap::new(),
            reading: 0,
            is_whole: false,
            record: now,
            before: now,
        }
    }

    /// Notes that the record is read from its beginning.
    pub(crate) fn begins(&mut self) {
        self.is_whole = false;
        self.reading += 1;
        self.before = self.record;
    }

    /// Notes that the record is read up to now.
    pub(crate) fn is_read(&mut self) {
        self.is_whole = true;
    }

    /// Takes in a position. Returns its waits if they are to be counted.
    pub(crate) fn position<'p>(&mut self, position: &'p ReplayedPosition) -> &'p [Wait] {
        if position.kind == GrantKind::Close {
            self.sessions.remove(&position.session);
            return &[];
        }
        let is_work = matches!(position.kind, GrantKind::Run | GrantKind::Standing);
        match &position.timing {
            Some(timing) if is_work && self.is_new(position, timing) => &timing.waits,
            _ => &[],
        }
    }

    /// True for work that was not told before and ended since the start.
    fn is_new(&mut self, position: &ReplayedPosition, timing: &Timing) -> bool {
        self.record = self.record.max(timing.ended);
        let told = Told {
            last: position.last,
            ended: timing.ended,
            reading: self.reading,
        };
        let known = self.sessions.get(&position.session).copied();
        let reading = known.map_or(told.reading, |known| known.reading);
        if known.is_none_or(|known| known.last < told.last) {
            let told = Told { reading, ..told };
            self.sessions.insert(position.session, told);
        }
        if self.sessions.len() > SESSIONS {
            let record = self.record;
            self.sessions
                .retain(|_, it| it.ended.saturating_add(OLD) > record);
        }
        let is_later = known.is_none_or(|known| known.last < position.last);
        // A session that this reading told first was unknown or closed before: the time of its end decides.
        let is_sure = self.is_whole || reading < self.reading;
        is_later && (is_sure || timing.ended > self.before)
    }
}

#[cfg(test)]
mod tests {
    use scheduler_leader_core::why::Cause;

    use super::*;
    use crate::join::tests::position;

    fn at(session: u64, last: OpNumber, ended: u64) -> ReplayedPosition {
        let mut position = position("chat", session, (last, last), 0);
        let timing = position.timing.get_or_insert_default();
        timing.ended = ended;
        timing.waits = vec![Wait {
            cause: Cause::Share,
            of: None,
            ns: ended,
        }];
        position
    }

    fn counted(waits: &mut Waits, position: &ReplayedPosition) -> u64 {
        waits.position(position).iter().map(|wait| wait.ns).sum()
    }

    #[test]
    fn each_wait_since_the_start_is_told_once_however_often_the_record_is_read() {
        let mut waits = Waits::new(30);
        let history = [at(1, 1, 10), at(2, 4, 20), at(1, 2, 30)];
        waits.begins();
        let before: u64 = history.iter().map(|it| counted(&mut waits, it)).sum();
        assert_eq!(before, 0, "it ended before the start");
        // It ended before the record was read up to its end.
        assert_eq!(counted(&mut waits, &at(2, 5, 35)), 35);
        waits.is_read();
        assert_eq!(counted(&mut waits, &at(1, 3, 40)), 40);
        assert_eq!(counted(&mut waits, &at(3, 1, 50)), 50);
        assert_eq!(counted(&mut waits, &at(3, 2, 51)), 51);
        let mut close = at(3, 1, 0);
        close.kind = GrantKind::Close;
        assert_eq!(counted(&mut waits, &close), 0);
        waits.begins();
        let later = [at(1, 3, 40), at(3, 1, 50), at(3, 2, 51)];
        let again = history.iter().chain(&later);
        let again: u64 = again.map(|it| counted(&mut waits, it)).sum();
        assert_eq!(again, 0);
        // These ended while it was read.
        assert_eq!(counted(&mut waits, &at(1, 4, 60)), 60);
        assert_eq!(counted(&mut waits, &at(4, 1, 70)), 70);
        waits.is_read();
        assert_eq!(counted(&mut waits, &at(2, 6, 80)), 80);
    }

    #[test]
    fn sessions_that_never_close_are_bounded() {
        let mut waits = Waits::new(0);
        waits.is_read();
        for session in 0..2 * SESSIONS as u64 {
            counted(&mut waits, &at(session, 1, session * OLD / 1_000));
        }
        assert!(waits.sessions.len() <= SESSIONS);
    }
}
