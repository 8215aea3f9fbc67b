//! Rate limit of rejections: one for each session every few milliseconds, and few sessions at a time.

use std::collections::VecDeque;

use bus_schemas::SessionId;

use crate::Nanos;

/// Maximum number of recently rejected sessions that are remembered.
const REMEMBERED: usize = 64;

/// The sessions that were rejected recently.
#[derive(Debug, Default)]
pub struct RejectionRate {
    recent: VecDeque<(SessionId, Nanos)>,
}

impl RejectionRate {
    /// True if a session may be rejected now: it was not within the last `apart` nanoseconds, and few others
    /// were.
    pub fn admits(&mut self, now: Nanos, apart: Nanos, session: SessionId) -> bool {
        let is_old = |at: Nanos| at.saturating_add(apart) <= now;
        while self.recent.pop_front_if(|(_, at)| is_old(*at)).is_some() {}
        let again = self.recent.iter().any(|(id, _)| *id == session);
        let admitted = !again && self.recent.len() < REMEMBERED;
        if admitted {
            self.recent.push_back((session, now));
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_rejected_once_in_a_while_and_few_are_at_a_time() {
        let mut rate = RejectionRate::default();
        assert!(rate.admits(0, 10, SessionId(1)));
        assert!(!rate.admits(9, 10, SessionId(1)));
        assert!(rate.admits(10, 10, SessionId(1)));
        let admitted = (2..200).filter(|id| rate.admits(11, 10, SessionId(*id)));
        assert_eq!(admitted.count(), REMEMBERED - 1);
        assert!(rate.admits(21, 10, SessionId(2)));
    }
}
