//! The feed of a device: the choice of the work that goes to the hardware next among work of different
//! urgency.
//!
//! Most devices do not stop a running kernel, so work that has begun delays the next urgent launch. Two
//! rules:
//!
//! - **Guard**: while a session has slices here, less urgent sessions begin nothing.
//! - **Hold**: a program that was just answered often comes back at once: the answer, the next launch and its
//!   grant take a few messages, some hundred microseconds. The same holds for a program with more work on the
//!   way. Work begun meanwhile would delay it. So when a session that came back soon lately has nothing here
//!   any more, less urgent sessions begin nothing for about as long as it took.
//!
//! The hold is the idea of anticipatory scheduling (Iyer and Druschel, SOSP 2001), which keeps a disk idle
//! for a moment because the next read is likely to be near. It costs the others at most the hold for each
//! answer, and nothing behind sessions that do not come back. Sessions of equal urgency neither guard nor
//! hold against one another. The feed does not decide the launch order: that is the order in which slices
//! were started, and it is kept within each session.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

/// Nanoseconds of a clock that never goes back.
type Nanos = u64;

/// Longest hold, and the limit of "soon": a slower bus is not waited for.
const HOLD: Nanos = 500_000;
/// Time within which a session's last slice counts as recent.
const LATELY: Nanos = 100_000_000;
/// Number of launches of less urgent sessions on the hardware while more urgent ones come and go. One runs
/// and one is behind it, so that the hardware need not wait for us between the two.
const DEPTH: u32 = 2;

/// The recent returns of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Returns {
    /// The last eight returns, a bit each: set if it was soon.
    soon: u8,
    /// Longest recent return time.
    reach: Nanos,
}

impl Returns {
    /// Time to wait for its return.
    fn hold(self) -> Nanos {
        match self.soon {
            0 => 0,
            _ => (self.reach + self.reach / 4).min(HOLD),
        }
    }

    fn note(&mut self, after: Nanos) {
        let soon = after <= HOLD;
        self.soon = self.soon << 1 | u8::from(soon);
        if soon {
            self.reach = after.max(self.reach - self.reach / 16);
        }
    }
}

/// A session's lane.
#[derive(Debug, Clone, Copy)]
struct Lane {
    urgency: u8,
    slices: u32,
    /// Time at which its last slice ended.
    left_at: Nanos,
    /// True if its last slice answered its client.
    answered: bool,
    /// Returns after an answer, and after none.
    returns: [Returns; 2],
}

impl Lane {
    /// Time until which less urgent work is held back, if it has no slice itself.
    fn held(&self) -> Nanos {
        self.left_at + self.returns[usize::from(self.answered)].hold()
    }
}

/// The sessions that may begin work now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Sessions less urgent than this begin nothing.
    pub urgency: u8,
    /// Time at which that may change without another event.
    pub until: Option<Nanos>,
}

impl Gate {
    /// True if a session of this urgency may begin work.
    #[must_use]
    pub fn admits(&self, urgency: u8) -> bool {
        urgency <= self.urgency
    }
}

/// The feed of one device.
#[derive(Debug, Default)]
pub struct Feed {
    lanes: BTreeMap<SessionId, Lane>,
}

impl Feed {
    /// Notes that a slice was handed to the device.
    pub fn submitted(&mut self, now: Nanos, session: SessionId, urgency: u8) {
        let Some(lane) = self.lanes.get_mut(&session) else {
            let first = Lane {
                urgency,
                slices: 1,
                left_at: now,
                answered: false,
                returns: Default::default(),
            };
            self.lanes.insert(session, first);
            return;
        };
        if lane.slices == 0 {
            lane.urgency = urgency;
            lane.returns[usize::from(lane.answered)].note(now.saturating_sub(lane.left_at));
        }
        lane.urgency = lane.urgency.min(urgency);
        lane.slices += 1;
    }

    /// Notes that a slice has ended; `answered` if its client waited for it and has its answer.
    pub fn ended(&mut self, now: Nanos, session: SessionId, answered: bool) {
        if let Some(lane) = self.lanes.get_mut(&session) {
            lane.slices = lane.slices.saturating_sub(1);
            lane.left_at = now;
            lane.answered = answered;
        }
    }

    /// Removes a session that has ended.
    pub fn closed(&mut self, session: SessionId) {
        self.lanes.remove(&session);
    }

    /// Returns the sessions that may begin work now.
    #[must_use]
    pub fn gate(&self, now: Nanos) -> Gate {
        let mut gate = Gate {
            urgency: u8::MAX,
            until: None,
        };
        for lane in self.lanes.values() {
            if lane.urgency >= gate.urgency {
                continue;
            }
            if lane.slices > 0 {
                (gate.urgency, gate.until) = (lane.urgency, None);
            } else if now < lane.held() {
                (gate.urgency, gate.until) = (lane.urgency, Some(lane.held()));
            }
        }
        gate
    }

    /// Number of launches that sessions of this urgency may have on the hardware.
    #[must_use]
    pub fn depth(&self, now: Nanos, urgency: u8) -> u32 {
        let lately = |lane: &Lane| lane.slices > 0 || now < lane.left_at + LATELY;
        let mut lanes = self.lanes.values();
        match lanes.any(|lane| lane.urgency < urgency && lately(lane)) {
            true => DEPTH,
            false => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: SessionId = SessionId(1);
    const TRAIN: SessionId = SessionId(2);
    const MS: Nanos = 1_000_000;

    /// A request of the chat: a slice, ended with an answer 1 ms later. Returns the time of its end.
    fn request(feed: &mut Feed, at: Nanos) -> Nanos {
        feed.submitted(at, CHAT, 0);
        assert!(!feed.gate(at).admits(3), "guarded");
        feed.ended(at + MS, CHAT, true);
        at + MS
    }

    #[test]
    fn who_comes_back_soon_is_waited_for_and_no_longer_than_it_takes() {
        let mut feed = Feed::default();
        feed.submitted(0, TRAIN, 3);
        assert!(feed.gate(0).admits(3));
        let answered = request(&mut feed, 10);
        assert!(feed.gate(answered).admits(3), "nothing is known of it");
        let answered = request(&mut feed, answered + 160_000);
        let gate = feed.gate(answered);
        assert_eq!(gate.until, Some(answered + 200_000), "a quarter longer");
        assert!(!gate.admits(3) && gate.admits(0));
        assert!(feed.gate(answered + 200_000).admits(3));
        assert_eq!(feed.depth(answered, 3), DEPTH);
        assert_eq!(feed.depth(answered + LATELY, 3), u32::MAX);
        assert_eq!(feed.depth(answered, 0), u32::MAX);
    }

    #[test]
    fn who_does_not_come_back_soon_is_waited_for_no_more() {
        let mut feed = Feed::default();
        let mut at = request(&mut feed, 0);
        at = request(&mut feed, at + 100_000);
        for _ in 0..8 {
            assert!(!feed.gate(at).admits(3));
            at = request(&mut feed, at + 20 * MS);
        }
        assert!(feed.gate(at).admits(3), "eight in a row");
        at = request(&mut feed, at + 100_000);
        assert!(!feed.gate(at).admits(3), "it did again");
    }

    #[test]
    fn answers_and_gaps_are_told_apart_and_hold_only_the_less_urgent() {
        let mut feed = Feed::default();
        let mut at = request(&mut feed, 0);
        at = request(&mut feed, at + 100_000);
        assert!(feed.gate(at).admits(0), "its equals go on");
        feed.submitted(at + 100_000, CHAT, 0);
        feed.ended(at + 200_000, CHAT, false);
        assert!(
            feed.gate(at + 200_000).admits(3),
            "it never came back from no answer"
        );
        at = request(&mut feed, at + 230_000);
        feed.submitted(at + 100_000, CHAT, 0);
        feed.ended(at + 200_000, CHAT, false);
        let gate = feed.gate(at + 200_000);
        assert_eq!(gate.until, Some(at + 237_500), "now it did, after 30 us");
        feed.closed(CHAT);
        assert!(feed.gate(at).admits(3), "gone");
    }
}
