//! The announced costs of a session's ops, from its intents: the kernels of a position, and the bytes that it copies.
//!
//! Under a standing grant the leader may hear that ops have run before it hears of their costs. Such a position is told
//! when the costs are known, and later ones of its session after it.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{CostClass, CostRun, GrantKind, Incarnation, KernelKey, OpNumber, SessionId};

use super::replayed::ReplayedPosition;

/// Maximum number of runs of a session that are kept; beyond it the oldest are forgotten.
const KEPT: usize = 65_536;
/// Maximum number of runs of one position that are told apart.
const TOLD: usize = 32;
/// Maximum number of positions of a session that wait for their costs.
const LATE: usize = 1_024;

/// Consecutive ops of equal cost, with the number of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    last: OpNumber,
    class: CostClass,
    key: KernelKey,
    bytes: u64,
}

/// All sessions' costs.
#[derive(Debug, Default)]
pub(super) struct Costs {
    sessions: BTreeMap<SessionId, Costed>,
}

#[derive(Debug, Default)]
struct Costed {
    /// The last op before the stretches.
    before: OpNumber,
    stretches: VecDeque<Stretch>,
    /// Positions that ran, and are told once all their costs are known.
    late: VecDeque<ReplayedPosition>,
    /// The worker of the session.
    worker: Option<Incarnation>,
}

impl Costed {
    fn last(&self) -> OpNumber {
        self.stretches.back().map_or(self.before, |it| it.last)
    }
}

impl Costs {
    /// Adds announced ops. An earlier announcement of the same ops, to another leader, is forgotten.
    pub(super) fn announce(&mut self, session: SessionId, first: OpNumber, runs: &[CostRun]) {
        let costed = self.sessions.entry(session).or_default();
        let before = first.saturating_sub(1);
        while costed
            .stretches
            .pop_back_if(|it| it.last > before)
            .is_some()
        {}
        if costed.last() != before {
            // The intent between died with a leader, or is announced anew from within a stretch.
            costed.stretches.clear();
            costed.before = before;
        }
        let mut last = before;
        for run in runs {
            last = last.saturating_add(u64::from(run.count));
            costed.stretches.push_back(Stretch {
                last,
                class: run.class,
                key: run.key,
                bytes: run.bytes,
            });
        }
        while costed.stretches.len() > KEPT
            && let Some(gone) = costed.stretches.pop_front()
        {
            costed.before = gone.last;
        }
    }

    /// Takes a position or part that has ended, and tells what can be told of its session now.
    pub(super) fn end(&mut self, row: ReplayedPosition, tell: &mut impl FnMut(ReplayedPosition)) {
        let session = row.session;
        match row.kind {
            GrantKind::Run | GrantKind::Standing if row.timing.is_some() => {
                let costed = self.sessions.entry(session).or_default();
                costed.worker = Some(row.incarnation);
                costed.late.push_back(row);
                let all = costed.late.len() > LATE;
                self.tell(session, all, tell);
            }
            GrantKind::Close => {
                self.tell(session, true, tell);
                self.sessions.remove(&session);
                tell(row);
            }
            _ => tell(row),
        }
    }

    /// Tells the positions of a session with known costs, or all.
    pub(super) fn tell(
        &mut self,
        session: SessionId,
        all: bool,
        tell: &mut impl FnMut(ReplayedPosition),
    ) {
        while let Some(costed) = self.sessions.get_mut(&session)
            && let Some(row) = costed.late.front()
        {
            let is_known = costed.before < row.first && row.last <= costed.last();
            // Costs from before the known ones never come.
            let may_come = costed.before < row.first && costed.last() < row.last;
            if may_come && !all {
                return;
            }
            let Some(mut row) = costed.late.pop_front() else {
                return;
            };
            row.work = self.of(session, row.first, row.last);
            if is_known {
                let launches = row.work.iter().filter(|run| run.class == CostClass::Launch);
                row.launches = Some(launches.map(|run| u64::from(run.count)).sum());
            }
            self.forget(session, row.last);
            tell(row);
        }
    }

    /// Tells all positions: a leader has gone, and what it did not record is not announced again.
    pub(super) fn tell_all(&mut self, tell: &mut impl FnMut(ReplayedPosition)) {
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.tell(session, true, tell);
        }
        // A session that has run nothing is announced anew.
        self.sessions.retain(|_, it| it.worker.is_some());
    }

    /// Tells the positions of a lost worker's sessions, and forgets these.
    pub(super) fn lost(&mut self, worker: Incarnation, tell: &mut impl FnMut(ReplayedPosition)) {
        let here = self
            .sessions
            .iter()
            .filter(|(_, it)| it.worker == Some(worker));
        let here: Vec<_> = here.map(|(session, _)| *session).collect();
        for session in here {
            self.tell(session, true, tell);
            self.sessions.remove(&session);
        }
    }

    /// Forgets a session's ops through this one.
    fn forget(&mut self, session: SessionId, through: OpNumber) {
        let Some(costed) = self.sessions.get_mut(&session) else {
            return;
        };
        while let Some(gone) = costed.stretches.pop_front_if(|it| it.last <= through) {
            costed.before = gone.last;
        }
    }

    /// Number of kept runs and positions.
    pub(super) fn kept(&self) -> usize {
        let kept = |it: &Costed| it.stretches.len() + it.late.len();
        self.sessions.values().map(kept).sum()
    }

    /// The announced costs of ops, in the order of the first op of each kernel, or of each other class. Equal ones
    /// are merged, even with others between, and those beyond a bound too. `bytes` is the sum of a run's ops.
    fn of(&self, session: SessionId, first: OpNumber, last: OpNumber) -> Vec<CostRun> {
        let mut told: Vec<CostRun> = Vec::new();
        let Some(costed) = self.sessions.get(&session) else {
            return told;
        };
        let mut from = first.max(costed.before.saturating_add(1));
        let at = costed.stretches.partition_point(|it| it.last < from);
        for stretch in costed.stretches.iter().skip(at) {
            if from > last {
                break;
            }
            let through = stretch.last.min(last);
            let count = u32::try_from(through.saturating_add(1) - from).unwrap_or(u32::MAX);
            from = through.saturating_add(1);
            let bytes = stretch.bytes.saturating_mul(u64::from(count));
            let same = |it: &CostRun| it.class == stretch.class && it.key == stretch.key;
            let at = told.iter().position(same);
            let at = at.or_else(|| {
                let full = told.len() >= TOLD;
                told.iter().position(|it| full && it.class == stretch.class)
            });
            match at.and_then(|at| told.get_mut(at)) {
                Some(run) => {
                    run.count = run.count.saturating_add(count);
                    run.bytes = run.bytes.saturating_add(bytes);
                }
                None => told.push(CostRun {
                    class: stretch.class,
                    key: stretch.key,
                    bytes,
                    count,
                }),
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(class: CostClass, key: u64, bytes: u64, count: u32) -> CostRun {
        CostRun {
            class,
            key: KernelKey(key),
            bytes,
            count,
        }
    }

    #[test]
    fn the_costs_of_a_position_are_merged_by_kernel() {
        let (mut costs, session) = (Costs::default(), SessionId(1));
        let (launch, copy, sync) = (CostClass::Launch, CostClass::Copy, CostClass::Sync);
        let announced = [
            run(launch, 7, 0, 2),
            run(launch, 8, 0, 1),
            run(launch, 7, 0, 1),
            run(copy, 0, 100, 3),
            run(sync, 0, 0, 1),
        ];
        costs.announce(session, 1, &announced);
        let told = costs.of(session, 2, 6);
        assert_eq!(
            told,
            [
                run(launch, 7, 0, 2),
                run(launch, 8, 0, 1),
                run(copy, 0, 200, 2)
            ]
        );
        // A successor hears the ops from 4 on again.
        costs.announce(session, 4, &announced[2..]);
        assert_eq!(costs.of(session, 2, 6), told);
        // It hears none of 9 and 10.
        costs.announce(session, 11, &[run(launch, 9, 0, 1)]);
        assert_eq!(costs.of(session, 1, 10), []);
        assert_eq!(costs.of(session, 1, 11), [run(launch, 9, 0, 1)]);
        costs.forget(session, 11);
        assert_eq!((costs.of(session, 11, 11), costs.kept()), (vec![], 0));
    }

    fn ran(session: u64, first: OpNumber, last: OpNumber, kind: GrantKind) -> ReplayedPosition {
        ReplayedPosition {
            gpu: 0,
            incarnation: Incarnation(1),
            position: last,
            global: last,
            epoch: 1,
            input: 1,
            tenant: "chat".parse().expect("a name"),
            ordinal: 1,
            session: SessionId(session),
            kind,
            priority: 0,
            first,
            last,
            launches: None,
            work: Vec::new(),
            cost: 0,
            end: None,
            adopted: false,
            timing: Some(Box::default()),
            chain: None,
        }
    }

    #[test]
    fn a_position_is_told_with_its_costs_and_later_ones_after_it() {
        let mut costs = Costs::default();
        let mut told = Vec::new();
        let mut take = |row: ReplayedPosition| {
            told.push((row.session.0, row.last, row.launches, row.work.len()));
        };
        let launch = |count| [run(CostClass::Launch, 7, 0, count)];
        costs.announce(SessionId(1), 1, &launch(2));
        costs.end(ran(1, 1, 3, GrantKind::Standing), &mut take);
        costs.end(ran(1, 4, 4, GrantKind::Standing), &mut take);
        costs.end(ran(2, 1, 1, GrantKind::Run), &mut take);
        costs.announce(SessionId(1), 3, &launch(2));
        costs.tell(SessionId(1), false, &mut take);
        // The intent of 5 died with a leader.
        costs.announce(SessionId(1), 6, &launch(1));
        costs.end(ran(1, 5, 6, GrantKind::Standing), &mut take);
        costs.end(ran(1, 7, 9, GrantKind::Standing), &mut take);
        costs.end(ran(1, 0, 0, GrantKind::Close), &mut take);
        costs.tell_all(&mut take);
        assert_eq!(
            told,
            [
                (1, 3, Some(3), 1),
                (1, 4, Some(1), 1),
                (1, 6, None, 1),
                (1, 9, None, 0),
                (1, 0, None, 0),
                (2, 1, None, 0),
            ]
        );
        assert_eq!(costs.kept(), 0);
    }

    #[test]
    fn a_kernel_beyond_the_bound_is_counted_with_another_and_known_ones_with_themselves() {
        let (mut costs, session) = (Costs::default(), SessionId(1));
        let keys = (1..=TOLD as u64 + 1).chain([2]);
        let runs: Vec<_> = keys.map(|key| run(CostClass::Launch, key, 0, 1)).collect();
        costs.announce(session, 1, &runs);
        let told = costs.of(session, 1, u64::MAX);
        let counts: Vec<_> = told.iter().take(3).map(|it| it.count).collect();
        assert_eq!((told.len(), counts), (TOLD, vec![2, 2, 1]));
    }

    #[test]
    fn a_session_and_a_position_are_bounded() {
        let (mut costs, session) = (Costs::default(), SessionId(1));
        for op in 1..=2 * KEPT as u64 {
            costs.announce(session, op, &[run(CostClass::Launch, op, 0, 1)]);
        }
        assert_eq!(costs.kept(), KEPT);
        let told = costs.of(session, 1, u64::MAX);
        assert_eq!(told.len(), TOLD);
        let ops: u64 = told.iter().map(|it| u64::from(it.count)).sum();
        assert_eq!(ops, KEPT as u64);
    }
}
