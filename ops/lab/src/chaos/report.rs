//! The result of a run as metrics, and the broken promises.

use admin::evidence::EvidenceCheck;
use admin::output;
use anyhow::Result;

use super::checker::CheckerFindings;
use super::collect::Swaps;
use super::metrics::{self, one, with_goal};
use super::plan::Shape;
use super::programs::Heard;
use super::strikes::Strikes;
use super::watched::Watched;
use crate::bench::Measurement;
use crate::demo::ReplaySummary;

/// All findings at the end of a run.
pub(super) struct Seen<'a> {
    pub(super) shape: &'a Shape,
    /// Threads that kept the machine busy.
    pub(super) load: usize,
    pub(super) strikes: &'a Strikes,
    pub(super) watched: Watched,
    pub(super) replayed: Option<&'a ReplaySummary>,
    /// Sessions swapped out, where memory is overcommitted.
    pub(super) swaps: Option<Swaps>,
    pub(super) check: EvidenceCheck,
    pub(super) checked: Result<CheckerFindings>,
}

impl Seen<'_> {
    /// Returns the metrics, and the known complaints with the broken promises added.
    pub(super) fn judge(&self, mut complaints: Vec<String>) -> (Vec<Measurement>, Vec<String>) {
        let heard: Vec<Heard> = self.strikes.programs.iter().map(|it| it.heard()).collect();
        let mut metrics = self.work(&heard);
        metrics.extend(self.promises(&heard));
        metrics.extend(self.watched.metrics());
        metrics.extend(
            self.swaps
                .map(|swaps| one(&metrics::SWAPS, swaps.outs).with("bytes", swaps.out_bytes)),
        );
        metrics.push(self.checker());
        metrics.extend(self.takeover());
        for metric in &metrics {
            complaints.extend(missed(metric));
        }
        complaints.extend(self.check.disagreements.iter().take(5).cloned());
        if let Ok(checked) = &self.checked {
            complaints.extend(checked.disagreements.iter().take(5).cloned());
        }
        let said = heard.iter().flat_map(|heard| &heard.complaints);
        let said: Vec<_> = said.take(10).cloned().collect();
        match complaints.is_empty() {
            // No promise is broken, but the operator should see these.
            true => said.iter().for_each(output::note),
            false => complaints.extend(said),
        }
        (metrics, complaints)
    }

    /// Metrics of the strikes, and of the programs' work meanwhile.
    fn work(&self, heard: &[Heard]) -> Vec<Measurement> {
        let shape = self.shape;
        let total = |of: fn(&Heard) -> u64| heard.iter().map(of).sum::<u64>();
        let kills = with_goal(
            &metrics::KILLS,
            crate::bench::Goal::AtLeast(shape.kills as f64),
            self.strikes.killed as f64,
        )
        .with("leaders", self.strikes.kills.len())
        .with("faults", self.strikes.faults.len())
        .with("load", self.load);
        let goal = metrics::ops_goal(shape.seconds);
        let ops = with_goal(&metrics::OPS, goal, self.check.submitted as f64)
            .with("sessions", total(|heard| heard.sessions))
            .with("results", total(|heard| heard.right + heard.wrong))
            .with("positions", self.check.positions);
        vec![kills, ops]
    }

    fn promises(&self, heard: &[Heard]) -> Vec<Measurement> {
        let total = |of: fn(&Heard) -> u64| heard.iter().map(of).sum::<u64>() as f64;
        let by = match &self.checked {
            Ok(_) => "tests/checker and order verify",
            Err(_) => "order verify alone",
        };
        // The worse of both counts if there are two.
        let worse = |ours: u64, theirs: fn(&CheckerFindings) -> u64| {
            let theirs = self.checked.as_ref().map_or(0, theirs);
            ours.max(theirs) as f64
        };
        let check = &self.check;
        let mut found = vec![
            one(&metrics::LOST, worse(check.lost, |it| it.lost)).with("by", by),
            one(
                &metrics::DUPLICATED,
                worse(check.duplicated, |it| it.duplicated),
            )
            .with("by", by),
            one(
                &metrics::REORDERED,
                worse(check.reordered, |it| it.reordered),
            )
            .with("by", by),
            one(&metrics::WRONG, total(|heard| heard.wrong)),
            one(&metrics::HUNG, total(|heard| heard.hung)),
            self.failed(heard, worse(check.failed, |it| it.failed)),
        ];
        match self.replayed {
            Some(replayed) => {
                let positions = replayed.positions.max(1) as f64;
                let share = replayed.adopted as f64 / positions;
                found.push(one(&metrics::SKIPPED, replayed.skipped as f64));
                found.push(one(&metrics::ADOPTED, share).with("adopted", replayed.adopted));
            }
            None => {
                let why = "the record was not replayed";
                found.push(Measurement::missing(&metrics::SKIPPED, why));
                found.push(Measurement::missing(&metrics::ADOPTED, why));
            }
        }
        found
    }

    fn failed(&self, heard: &[Heard], value: f64) -> Measurement {
        let mut metric = one(&metrics::FAILED, value);
        let failures = heard.iter().flat_map(|heard| &heard.failures);
        let mut codes: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
        for failure in failures {
            *codes.entry(failure.code.clone()).or_default() += 1;
        }
        for (code, times) in heard.iter().flat_map(|heard| &heard.refused) {
            *codes.entry(format!("refused {code}")).or_default() += times;
        }
        for (code, times) in codes {
            metric = metric.with(&code, times);
        }
        metric
    }

    fn checker(&self) -> Measurement {
        match &self.checked {
            Ok(checked) => one(&metrics::CHECKER, f64::from(u8::from(checked.ok)))
                .with("submitted", checked.submitted)
                .with("ran", checked.ran),
            Err(error) => Measurement::missing(&metrics::CHECKER, &format!("{error:#}")),
        }
    }

    fn takeover(&self) -> Option<Measurement> {
        if self.shape.brokers < 2 {
            return None;
        }
        let (silent, times) = self.strikes.pulse.longest();
        let both = &self.strikes.both_ms;
        let led = both.iter().copied().fold(0.0, f64::max);
        let worst = led.max(silent.as_secs_f64() * 1e3);
        Some(match times {
            0 => Measurement::missing(&metrics::TAKEOVER, "no broker was taken away"),
            times => one(&metrics::TAKEOVER, worst)
                .with("times", times)
                .with("with_leader", both.len())
                .with("with_leader_ms", led),
        })
    }
}

/// Complaint about a metric that misses its goal.
pub(super) fn missed(metric: &Measurement) -> Option<String> {
    let missed = metric
        .config
        .get("goal_met")
        .is_some_and(|met| met == false);
    let value = metric.value.unwrap_or_default();
    missed.then(|| format!("{} is {value}", metric.metric))
}
