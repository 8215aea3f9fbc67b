//! The check that what was submitted, started and ordered agree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Evidence, Ordered, Started};

/// What the check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
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
    /// Everything else that does not agree, one sentence each (the first 20).
    pub disagreements: Vec<String>,
}

impl Verdict {
    /// Whether everything agrees.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost + self.duplicated + self.reordered == 0 && self.disagreements.is_empty()
    }

    fn disagree(&mut self, what: String) {
        if self.disagreements.len() < 20 {
            self.disagreements.push(what);
        }
    }
}

impl Evidence {
    /// Compares what was submitted, started and ordered.
    #[must_use]
    pub fn verify(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let submitted = self.submitted_through(&mut verdict);
        self.check_runs(&submitted, &mut verdict);
        self.check_positions(&mut verdict);
        self.check_kills(&mut verdict);
        verdict
    }

    /// Ops submitted per session; its lines must be gapless and in order.
    fn submitted_through(&self, verdict: &mut Verdict) -> BTreeMap<&str, u64> {
        let mut through = BTreeMap::new();
        for pair in self
            .submitted
            .windows(2)
            .filter(|pair| pair[0].key() >= pair[1].key())
        {
            verdict.disagree(format!("submitted.jsonl is not sorted at {:?}", pair[1]));
        }
        for line in &self.submitted {
            let last = through.entry(line.session.as_str()).or_insert(0);
            if line.first != *last + 1 || line.last < line.first {
                verdict.disagree(format!(
                    "submitted.jsonl: session {} goes from op {last} to {}..{}",
                    line.session, line.first, line.last
                ));
            }
            *last = line.last.max(*last);
        }
        verdict.submitted = through.values().sum();
        through
    }

    /// Each session's ops ran once, in order, all of them.
    fn check_runs(&self, submitted: &BTreeMap<&str, u64>, verdict: &mut Verdict) {
        let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
        let failed = self.failed();
        let standing = self.started.iter().filter(|line| line.kind == "standing");
        let stood: BTreeSet<&str> = standing.map(|line| line.session.as_str()).collect();
        for line in self
            .started
            .iter()
            .filter(|line| matches!(&*line.kind, "run" | "standing"))
            .filter(|line| matches!(&*line.outcome, "ran" | "failed"))
            // A standing grant may be closed before anything came for it.
            .filter(|line| line.first <= line.last)
        {
            if let Some(op) = failed
                .get(line.session.as_str())
                .filter(|op| line.last > **op)
            {
                verdict.disagree(format!(
                    "session {} failed at op {op} and ran on to op {}",
                    line.session, line.last
                ));
            }
            let last = ran.entry(line.session.as_str()).or_insert(0);
            if line.first <= *last {
                verdict.duplicated += (*last).min(line.last).saturating_sub(line.first) + 1;
            } else if line.first > *last + 1 {
                verdict.reordered += line.first - *last - 1;
            }
            verdict.ran += line.last.saturating_sub(*last);
            *last = line.last.max(*last);
        }
        for (session, through) in &ran {
            let sent = submitted.get(session).copied().unwrap_or(0);
            // Under a standing grant ops run before the leader hears of them, and of a session that
            // has ended meanwhile it hears no more. A worker runs what a client sent.
            let unheard = stood.contains(session);
            if *through > sent && !unheard {
                verdict.disagree(format!(
                    "session {session} ran ops through {through}, submitted through {sent}"
                ));
            }
        }
        // What was submitted behind a failed op does not run, and is not lost.
        for (session, sent) in submitted
            .iter()
            .filter(|(session, _)| !failed.contains_key(**session))
        {
            verdict.lost += sent.saturating_sub(ran.get(session).copied().unwrap_or(0));
        }
    }

    /// Sessions that failed, and the op at which.
    fn failed(&self) -> BTreeMap<&str, u64> {
        let failed = self.started.iter().filter(|line| line.outcome == "failed");
        failed
            .map(|line| (line.session.as_str(), line.last))
            .collect()
    }

    /// Positions are gapless on each worker, and the record has the same.
    fn check_positions(&self, verdict: &mut Verdict) {
        let mut started: BTreeMap<(&str, u64), &Started> = BTreeMap::new();
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for pair in self
            .started
            .windows(2)
            .filter(|pair| pair[0].key() >= pair[1].key())
        {
            verdict.disagree(format!("started.jsonl is not sorted at {:?}", pair[1]));
        }
        for line in &self.started {
            let before = last.insert(&line.incarnation, line.position).unwrap_or(0);
            if line.position != before + 1 {
                verdict.reordered += 1;
            }
            started.insert((&line.incarnation, line.position), line);
        }
        verdict.positions = started.len() as u64;
        let (mut last, mut before) = (BTreeMap::new(), (0, 0));
        for line in &self.order {
            let from = last
                .insert(line.incarnation.as_str(), line.position)
                .unwrap_or(0);
            let here = (line.epoch, line.global);
            if line.position != from + 1 || here <= before {
                verdict.disagree(format!(
                    "order.jsonl: worker {} goes from position {from} to {}, the order from \
                     (epoch, global position) {before:?} to {here:?}",
                    line.incarnation, line.position
                ));
            }
            before = here;
            match started.remove(&(line.incarnation.as_str(), line.position)) {
                Some(there) if same(there, line) => {}
                Some(there) => verdict.disagree(format!("started {there:?}, ordered {line:?}")),
                None => verdict.disagree(format!(
                    "order.jsonl has position {} of worker {}, started.jsonl has not",
                    line.position, line.incarnation
                )),
            }
        }
        for (incarnation, position) in started.into_keys() {
            verdict.disagree(format!(
                "started.jsonl has position {position} of worker {incarnation}, order.jsonl has not"
            ));
        }
    }

    fn check_kills(&self, verdict: &mut Verdict) {
        let announced = self.kills.first().map_or(0, |kill| kill.of);
        if announced != self.kills.len() {
            verdict.disagree(format!("{announced} kills, {} lines", self.kills.len()));
        }
        let epochs: BTreeSet<_> = self.order.iter().map(|line| line.epoch).collect();
        if self.kills.is_empty() && epochs.len() > 1 {
            verdict.disagree(format!(
                "the order has {} epochs, but nobody was killed",
                epochs.len()
            ));
        }
        for (index, kill) in self.kills.iter().enumerate() {
            if kill.kill != index + 1 || kill.successor <= kill.epoch {
                verdict.disagree(format!("kills.jsonl: line {} is {kill:?}", index + 1));
            }
        }
    }
}

fn same(started: &Started, ordered: &Ordered) -> bool {
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
    whose && what && (last == ordered.last || cut_short)
}
