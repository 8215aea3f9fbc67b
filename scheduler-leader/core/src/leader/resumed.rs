//! Sessions that a term found with the workers, and whose clients are to learn that it leads.
//! Those at work are told at once; to tell thousands that only exist would hold up their grants.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{SessionId, Tenant};

use crate::queue::QueueOpening;
use crate::time::Nanos;

/// So many sessions are told at once, at work or not.
const AT_ONCE: usize = 64;
/// So many others every millisecond: a small part of what a leader can do in it.
const AT_A_TIME: usize = 16;
const APART: Nanos = 1_000_000;
/// Sessions remembered that were heard of before their workers were sealed.
const WANTED: usize = 4_096;
/// Bytes of intents kept that came before their sessions' workers were sealed: clients hear of the new
/// leader from their workers, and announce at once. What is beyond they send again.
const EARLY_BYTES: usize = 1 << 20;

/// The sessions whose clients were not told yet.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    unannounced: BTreeMap<SessionId, QueueOpening>,
    /// Sessions at work, of workers that are not sealed.
    wanted: BTreeSet<SessionId>,
    /// Their intents, and how many bytes those are.
    early: BTreeMap<SessionId, (Tenant, Vec<Vec<u8>>)>,
    early_bytes: usize,
    /// Sessions told because there were few.
    announced: usize,
    due: Option<Nanos>,
}

impl Resumed {
    /// A session is at work: it is to be told as soon as its worker is sealed.
    pub(super) fn want(&mut self, session: SessionId) {
        if self.wanted.len() < WANTED {
            self.wanted.insert(session);
        }
    }

    /// An intent came of a session whose worker is not sealed.
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

    /// The intents that came too early, of a session that is opened.
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

    /// All workers are sealed: what came early of other sessions is nobody's.
    pub(super) fn settle(&mut self) {
        self.wanted.clear();
        self.early.clear();
        self.early_bytes = 0;
    }

    /// A worker's session goes on. Gives it back if it is to be told now.
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

    /// One session, if it was not told.
    pub(super) fn take(&mut self, session: SessionId) -> Option<QueueOpening> {
        self.unannounced.remove(&session)
    }

    /// One session of this tenant, if it was not told.
    pub(super) fn take_of(&mut self, tenant: &Tenant, session: SessionId) -> Option<QueueOpening> {
        let its = self.unannounced.get(&session)?.tenant == *tenant;
        its.then(|| self.take(session)).flatten()
    }

    /// The next ones, if they are due.
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

    /// When the next ones are due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
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
        // One that is heard of does not wait, but for somebody else.
        let (of, other) = ("chat".parse().unwrap(), "train".parse().unwrap());
        assert!(resumed.take_of(&other, SessionId(500)).is_none());
        assert!(resumed.take_of(&of, SessionId(500)).is_some());
        let (mut announced, mut times) = (AT_ONCE + 2, 0);
        while let Some(due) = resumed.deadline() {
            let next = resumed.next(due);
            assert!((1..=AT_A_TIME).contains(&next.len()));
            announced += next.len();
            times += 1;
        }
        assert_eq!((announced, times), (1_000, 934_usize.div_ceil(AT_A_TIME)));
    }
}
