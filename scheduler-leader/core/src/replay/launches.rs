//! The number of kernels among a session's ops, from its intents.

use std::collections::BTreeMap;

use bus_schemas::{CostClass, CostRun, Grant, GrantKind, OpNumber, SessionId};

/// Consecutive ops of one kind, with the number of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    last: OpNumber,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Launch,
    Other,
    /// Ops with an intent that died with a leader.
    Unknown,
}

/// Number of stretches of a session that are forgotten at a time.
const FORGOTTEN: usize = 64;

/// All sessions' intents.
#[derive(Debug, Default)]
pub(super) struct Launches {
    sessions: BTreeMap<SessionId, Vec<Stretch>>,
}

impl Launches {
    /// Adds announced ops. An earlier announcement of the same ops, to another leader, is
    /// forgotten.
    pub(super) fn announce(&mut self, session: SessionId, first: OpNumber, runs: &[CostRun]) {
        let stretches = self.sessions.entry(session).or_default();
        let before = first.saturating_sub(1);
        let keep = stretches.partition_point(|stretch| stretch.last <= before);
        let cut = stretches.get(keep).map(|stretch| stretch.kind);
        stretches.truncate(keep);
        let end = stretches.last().map_or(0, |stretch| stretch.last);
        if end < before {
            push(stretches, before, cut.unwrap_or(Kind::Unknown));
        }
        let mut last = before;
        for run in runs {
            last = last.saturating_add(u64::from(run.count));
            let kind = match run.class {
                CostClass::Launch => Kind::Launch,
                CostClass::Copy | CostClass::Sync | CostClass::Light => Kind::Other,
            };
            push(stretches, last, kind);
        }
    }

    /// Forgets a session's ops through this one, which are not needed any more.
    pub(super) fn forget(&mut self, session: SessionId, through: OpNumber) {
        if let Some(stretches) = self.sessions.get_mut(&session) {
            let before = stretches.partition_point(|stretch| stretch.last < through);
            // Many at a time: those behind them are moved.
            if before > FORGOTTEN {
                stretches.drain(..before);
            }
        }
    }

    /// Forgets a session that has ended.
    pub(super) fn forget_session(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Number of kept stretches.
    pub(super) fn kept(&self) -> usize {
        self.sessions.values().map(Vec::len).sum()
    }

    /// Number of launches of a grant, if known.
    pub(super) fn of(&self, grant: &Grant) -> Option<u64> {
        match grant.kind {
            GrantKind::Run | GrantKind::Standing => {
                self.count(grant.session, grant.first, grant.last)
            }
            GrantKind::Open | GrantKind::Close | GrantKind::Revoke | GrantKind::Return => Some(0),
        }
    }

    /// Number of launches among these ops, if all of them were announced.
    fn count(&self, session: SessionId, first: OpNumber, last: OpNumber) -> Option<u64> {
        let (launches, unknown) = self.tally(session, first, last);
        (unknown == 0).then_some(launches)
    }

    /// Number of launches among these ops, and of ops that were not announced.
    pub(super) fn tally(&self, session: SessionId, first: OpNumber, last: OpNumber) -> (u64, u64) {
        let stretches = self.sessions.get(&session).map_or(&[][..], Vec::as_slice);
        let at = stretches.partition_point(|stretch| stretch.last < first);
        let (mut from, mut launches, mut unknown) = (first, 0, 0);
        for stretch in stretches.iter().skip(at) {
            if from > last {
                break;
            }
            let through = stretch.last.min(last);
            match stretch.kind {
                Kind::Launch => launches += through.saturating_add(1) - from,
                Kind::Other => {}
                Kind::Unknown => unknown += through.saturating_add(1) - from,
            }
            from = through.saturating_add(1);
        }
        (
            launches,
            unknown + last.saturating_add(1).saturating_sub(from),
        )
    }
}

fn push(stretches: &mut Vec<Stretch>, last: OpNumber, kind: Kind) {
    match stretches.last_mut() {
        Some(stretch) if stretch.kind == kind => stretch.last = last,
        _ => stretches.push(Stretch { last, kind }),
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::KernelKey;

    use super::*;

    fn run(class: CostClass, count: u32) -> CostRun {
        CostRun {
            class,
            key: KernelKey(1),
            bytes: 0,
            count,
        }
    }

    #[test]
    fn launches_are_counted_over_any_range() {
        let (mut launches, session) = (Launches::default(), SessionId(1));
        let (launch, sync) = (CostClass::Launch, CostClass::Sync);
        launches.announce(session, 1, &[run(launch, 10), run(sync, 1)]);
        launches.announce(session, 12, &[run(launch, 4), run(launch, 5)]);
        assert_eq!(launches.count(session, 1, 20), Some(19));
        assert_eq!(launches.count(session, 10, 12), Some(2));
        assert_eq!(launches.count(session, 11, 11), Some(0));
        assert_eq!(launches.count(session, 20, 21), None, "not announced");
        assert_eq!(launches.count(SessionId(2), 1, 1), None);
        // A successor hears the ops from 15 on again, cut differently.
        launches.announce(session, 15, &[run(sync, 2), run(launch, 4)]);
        assert_eq!(launches.count(session, 12, 20), Some(3 + 4));
        // It hears none before 30.
        launches.announce(session, 30, &[run(launch, 1)]);
        assert_eq!(launches.count(session, 20, 30), None);
        assert_eq!(launches.count(session, 30, 30), Some(1));
        assert_eq!(launches.tally(session, 17, 32), (5, 11));
        assert_eq!(launches.tally(SessionId(2), 3, 7), (0, 5));
    }

    #[test]
    fn what_is_forgotten_changes_no_count_behind_it() {
        let (mut launches, session) = (Launches::default(), SessionId(1));
        let (launch, sync) = (CostClass::Launch, CostClass::Sync);
        for turn in 0..10_000 {
            let first = 3 * turn + 1;
            launches.announce(session, first, &[run(launch, 2), run(sync, 1)]);
            assert_eq!(launches.count(session, first, first + 2), Some(2));
            launches.forget(session, first.saturating_sub(1));
            assert!(launches.kept() < FORGOTTEN + 8);
        }
        assert_eq!(launches.count(session, 29_998, 30_000), Some(2));
        launches.forget_session(session);
        assert_eq!(launches.kept(), 0);
    }
}
