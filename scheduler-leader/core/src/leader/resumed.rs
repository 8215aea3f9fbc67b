//! Sessions that a term found at the workers, with clients that must learn of the new leader.
//! Clients at work are told at once; to tell thousands of idle ones would delay their grants.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{SessionId, Tenant};

use crate::queue::QueueOpening;
use crate::time::Nanos;

/// Number of sessions that are told at once, at work or not.
const AT_ONCE: usize = 64;
/// Number of further sessions that are told every millisecond: a small part of a leader's capacity.
const AT_A_TIME: usize = 16;
const APART: Nanos = 1_000_000;
/// Maximum number of remembered sessions that were heard before their workers were sealed.
const WANTED: usize = 4_096;
/// Maximum bytes of intents that came before their sessions' workers were sealed. Clients hear of
/// the new leader from their workers, and announce at once. They send the rest again.
const EARLY_BYTES: usize = 1 << 20;

/// The sessions with clients that were not told yet.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    unannounced: BTreeMap<SessionId, QueueOpening>,
    /// Sessions at work, on workers that are not sealed.
    wanted: BTreeSet<SessionId>,
    /// Intents of these sessions, and their bytes in total.
    early: BTreeMap<SessionId, (Tenant, Vec<Vec<u8>>)>,
    early_bytes: usize,
    /// Number of sessions that were told because there were few.
    announced: usize,
    due: Option<Nanos>,
}

impl Resumed {
    /// Notes that a session is at work: it is told as soon as its worker is sealed.
    pub(super) fn want(&mut self, session: SessionId) {
        if self.wanted.len() < WANTED {
            self.wanted.insert(session);
        }
    }

    /// Keeps an intent of a session on a worker that is not sealed.
    pub(super) fn keep(&mut self, tenant: &Tenant, session: SessionId, bytes: &[u8]) {
        self.want(session);
        let known = self.wanted.contains(&session);
        if !known || self.early_bytes + bytes.len() > EARLY_BYTES {
            return;
        }
        let early = self.early.entry(session);
        let (owner, intents) = early.or_insert_with(|| (tenant.clone(), Vec::new()));
        if owner == tenant {
            self.early_bytes += bytes.len();
            intents.push(bytes.to_vec());
        }
    }

    /// Takes the early intents of a session that is opened.
    pub(super) fn early(&mut self, opening: &QueueOpening) -> Vec<Vec<u8>> {
        let Some((owner, intents)) = self.early.remove(&opening.session) else {
            return Vec::new();
        };
        self.early_bytes -= intents.iter().map(Vec::len).sum::<usize>();
        match owner == opening.tenant {
            true => intents,
            false => Vec::new(),
        }
    }

    /// Drops the remaining early intents: all workers are sealed, so their sessions do not exist.
    pub(super) fn settle(&mut self) {
        self.wanted.clear();
        self.early.clear();
        self.early_bytes = 0;
    }

    /// Adds a worker's session that goes on. Returns it if its client is to be told now.
    pub(super) fn add(&mut self, now: Nanos, opening: QueueOpening) -> Option<QueueOpening> {
        let few = self.announced < AT_ONCE;
        if self.wanted.remove(&opening.session) || few {
            self.announced += usize::from(few);
            return Some(opening);
        }
        self.due.get_or_insert(now.saturating_add(APART));
        self.unannounced.insert(opening.session, opening);
        None
    }

    /// Takes a session, if its client was not told.
    pub(super) fn take(&mut self, session: SessionId) -> Option<QueueOpening> {
        self.unannounced.remove(&session)
    }

    /// Takes a session of this tenant, if its client was not told.
    pub(super) fn take_of(&mut self, tenant: &Tenant, session: SessionId) -> Option<QueueOpening> {
        let its = self.unannounced.get(&session)?.tenant == *tenant;
        its.then(|| self.take(session)).flatten()
    }

    /// Takes the next sessions, if they are due.
    pub(super) fn next(&mut self, now: Nanos) -> Vec<QueueOpening> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let next = std::iter::from_fn(|| self.unannounced.pop_first());
        let next = next.take(AT_A_TIME).map(|(_, opening)| opening).collect();
        let more = !self.unannounced.is_empty();
        self.due = more.then(|| now.saturating_add(APART));
        next
    }

    /// Time at which the next sessions are due.
    pub(super) fn next_wakeup(&self) -> Option<Nanos> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(session: u64) -> QueueOpening {
        QueueOpening {
            session: SessionId(session),
            tenant: "chat".parse().unwrap(),
            epoch: 2,
            queued: 0,
        }
    }

    #[test]
    fn intents_that_came_early_are_kept_for_their_session_and_tenant_alone() {
        let mut resumed = Resumed::default();
        let (of, other) = ("chat".parse().unwrap(), "train".parse().unwrap());
        resumed.keep(&of, SessionId(1), b"one");
        resumed.keep(&other, SessionId(1), b"not theirs");
        resumed.keep(&of, SessionId(1), b"two");
        resumed.keep(&other, SessionId(2), b"nor this");
        let kept = resumed.early(&opening(1));
        assert_eq!(kept, [b"one".to_vec(), b"two".to_vec()]);
        assert!(resumed.early(&opening(1)).is_empty());
        assert!(resumed.early(&opening(2)).is_empty());
        assert_eq!(resumed.early_bytes, 0);
        for session in 0..100_000 {
            resumed.keep(&of, SessionId(session), &[0; 1_000]);
        }
        assert!(resumed.early_bytes <= EARLY_BYTES && resumed.wanted.len() <= WANTED);
        resumed.settle();
        assert!(resumed.early(&opening(3)).is_empty());
        assert_eq!(resumed.early_bytes, 0);
    }

    #[test]
    fn few_and_those_at_work_are_announced_at_once_the_others_bit_by_bit() {
        let mut resumed = Resumed::default();
        resumed.want(SessionId(999));
        let at_once = (0..1_000).filter_map(|session| resumed.add(5, opening(session)));
        let at_once: Vec<_> = at_once.map(|opening| opening.session.0).collect();
        let expected: Vec<u64> = (0..AT_ONCE as u64).chain([999]).collect();
        assert_eq!(at_once, expected);
        assert!(resumed.next(5).is_empty(), "not due");
        // A session that is heard does not wait; a message of another tenant does not count.
        let (of, other) = ("chat".parse().unwrap(), "train".parse().unwrap());
        assert!(resumed.take_of(&other, SessionId(500)).is_none());
        assert!(resumed.take_of(&of, SessionId(500)).is_some());
        let (mut announced, mut times) = (AT_ONCE + 2, 0);
        while let Some(due) = resumed.next_wakeup() {
            let next = resumed.next(due);
            assert!((1..=AT_A_TIME).contains(&next.len()));
            announced += next.len();
            times += 1;
        }
        assert_eq!((announced, times), (1_000, 934_usize.div_ceil(AT_A_TIME)));
    }
}
