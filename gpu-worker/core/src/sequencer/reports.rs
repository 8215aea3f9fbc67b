//! Done reports: numbered for the life of the incarnation, kept until acknowledged.

use std::collections::VecDeque;

use bus_schemas::{
    COMPILATIONS, Compilation, DoneReport, GpuPosition, Outcome, ReportTimes, limits,
};

/// The reports that are not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Reports {
    kept: VecDeque<(DoneReport, ReportTimes)>,
    /// Compilations of these reports, by the number of their report.
    compiled: VecDeque<(u64, Compilation)>,
    /// Number of the last report forgotten.
    forgotten: u64,
    /// Number of the last report sent.
    sent: u64,
}

impl Reports {
    /// Number of the last report made.
    pub(super) fn made(&self) -> u64 {
        self.forgotten + self.kept.len() as u64
    }

    pub(super) fn push(&mut self, report: DoneReport, times: ReportTimes) {
        self.kept.push_back((report, times));
    }

    /// Notes compilations of the report that is made next. The reports of one message share the
    /// [`COMPILATIONS`] that it tells: what is beyond them is dropped, here or when it is written.
    pub(super) fn compiled_for_next(&mut self, compiled: &[Compilation]) {
        let next = self.made() + 1;
        let told = compiled.iter().take(COMPILATIONS);
        self.compiled.extend(told.map(|it| (next, *it)));
    }

    /// Number of the last report acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.forgotten
    }

    /// Reports made and never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.made() - self.sent
    }

    /// True if the unsent reports are a few slices that ran for at most `most` nanoseconds together.
    pub(super) fn are_little(&self, most: u64) -> bool {
        let unsent = self.unsent() as usize;
        let last = || {
            self.kept
                .iter()
                .rev()
                .take(unsent)
                .map(|(report, _)| report)
        };
        let ran = |report: &DoneReport| {
            matches!(report.outcome, Outcome::Ran | Outcome::Part) && report.measured > 0
        };
        (1..=16).contains(&unsent)
            && last().all(ran)
            && last().map(|report| report.measured).sum::<u64>() <= most
    }

    /// True if all unsent reports are of this position, with this outcome.
    pub(super) fn are_of(&self, position: GpuPosition, outcome: Outcome) -> bool {
        let mut unsent = self.kept.iter().rev().take(self.unsent() as usize);
        unsent.all(|(report, _)| report.position == position && report.outcome == outcome)
    }

    /// True if a report was sent and is not acknowledged.
    pub(super) fn is_waiting(&self) -> bool {
        self.sent > self.forgotten
    }

    /// True if every report is acknowledged.
    pub(super) fn is_clear(&self) -> bool {
        self.kept.is_empty()
    }

    /// Notes that the leader has the reports through `number`. Returns true if that is new.
    pub(super) fn acknowledge(&mut self, number: u64) -> bool {
        let through = number.min(self.made());
        let news = through > self.forgotten;
        while self.forgotten < through {
            self.forgotten += 1;
            self.kept.pop_front();
        }
        while self
            .compiled
            .pop_front_if(|(number, _)| *number <= self.forgotten)
            .is_some()
        {}
        self.sent = self.sent.max(self.forgotten);
        news
    }

    /// Marks everything that is not acknowledged as not sent.
    pub(super) fn rewind(&mut self) {
        self.sent = self.forgotten;
    }

    /// Returns the compilations of reports from number `first` on, `count` of them, each with its report's
    /// index.
    pub(super) fn compiled(&self, first: u64, count: usize) -> Vec<(usize, Compilation)> {
        let index = |number: u64| usize::try_from(number.checked_sub(first)?).ok();
        let told = self.compiled.iter();
        let told = told.filter_map(|(number, it)| Some((index(*number)?, *it)));
        told.take_while(|(index, _)| *index < count).collect()
    }

    /// Takes the next reports to send, at most a message's worth: number of the first, the reports, and their
    /// times.
    pub(super) fn take(&mut self) -> (u64, Vec<DoneReport>, Vec<ReportTimes>) {
        let first = self.sent + 1;
        let skip = (self.sent - self.forgotten) as usize;
        let next = self.kept.iter().skip(skip).take(limits::DONE_REPORTS);
        let (reports, times): (Vec<_>, Vec<_>) = next.copied().unzip();
        self.sent += reports.len() as u64;
        (first, reports, times)
    }
}
