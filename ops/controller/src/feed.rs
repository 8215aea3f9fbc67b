//! Positions of the launch order as they end, and sessions that failed. One reader follows the
//! record for all watchers. The newest positions are kept, so that a disconnected watcher can
//! resume.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use admin::Administrator;
use admin::calendar::now_ms;
use admin::record::{Followed, follow_explained};
use scheduler_leader_core::replay::ReplayedPosition;
use tokio::sync::watch;

use crate::failures::Failures;
use crate::position::{At, Position};
use crate::position_event::PositionEvent;

/// Maximum number of positions kept.
const KEPT: usize = 50_000;
/// Delay before the record is followed again after an error.
const AGAIN: Duration = Duration::from_secs(1);

/// The newest positions. They end in another order than they were granted in. Each has a number for
/// delivery and is also found by its global position.
#[derive(Debug, Default)]
struct Ring {
    rows: VecDeque<Arc<PositionEvent>>,
    /// The number of the first row.
    first: u64,
    /// The oldest global position ever received.
    oldest: Option<At>,
    /// The newest global position that was dropped.
    dropped: Option<At>,
}

impl Ring {
    fn push(&mut self, told: Arc<PositionEvent>) {
        if self.rows.len() >= KEPT
            && let Some(first) = self.rows.pop_front()
        {
            self.dropped = self.dropped.max(Some(first.at));
            self.first += 1;
        }
        self.oldest = Some(self.oldest.map_or(told.at, |oldest| oldest.min(told.at)));
        self.rows.push_back(told);
    }

    /// The number after the newest row.
    fn end(&self) -> u64 {
        self.first + self.rows.len() as u64
    }

    /// The number after a position, if the position is still kept.
    fn behind(&self, at: At) -> Option<u64> {
        let found = self.rows.iter().rposition(|told| told.at == at)?;
        Some(self.first + found as u64 + 1)
    }

    /// Looks up a position.
    fn find(&self, at: At) -> Found {
        match self.rows.iter().rfind(|told| told.at == at) {
            Some(told) => Found::Kept(Arc::clone(told)),
            None if self.dropped.is_some_and(|dropped| at <= dropped) => Found::Dropped,
            None => Found::None,
        }
    }

    /// Rows from a number on; `None` if they were dropped.
    fn from(&self, number: u64, most: usize) -> Option<Vec<Arc<PositionEvent>>> {
        let skipped = number.checked_sub(self.first)? as usize;
        let rows = self.rows.iter().skip(skipped).take(most);
        Some(rows.cloned().collect())
    }
}

/// Progress of reading a record from its beginning.
#[derive(Debug)]
enum Reading {
    /// Still reading known positions, up to this one; they are collected in this ring.
    Known(At, Box<Ring>),
    /// Everything that follows is news.
    News,
}

impl Reading {
    /// Begins to read the record from its beginning; `ring` holds the positions of earlier reads.
    fn new(ring: &Ring) -> Self {
        let last = ring.rows.back();
        last.map_or(Self::News, |told| Self::Known(told.at, Box::default()))
    }

    fn take(&mut self, told: Arc<PositionEvent>, ring: &mut Ring) {
        let Self::Known(last, read) = self else {
            return ring.push(told);
        };
        if told.at == *last {
            *self = Self::News;
            return;
        }
        read.push(told);
    }

    /// Ends the first pass over the record. If the known position was not found, `ring` is
    /// replaced. Returns true then.
    fn whole(&mut self, ring: &mut Ring) -> bool {
        if let Self::Known(_, read) = std::mem::replace(self, Self::News) {
            // Numbers that no watcher has seen.
            let first = ring.end() + 1 + read.first;
            *ring = Ring { first, ..*read };
            return true;
        }
        false
    }
}

/// The result of looking up a position.
#[derive(Debug)]
pub(crate) enum Found {
    /// The position is kept.
    Kept(Arc<PositionEvent>),
    /// The position was dropped, or never existed.
    Dropped,
    /// The position has not ended, or does not exist.
    None,
}

/// The positions, and the notification of watchers.
#[derive(Default)]
pub(crate) struct OrderFeed {
    begun: OnceLock<Follower>,
}

/// The newest positions at one moment.
pub(crate) struct Newest {
    /// The positions in the order of their ends.
    pub(crate) rows: Vec<Arc<PositionEvent>>,
    /// The oldest global position of the record.
    pub(crate) oldest: Option<At>,
    /// The newest dropped global position.
    pub(crate) dropped: Option<At>,
}

/// A handle to the positions.
#[derive(Clone)]
pub(crate) struct Follower {
    ring: Arc<Mutex<Ring>>,
    news: watch::Receiver<u64>,
    whole: watch::Receiver<bool>,
    standing: watch::Receiver<Arc<Vec<Position>>>,
    failures: Failures,
}

impl OrderFeed {
    /// The sessions that failed; `None` until the existing record has been read. Starts to follow
    /// the record, if not yet started.
    pub(crate) fn failures(&self, administrator: &Arc<Administrator>) -> Option<Failures> {
        let follower = self.follower(administrator);
        let is_whole = *follower.whole.borrow();
        is_whole.then(|| follower.failures.clone())
    }

    fn follower(&self, administrator: &Arc<Administrator>) -> &Follower {
        self.begun.get_or_init(|| start(Arc::clone(administrator)))
    }

    /// Starts to follow the record, if not yet started, and waits until the existing record has
    /// been read.
    pub(crate) async fn begin(&self, administrator: &Arc<Administrator>) -> Follower {
        let follower = self.follower(administrator).clone();
        let mut whole = follower.whole.clone();
        // The sender lives as long as the process.
        let _ = whole.wait_for(|whole| *whole).await;
        follower
    }
}

impl Follower {
    fn see<T>(&self, look: impl FnOnce(&Ring) -> T) -> T {
        look(&locked(&self.ring))
    }

    /// The number of the next row to arrive.
    pub(crate) fn end(&self) -> u64 {
        self.see(Ring::end)
    }

    /// The number after a position that a watcher has received.
    pub(crate) fn behind(&self, at: At) -> Option<u64> {
        self.see(|ring| ring.behind(at))
    }

    /// Looks up a position.
    pub(crate) fn find(&self, at: At) -> Found {
        self.see(|ring| ring.find(at))
    }

    /// At most `most` rows from a number on; `None` if they were dropped.
    pub(crate) fn from(&self, number: u64, most: usize) -> Option<Vec<Arc<PositionEvent>>> {
        self.see(|ring| ring.from(number, most))
    }

    /// Returns all kept rows, and the bounds of the others.
    pub(crate) fn all(&self) -> Newest {
        self.see(|ring| Newest {
            rows: ring.rows.iter().cloned().collect(),
            oldest: ring.oldest,
            dropped: ring.dropped,
        })
    }

    /// A receiver that is notified of new rows.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.clone()
    }

    /// The sessions that failed.
    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    /// The progress of standing grants that have not ended.
    pub(crate) fn standing(&self) -> watch::Receiver<Arc<Vec<Position>>> {
        self.standing.clone()
    }
}

fn locked(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes in the progress of standing grants. Returns true if it changed.
fn has_changed(known: &mut Arc<Vec<Position>>, grants: &[ReplayedPosition]) -> bool {
    let now = Some(now_ms());
    let grants = grants.iter().map(|it| Position::explained(it, now));
    let grants: Vec<_> = grants.collect();
    let far = |it: &Position| (it.position, it.last, it.measured_ns, it.worker.clone());
    let changed = !known.iter().map(far).eq(grants.iter().map(far));
    if changed {
        *known = Arc::new(grants);
    }
    changed
}

/// Removes a standing grant that has ended. Returns true if it was known.
fn has_ended(known: &mut Arc<Vec<Position>>, ended: &Position) -> bool {
    let same = |it: &Position| it.position == ended.position && it.worker == ended.worker;
    let stood = known.iter().any(same);
    if stood {
        Arc::make_mut(known).retain(|it| !same(it));
    }
    stood
}

fn start(administrator: Arc<Administrator>) -> Follower {
    let ring: Arc<Mutex<Ring>> = Arc::default();
    let (tell, news) = watch::channel(0);
    let (is_whole, whole) = watch::channel(false);
    let (stand, standing) = watch::channel(Arc::default());
    let follower = Follower {
        ring: Arc::clone(&ring),
        news,
        whole,
        standing,
        failures: Failures::default(),
    };
    let failures = follower.failures.clone();
    tokio::spawn(async move {
        loop {
            let mut reading = Reading::new(&locked(&ring));
            failures.begins();
            let followed = follow_explained(&administrator, |told| {
                match told {
                    Followed::Ended {
                        position,
                        news_of_ms,
                    } => {
                        let told = Arc::new(PositionEvent::of(&position, news_of_ms));
                        // Sent first: a watcher that has seen its end must not see it as standing
                        // afterwards.
                        stand.send_if_modified(|known| has_ended(known, &told.position));
                        reading.take(told, &mut locked(&ring));
                    }
                    Followed::Whole => {
                        let is_other = reading.whole(&mut locked(&ring));
                        failures.whole(is_other);
                        is_whole.send_replace(true);
                    }
                    Followed::Standing(grants) => {
                        stand.send_if_modified(|known| has_changed(known, &grants));
                    }
                    Followed::Failed(failure) => failures.push(&failure),
                    Followed::Idle(_) => {}
                }
                let end = locked(&ring).end();
                tell.send_if_modified(|known| std::mem::replace(known, end) != end);
                Ok(())
            });
            if let Err(error) = followed.await {
                tracing::warn!("following the order: {error:#}");
            }
            // Waiting callers get the rows that exist.
            is_whole.send_replace(true);
            tokio::time::sleep(AGAIN).await;
        }
    });
    follower
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::tests::replayed;

    fn told(global: u64) -> Arc<PositionEvent> {
        Arc::new(PositionEvent::of(&replayed(3, global, "chat"), None))
    }

    fn at(global: u64) -> At {
        At { epoch: 3, global }
    }

    fn behind(ring: &Ring, global: u64) -> Option<Vec<u64>> {
        let rows = ring.from(ring.behind(at(global))?, 9)?;
        Some(rows.into_iter().map(|told| told.at.global).collect())
    }

    #[test]
    fn who_was_cut_off_goes_on_behind_what_they_had_or_hears_that_it_is_gone() {
        let mut ring = Ring::default();
        for global in [1, 3, 2, 4] {
            ring.push(told(global));
        }
        assert_eq!(
            behind(&ring, 3),
            Some(vec![2, 4]),
            "in the order of their ends"
        );
        assert_eq!(behind(&ring, 4), Some(vec![]));
        assert_eq!(behind(&ring, 7), None);
        assert!(matches!(ring.find(at(3)), Found::Kept(told) if told.at == at(3)));
        assert!(matches!(ring.find(at(7)), Found::None));
        for global in 5..5 + KEPT as u64 {
            ring.push(told(global));
        }
        assert_eq!(behind(&ring, 4), None);
        assert!(matches!(ring.find(at(3)), Found::Dropped));
        assert!(ring.from(0, 1).is_none());
    }

    #[test]
    fn a_record_that_is_read_again_tells_what_is_new_and_no_more() {
        let mut ring = Ring::default();
        for global in [1, 3, 2] {
            ring.push(told(global));
        }
        let end = ring.end();
        let mut reading = Reading::new(&ring);
        for global in [1, 3, 2, 4, 5] {
            reading.take(told(global), &mut ring);
        }
        reading.whole(&mut ring);
        let news = ring.from(end, 9).unwrap();
        let news: Vec<_> = news.iter().map(|told| told.at.global).collect();
        assert_eq!(news, [4, 5]);
    }

    #[test]
    fn a_standing_grant_is_news_once_it_has_run_further() {
        let mut known = Arc::default();
        let mut grant = replayed(3, 7, "chat");
        assert!(!has_changed(&mut known, &[]));
        assert!(has_changed(&mut known, std::slice::from_ref(&grant)));
        assert!(!has_changed(&mut known, std::slice::from_ref(&grant)));
        grant.last += 1;
        assert!(has_changed(&mut known, &[grant]));
        assert_eq!((known[0].last, known[0].outcome.as_ref()), (2, None));
        let ended = |global| Position::explained(&replayed(3, global, "chat"), None);
        assert!(!has_ended(&mut known, &ended(8)) && has_ended(&mut known, &ended(7)));
        assert!(known.is_empty() && !has_changed(&mut known, &[]));
    }

    #[test]
    fn a_record_that_lacks_what_was_told_is_told_anew_and_who_watched_begins_anew() {
        let mut ring = Ring::default();
        ring.push(told(1));
        let end = ring.end();
        let mut reading = Reading::new(&ring);
        reading.take(told(7), &mut ring);
        reading.whole(&mut ring);
        assert!(
            ring.from(end, 9).is_none(),
            "what lies between is not known"
        );
        assert_eq!(ring.rows.len(), 1);
        assert_eq!(ring.behind(at(1)), None);
    }
}
