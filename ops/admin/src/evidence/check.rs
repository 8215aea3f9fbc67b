//! The check that the submitted, started and ordered work agree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Evidence, KILLED, Started, Submitted};
use crate::record::PositionRow;

/// Maximum number of positions that a worker which died may have been running.
const RUNNING: usize = 1 << 16;

/// The findings of the check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EvidenceCheck {
    /// Ops that clients submitted.
    pub submitted: u64,
    /// Ops that ran.
    pub ran: u64,
    /// Positions that ended on workers.
    pub positions: u64,
    /// Submitted ops that never ran.
    pub lost: u64,
    /// Ops that ran more than once.
    pub duplicated: u64,
    /// Ops or positions out of their order.
    pub reordered: u64,
    /// Sessions that failed although nothing that they used was broken.
    pub failed: u64,
    /// All other disagreements, one sentence each (the first 20).
    pub disagreements: Vec<String>,
}

impl EvidenceCheck {
    /// True if everything agrees.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost + self.duplicated + self.reordered + self.failed == 0
            && self.disagreements.is_empty()
    }

    fn disagree(&mut self, what: String) {
        if self.disagreements.len() < 20 {
            self.disagreements.push(what);
        }
    }
}

impl Evidence {
    /// Compares the submitted, started and ordered work.
    #[must_use]
    pub fn verify(&self) -> EvidenceCheck {
        let mut check = EvidenceCheck::default();
        let submitted = self.submitted_through(&mut check);
        self.check_runs(&submitted, &mut check);
        self.check_failures(&mut check);
        self.check_positions(&mut check);
        self.check_kills(&mut check);
        check
    }

    /// Ops submitted per session. The lines of a session must be gapless and in order.
    fn submitted_through(&self, check: &mut EvidenceCheck) -> BTreeMap<&str, u64> {
        let mut through = BTreeMap::new();
        sorted("submitted", &self.submitted, Submitted::key, check);
        for line in &self.submitted {
            let last = through.entry(line.session.as_str()).or_insert(0);
            if line.first != *last + 1 || line.last < line.first {
                check.disagree(format!(
                    "submitted.jsonl: session {} goes from op {last} to {}..{}",
                    line.session, line.first, line.last
                ));
            }
            *last = line.last.max(*last);
        }
        check.submitted = through.values().sum();
        through
    }

    /// Checks that each session's ops ran once, in order and completely.
    fn check_runs(&self, submitted: &BTreeMap<&str, u64>, check: &mut EvidenceCheck) {
        let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
        let failed = self.failed();
        let failures = self.failures.iter();
        let mut cut: BTreeSet<&str> = failures.map(|line| line.session.as_str()).collect();
        // The last ops of a worker that died are unknown: its answers may have arrived before its
        // lines were written.
        let broken = self.broken();
        let theirs = self.started.iter();
        cut.extend(
            theirs
                .filter(|line| broken.contains(line.incarnation.as_str()))
                .map(|line| line.session.as_str()),
        );
        for line in self
            .started
            .iter()
            .filter(|line| matches!(&*line.kind, "run" | "standing"))
            .filter(|line| matches!(&*line.outcome, "ran" | "failed"))
            // A standing grant may be closed before any op came for it.
            .filter(|line| line.first <= line.last)
        {
            if let Some(op) = failed
                .get(line.session.as_str())
                .filter(|op| line.last > **op)
            {
                check.disagree(format!(
                    "session {} failed at op {op} and ran on to op {}",
                    line.session, line.last
                ));
            }
            let last = ran.entry(line.session.as_str()).or_insert(0);
            if line.first <= *last {
                check.duplicated += (*last).min(line.last).saturating_sub(line.first) + 1;
            } else if line.first > *last + 1 {
                check.reordered += line.first - *last - 1;
            }
            check.ran += line.last.saturating_sub(*last);
            *last = line.last.max(*last);
        }
        for (session, through) in &ran {
            let sent = submitted.get(session).copied().unwrap_or(0);
            if *through > sent {
                check.disagree(format!(
                    "session {session} ran ops through {through}, submitted through {sent}"
                ));
            }
        }
        // Ops submitted after a failed op do not run, and are not lost. The same holds for ops of a
        // program that was told of a failure, or was killed first.
        for (session, sent) in submitted
            .iter()
            .filter(|(session, _)| !failed.contains_key(**session) && !cut.contains(**session))
        {
            check.lost += sent.saturating_sub(ran.get(session).copied().unwrap_or(0));
        }
    }

    /// Failed sessions, each with the op that failed.
    fn failed(&self) -> BTreeMap<&str, u64> {
        let failed = self.started.iter().filter(|line| line.outcome == "failed");
        failed
            .map(|line| (line.session.as_str(), line.last))
            .collect()
    }

    /// Checks that a session failed only if its own kernel failed, its worker was lost, or its
    /// program died.
    fn check_failures(&self, check: &mut EvidenceCheck) {
        let lost = self.broken();
        let own = self.failed();
        let mut broken: BTreeMap<&str, bool> = BTreeMap::new();
        for line in &self.started {
            *broken.entry(&line.session).or_default() |= lost.contains(line.incarnation.as_str());
        }
        for pair in self.failures.windows(2) {
            if (&pair[0].tenant, pair[0].ordinal) > (&pair[1].tenant, pair[1].ordinal)
                || pair[0].session == pair[1].session
            {
                check.disagree(format!("failures.jsonl is not sorted at {:?}", pair[1]));
            }
        }
        for line in self.failures.iter().filter(|line| line.code != KILLED) {
            let session = line.session.as_str();
            // For a session that never reached its worker, the broken part is unknown.
            let innocent = broken.get(session) == Some(&false) && !own.contains_key(session);
            if innocent {
                check.failed += 1;
                check.disagree(format!(
                    "session {session} failed with {}, and nothing of it was broken",
                    line.code
                ));
            }
        }
    }

    /// Workers that were declared lost, or killed.
    fn broken(&self) -> BTreeSet<&str> {
        let broken = self.workers.iter();
        let broken = broken.filter(|worker| worker.lost || worker.dead);
        broken.map(|worker| worker.incarnation.as_str()).collect()
    }

    /// Checks that positions are gapless on each worker, and equal to those of the record.
    fn check_positions(&self, check: &mut EvidenceCheck) {
        sorted("started", &self.started, Started::key, check);
        let log = Log::of(&self.started, self.broken(), check);
        check.positions = log.lines.len() as u64;
        self.check_order(log, check);
    }

    /// Checks that the order has the positions that workers logged; for a lost worker, as far as
    /// both go.
    fn check_order<'a>(&'a self, mut log: Log<'a>, check: &mut EvidenceCheck) {
        let cut = self.workers.iter();
        let cut: BTreeMap<_, _> = cut.map(|it| (it.incarnation.as_str(), it.from)).collect();
        // Positions that were cut off the record are not in the order.
        log.lines.retain(|(incarnation, position), _| {
            cut.get(incarnation).is_none_or(|from| position > from)
        });
        let (mut last, mut before) = (cut, (0, 0));
        for line in &self.order {
            let from = last
                .insert(line.incarnation.as_str(), line.position)
                .unwrap_or(0);
            let here = (line.epoch, line.global);
            if line.position != from + 1 || here <= before {
                check.disagree(format!(
                    "order.jsonl: worker {} goes from position {from} to {}, the order from \
                     (epoch, global position) {before:?} to {here:?}",
                    line.incarnation, line.position
                ));
            }
            before = here;
            match log
                .lines
                .remove(&(line.incarnation.as_str(), line.position))
            {
                Some(there) if same(there, line) => {}
                Some(there) => check.disagree(format!("started {there:?}, ordered {line:?}")),
                None if log.may_lack(&line.incarnation, line.position) => {}
                None => check.disagree(format!(
                    "order.jsonl has position {} of worker {}, started.jsonl has not",
                    line.position, line.incarnation
                )),
            }
        }
        let beyond = log.lines.into_keys().filter(|(incarnation, position)| {
            !log.broken.contains(incarnation) || Some(position) < last.get(incarnation)
        });
        for (incarnation, position) in beyond {
            check.disagree(format!(
                "started.jsonl has position {position} of worker {incarnation}, order.jsonl has not"
            ));
        }
    }

    fn check_kills(&self, check: &mut EvidenceCheck) {
        let announced = self.kills.first().map_or(0, |kill| kill.of);
        if announced != self.kills.len() {
            check.disagree(format!("{announced} kills, {} lines", self.kills.len()));
        }
        let epochs: BTreeSet<_> = self.order.iter().map(|line| line.epoch).collect();
        if self.kills.is_empty() && self.faults.is_empty() && epochs.len() > 1 {
            check.disagree(format!(
                "the order has {} epochs, but no leader was killed",
                epochs.len()
            ));
        }
        for (index, kill) in self.kills.iter().enumerate() {
            if kill.kill != index + 1 || kill.successor <= kill.epoch {
                check.disagree(format!("kills.jsonl: line {} is {kill:?}", index + 1));
            }
        }
    }
}

/// The contents of the workers' logs.
struct Log<'a> {
    /// Lines by worker and position.
    lines: BTreeMap<(&'a str, u64), &'a Started>,
    /// The last position of each worker's lines.
    last: BTreeMap<&'a str, u64>,
    /// Positions before that without a line.
    absent: BTreeMap<&'a str, BTreeSet<u64>>,
    /// Workers that died.
    broken: BTreeSet<&'a str>,
}

impl<'a> Log<'a> {
    /// Reads the lines in order, and counts positions that are missing or out of order.
    fn of(lines: &'a [Started], broken: BTreeSet<&'a str>, check: &mut EvidenceCheck) -> Self {
        let mut log = Self {
            lines: BTreeMap::new(),
            last: BTreeMap::new(),
            absent: BTreeMap::new(),
            broken,
        };
        for line in lines {
            let worker = line.incarnation.as_str();
            let before = log.last.insert(worker, line.position).unwrap_or(0);
            let absent = log.absent.entry(worker).or_default();
            // A worker that died never reports the outcome of the positions that it was running.
            let died = log.broken.contains(worker);
            let gap = line.position != before + 1;
            absent.extend((before + 1..line.position).take(RUNNING));
            let named = died
                && line.position > before
                && absent.len() < RUNNING
                && absent.iter().all(|at| line.running.contains(at));
            let later = line.running.iter().any(|at| *at >= line.position);
            if later || (!named && (gap || (died && !absent.is_empty()))) {
                check.reordered += 1;
            }
            log.lines.insert((worker, line.position), line);
        }
        log
    }

    /// True if an ordered position may lack a line: its worker died, and its log and its leader's
    /// knowledge may end at different positions.
    fn may_lack(&self, worker: &str, position: u64) -> bool {
        let beyond = self.last.get(worker) < Some(&position);
        let absent = || {
            self.absent
                .get(worker)
                .is_some_and(|it| it.contains(&position))
        };
        self.broken.contains(worker) && (beyond || absent())
    }
}

/// Checks that the lines of a file are in the order of their keys.
fn sorted<'a, T: std::fmt::Debug, K: Ord>(
    file: &str,
    lines: &'a [T],
    key: impl Fn(&'a T) -> K,
    check: &mut EvidenceCheck,
) {
    for pair in lines
        .windows(2)
        .filter(|pair| key(&pair[0]) >= key(&pair[1]))
    {
        check.disagree(format!("{file}.jsonl is not sorted at {:?}", pair[1]));
    }
}

fn same(started: &Started, ordered: &PositionRow) -> bool {
    let whose = (
        started.gpu,
        &started.session,
        &started.tenant,
        started.ordinal,
    ) == (
        ordered.gpu,
        &ordered.session,
        &ordered.tenant,
        ordered.ordinal,
    );
    let what = (&started.kind, started.first) == (&ordered.kind, ordered.first);
    let (last, first) = (started.last, started.first);
    let cut_short = started.outcome == "failed" && (first..ordered.last).contains(&last);
    whose && what && started.granted == ordered.last && (last == ordered.last || cut_short)
}
