//! Calls that failed while their session went on: the request under way tells them, or the next one of their thread.

use bus_schemas::{CallError, Code, Failure, RequestReports, RequestRun, Row, limits};

use crate::Nanos;

/// Maximum number of threads with errors and no request.
const THREADS: usize = 256;

/// An error, for one failed call or for several.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Met {
    at: Nanos,
    count: u32,
    code: Code,
    words: String,
}

/// The errors of a request, of which few are told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Errors(Vec<Met>);

impl Errors {
    /// Notes a failed call. One with the error of the last one, and one without room, is counted with the last one.
    pub(super) fn add(&mut self, failure: &Failure, at: Nanos) {
        let (code, words) = (failure.code, failure.words());
        let is_full = self.0.len() >= limits::CALL_ERRORS;
        let last = self.0.last_mut();
        match last.filter(|last| is_full || (last.code == code && last.words == words)) {
            Some(last) => last.count = last.count.saturating_add(1),
            None => self.0.push(Met {
                at,
                count: 1,
                code,
                words: words.to_owned(),
            }),
        }
    }

    /// The room that they take in a report, as a number of runs.
    pub(super) fn runs(&self) -> usize {
        let bytes = self.0.iter().map(|it| CallError::SIZE + it.words.len());
        bytes.sum::<usize>().div_ceil(RequestRun::SIZE)
    }

    /// Adds them to a report, for the request with this index. `since_1970` converts times.
    pub(super) fn tell(
        self,
        reports: &mut RequestReports,
        report: u64,
        since_1970: impl Fn(Nanos) -> u64,
    ) {
        for met in self.0 {
            reports.words.push_str(&met.words);
            reports.errors.push(CallError {
                report,
                at: since_1970(met.at),
                count: met.count,
                code: met.code,
                // The words are shorter than that.
                words: u16::try_from(met.words.len()).unwrap_or(u16::MAX),
            });
        }
    }
}

/// The errors of threads that have no request under way.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<(u32, Errors)>);

impl Pending {
    /// Notes a failed call of a thread. If there are too many threads, the one that came first is forgotten.
    pub(super) fn add(&mut self, thread: u32, failure: &Failure, at: Nanos) {
        let mut threads = self.0.iter_mut();
        if let Some((_, errors)) = threads.find(|(of, _)| *of == thread) {
            errors.add(failure, at);
            return;
        }
        if self.0.len() >= THREADS {
            self.0.remove(0);
        }
        let mut errors = Errors::default();
        errors.add(failure, at);
        self.0.push((thread, errors));
    }

    /// Takes the errors of a thread: its next request begins.
    pub(super) fn take(&mut self, thread: u32) -> Errors {
        let at = self.0.iter().position(|(of, _)| *of == thread);
        at.map(|at| self.0.remove(at).1).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_without_a_request_are_bounded() {
        let mut pending = Pending::default();
        for thread in 0..=THREADS as u32 {
            pending.add(thread, &Failure::new(Code::Quota, "full"), 1);
        }
        assert_eq!(pending.0.len(), THREADS);
        assert_eq!(pending.take(0), Errors::default(), "it is forgotten");
        assert_eq!(pending.take(1).0.len(), 1);
        assert_eq!(pending.take(1), Errors::default(), "it is taken");
    }

    #[test]
    fn words_are_cut_and_further_calls_are_counted() {
        let mut errors = Errors::default();
        for at in 0..3 {
            errors.add(&Failure::new(Code::Quota, "é".repeat(200)), at);
        }
        for at in 3..9 {
            errors.add(&Failure::new(Code::BadModule, format!("line {at}")), at);
        }
        let told = errors.0.iter().map(|it| (it.at, it.count, it.words.len()));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(0, 3, 256), (3, 1, 6), (4, 1, 6), (5, 4, 6)]);
        assert_eq!(errors.runs(), (4 * 24 + 256 + 18_usize).div_ceil(24));
        assert_eq!(Errors::default().runs(), 0);
    }
}
