//! A session's requests, for its traces: each is the work of one thread between two of its waits.
//!
//! An op costs a look at its thread's request and a count. The clock is read when a request begins,
//! when the thread waits, and when the answer comes.

use std::collections::VecDeque;

use bus_schemas::{
    ClientProcess, Code, Failure, Op, OpNumber, RequestReport, RequestReports, RequestRun,
    SessionId, TraceContext, WIRE_VERSION, encode, limits,
};

use crate::Nanos;

/// Time for which a finished request waits for others before it is reported.
const LINGER: Nanos = 100_000_000;
/// Number of finished requests that are reported without waiting for more.
const ENOUGH: usize = 64;
/// Maximum number of threads with a request that has no wait yet. The oldest of more is reported as it is.
const THREADS: usize = 256;
/// Maximum number of unanswered requests.
const WAITED: usize = 4_096;
/// Maximum number of runs of a request; the last one then reaches to its last op.
const RUNS: usize = 256;
/// Maximum number of runs of loads of a request that are told.
const LOADS: usize = 64;

/// The thread that calls, and its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its number in the program.
    pub thread: u32,
    /// The program's span on it.
    pub parent: Option<TraceContext>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    thread: u32,
    parent: Option<TraceContext>,
    began: Nanos,
    waited: Nanos,
    launches: u32,
    /// Its first ops, through `last` if there are no others between.
    first: OpNumber,
    last: OpNumber,
    /// Ops before those of `first`, if other threads' ops are between.
    before: Vec<(OpNumber, OpNumber)>,
    /// Its loads of modules, in runs.
    loads: Vec<(OpNumber, OpNumber)>,
    /// The first op of the whole request.
    start: OpNumber,
}

impl Request {
    #[inline]
    fn extend(&mut self, number: OpNumber) {
        if number != self.last + 1 && self.before.len() < RUNS - 1 {
            self.before.push((self.first, self.last));
            self.first = number;
        }
        self.last = number;
    }

    #[cold]
    fn load(&mut self, number: OpNumber) {
        let room = self.loads.len() < LOADS;
        match self.loads.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ if room => self.loads.push((number, number)),
            _ => {}
        }
    }
}

/// A finished request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finished {
    request: Request,
    ended: Nanos,
    error: Option<Code>,
}

/// The requests of one session. Times are nanoseconds of the session's clock.
#[derive(Debug, Default)]
pub struct Requests {
    /// The session's own parent of requests, unless their thread has one.
    parent: Option<TraceContext>,
    /// Requests without a wait, one for each thread at most.
    open: Vec<Request>,
    /// Requests that a thread waits for.
    waited: Vec<Request>,
    finished: VecDeque<Finished>,
    dropped: u64,
    /// The failure of requests that ended with an error, as reports tell it.
    failure: String,
}

impl Requests {
    /// Sets the parent of later requests of threads that have none.
    pub fn set_parent(&mut self, parent: Option<TraceContext>) {
        self.parent = parent;
    }

    /// Notes an op of a thread. `now` reads the clock.
    #[inline]
    pub fn pushed(
        &mut self,
        op: &Op,
        number: OpNumber,
        caller: Caller,
        now: impl FnOnce() -> Nanos,
    ) {
        let waits = op.has_result();
        let launches = u32::from(matches!(op, Op::Launch(_)));
        let of_thread = |it: &Request| it.thread == caller.thread;
        let Some(at) = self.open.iter().position(of_thread) else {
            self.begin((op, number), launches, caller, now);
            return;
        };
        if let Some(open) = self.open.get_mut(at) {
            open.extend(number);
            open.launches = open.launches.saturating_add(launches);
            if is_load(op) {
                open.load(number);
            }
        }
        if waits {
            let mut request = self.open.swap_remove(at);
            request.waited = now();
            self.wait(request);
        }
    }

    #[cold]
    fn begin(
        &mut self,
        (op, number): (&Op, OpNumber),
        launches: u32,
        caller: Caller,
        now: impl FnOnce() -> Nanos,
    ) {
        let (waits, mut waited) = (op.has_result(), self.waited.iter_mut());
        // A wait right after an unanswered one belongs to the same request, as for the pieces of
        // one copy.
        if waits && let Some(request) = waited.rfind(|it| it.thread == caller.thread) {
            return request.extend(number);
        }
        let began = now();
        if !waits && self.open.len() >= THREADS {
            self.finish_oldest(began);
        }
        let mut request = Request {
            thread: caller.thread,
            parent: caller.parent.or(self.parent),
            began,
            waited: began,
            launches,
            first: number,
            last: number,
            before: Vec::new(),
            loads: Vec::new(),
            start: number,
        };
        if is_load(op) {
            request.load(number);
        }
        match waits {
            true => self.wait(request),
            false => self.open.push(request),
        }
    }

    /// Ends the oldest request without a wait: its thread may have ended.
    fn finish_oldest(&mut self, now: Nanos) {
        let ages = self.open.iter().enumerate();
        let oldest = ages.min_by_key(|(_, request)| request.began);
        if let Some((at, _)) = oldest {
            let mut request = self.open.swap_remove(at);
            request.waited = now;
            self.finish(request, now, None);
        }
    }

    fn wait(&mut self, request: Request) {
        match self.waited.len() < WAITED {
            true => self.waited.push(request),
            false => self.dropped += 1,
        }
    }

    /// Notes that a thread waited for its ops through this one without a message: they were known to be done.
    pub fn settled(&mut self, thread: u32, through: OpNumber, now: Nanos) {
        let done = |it: &Request| it.thread == thread && it.last <= through;
        if let Some(at) = self.open.iter().position(done) {
            let mut request = self.open.swap_remove(at);
            request.waited = now;
            self.finish(request, now, None);
        }
    }

    /// Notes that an op with a result was answered.
    pub fn answered(&mut self, op: OpNumber, now: Nanos) {
        let mut at = 0;
        while let Some(request) = self.waited.get(at) {
            if request.last > op {
                at += 1;
                continue;
            }
            let request = self.waited.remove(at);
            self.finish(request, now, None);
        }
    }

    /// Notes that the session is over: by a failure, or at its end.
    pub fn over(&mut self, failure: Option<&Failure>, now: Nanos) {
        let error = failure.map(|failure| failure.code);
        if let Some(failure) = failure {
            self.failure = RequestReports::told(failure);
        }
        let waited = std::mem::take(&mut self.waited);
        let mut open = std::mem::take(&mut self.open);
        open.iter_mut().for_each(|request| request.waited = now);
        for request in waited.into_iter().chain(open) {
            self.finish(request, now, error);
        }
    }

    fn finish(&mut self, request: Request, ended: Nanos, error: Option<Code>) {
        if self.finished.len() >= limits::REQUESTS {
            self.dropped += 1;
            return;
        }
        self.finished.push_back(Finished {
            request,
            ended,
            error,
        });
    }

    /// Returns the time at which finished requests are to be reported.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        let first = self.finished.front()?;
        Some(match self.finished.len() < ENOUGH {
            true => first.ended.saturating_add(LINGER),
            false => 0,
        })
    }

    /// Returns the report of the finished requests, encoded, if it is due or `now` is `None`.
    /// `zero` is the zero of the session's clock in nanoseconds since 1970.
    #[must_use]
    pub fn report(
        &mut self,
        now: Option<Nanos>,
        zero: u64,
        session: SessionId,
        process: ClientProcess,
    ) -> Option<Vec<u8>> {
        let due = self.next_wakeup()?;
        if now.is_some_and(|now| now < due) {
            return None;
        }
        let mut reports = RequestReports {
            v: WIRE_VERSION,
            session,
            process: Some(process),
            dropped: self.dropped,
            rows: Vec::with_capacity(self.finished.len()),
            runs: Vec::new(),
            loads: Vec::new(),
            failure: String::new(),
        };
        while let Some(finished) = self.finished.front() {
            let runs = match finished.request.before.len() {
                0 => 0,
                before => before + 1,
            };
            let loads = finished.request.loads.len();
            let is_full = reports.runs.len() + runs > limits::REQUEST_RUNS;
            if is_full || reports.loads.len() + loads > limits::REQUEST_RUNS {
                // The next report has the rest.
                break;
            }
            let Some(finished) = self.finished.pop_front() else {
                break;
            };
            let (request, index) = (finished.request, reports.rows.len() as u64);
            let since_1970 = |at: Nanos| zero.saturating_add(at);
            reports.rows.push(RequestReport {
                thread: request.thread,
                launches: request.launches,
                began: since_1970(request.began),
                waited: since_1970(request.waited),
                ended: since_1970(finished.ended.max(request.waited)),
                first: request.start,
                last: request.last,
                parent: request.parent,
                error: finished.error,
            });
            let run = |(first, last)| RequestRun {
                report: index,
                first,
                last,
            };
            reports.loads.extend(request.loads.into_iter().map(run));
            if runs > 0 {
                let last = (request.first, request.last);
                let all = request.before.into_iter().chain([last]);
                reports.runs.extend(all.map(run));
            }
        }
        if reports.rows.iter().any(|row| row.error.is_some()) {
            reports.failure.clone_from(&self.failure);
        }
        Some(encode(&reports))
    }
}

fn is_load(op: &Op) -> bool {
    matches!(op, Op::LoadModule { .. })
}

#[cfg(test)]
mod tests {
    use bus_schemas::{ModuleHash, ShortText, SpanId, TraceId, decode};

    use super::*;

    const FREE: Op = Op::Free { address: 0 };
    const OUT: Op = Op::CopyOut {
        address: 0,
        bytes: 1,
    };
    const ZERO: u64 = 1_000_000;

    fn span(n: u8) -> TraceContext {
        TraceContext {
            trace: TraceId([n; 16]),
            span: SpanId([n; 8]),
            sampled: true,
        }
    }

    fn caller(thread: u32) -> Caller {
        Caller {
            thread,
            parent: None,
        }
    }

    fn reported(requests: &mut Requests, now: Option<Nanos>) -> Option<RequestReports> {
        let process = ClientProcess {
            host: ShortText::new("host"),
            pid: 1,
            name: ShortText::new("name"),
        };
        let bytes = requests.report(now, ZERO, SessionId(7), process)?;
        Some(decode(&bytes).expect("it is read"))
    }

    #[test]
    fn a_request_ends_with_its_answer_and_pieces_of_a_copy_are_one() {
        let mut requests = Requests::default();
        let ops = [FREE, FREE, Op::Sync, FREE, OUT, OUT, OUT, FREE];
        for (number, op) in (1..).zip(&ops) {
            requests.pushed(op, number, caller(1), || 10 * number);
        }
        requests.answered(2, 100);
        assert_eq!(requests.next_wakeup(), None);
        requests.answered(3, 110);
        requests.answered(6, 120);
        requests.answered(7, 130);
        assert_eq!(reported(&mut requests, Some(130)), None);
        let report = reported(&mut requests, Some(110 + LINGER)).expect("due");
        let rows: Vec<_> = report.rows.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(rows, [(1, 3), (4, 7)]);
        let times = |it: &RequestReport| (it.began - ZERO, it.waited - ZERO, it.ended - ZERO);
        let times: Vec<_> = report.rows.iter().map(times).collect();
        assert_eq!(times, [(10, 30, 110), (40, 50, 130)]);
        assert!(report.runs.is_empty());
        assert_eq!(requests.next_wakeup(), None);
    }

    #[test]
    fn a_wait_for_ops_that_are_known_to_be_done_ends_a_request_too() {
        let mut requests = Requests::default();
        requests.pushed(&FREE, 1, caller(1), || 10);
        requests.pushed(&FREE, 2, caller(2), || 11);
        requests.settled(1, 0, 20);
        assert_eq!(requests.next_wakeup(), None, "it waited for an earlier op");
        requests.settled(1, 2, 30);
        requests.pushed(&Op::Sync, 3, caller(1), || 40);
        requests.answered(3, 50);
        let report = reported(&mut requests, None).expect("asked for");
        let rows = report.rows.iter();
        let rows: Vec<_> = rows
            .map(|it| (it.first, it.last, it.ended - ZERO))
            .collect();
        assert_eq!(rows, [(1, 1, 30), (3, 3, 50)]);
    }

    #[test]
    fn loads_of_modules_are_told_with_their_request() {
        let load = Op::LoadModule {
            slot: 1,
            hash: ModuleHash([7; 32]),
        };
        let mut requests = Requests::default();
        let ops = [load, load, FREE, load, Op::Sync, FREE, Op::Sync];
        for (number, op) in (1..).zip(&ops) {
            requests.pushed(op, number, caller(1), || number);
        }
        requests.answered(7, 9);
        let report = reported(&mut requests, None).expect("asked for");
        let loads = |index| report.loads_of(index).collect::<Vec<_>>();
        assert_eq!((loads(0), loads(1)), (vec![(1, 2), (4, 4)], vec![]));
    }

    #[test]
    fn threads_have_requests_of_their_own() {
        let mut requests = Requests::default();
        let ops = [
            (1, FREE),
            (2, FREE),
            (1, FREE),
            (2, Op::Sync),
            (1, Op::Sync),
        ];
        for (number, (thread, op)) in (1..).zip(&ops) {
            requests.pushed(op, number, caller(*thread), || 0);
        }
        requests.answered(4, 1);
        requests.answered(5, 2);
        let report = reported(&mut requests, None).expect("asked for");
        let rows: Vec<_> = report
            .rows
            .iter()
            .map(|it| (it.thread, it.first, it.last))
            .collect();
        assert_eq!(rows, [(2, 2, 4), (1, 1, 5)]);
        let runs = |index| report.runs_of(index).collect::<Vec<_>>();
        assert_eq!(runs(0), [(2, 2), (4, 4)]);
        assert_eq!(runs(1), [(1, 1), (3, 3), (5, 5)]);
    }

    #[test]
    fn a_threads_parent_counts_before_the_sessions() {
        let mut requests = Requests::default();
        requests.set_parent(Some(span(1)));
        let with_own = Caller {
            parent: Some(span(2)),
            ..caller(2)
        };
        requests.pushed(&Op::Sync, 1, caller(1), || 0);
        requests.pushed(&Op::Sync, 2, with_own, || 0);
        requests.answered(2, 1);
        let report = reported(&mut requests, None).expect("asked for");
        let parents: Vec<_> = report.rows.iter().map(|it| it.parent).collect();
        assert_eq!(parents, [Some(span(1)), Some(span(2))]);
    }

    #[test]
    fn an_error_ends_all_and_numbers_are_bounded_and_counted() {
        let mut requests = Requests::default();
        for thread in 1..=300 {
            requests.pushed(&FREE, u64::from(thread), caller(thread), || 0);
        }
        requests.over(Some(&Failure::new(Code::Device, "it is gone")), 9);
        let report = reported(&mut requests, None).expect("asked for");
        assert_eq!(report.failure, "it is gone");
        assert_eq!(
            (report.rows.len(), report.dropped),
            (limits::REQUESTS, 300 - 256)
        );
        let (early, rest) = report.rows.split_at(300 - THREADS);
        assert!(early.iter().all(|row| row.error.is_none()));
        let report = RequestReports {
            rows: rest.to_vec(),
            ..report
        };
        assert!(
            report
                .rows
                .iter()
                .all(|row| row.error == Some(Code::Device))
        );
        for number in 301..=301 + WAITED as u64 {
            requests.pushed(&Op::Sync, number, caller(number as u32), || 0);
        }
        requests.over(None, 10);
        let report = reported(&mut requests, None).expect("asked for");
        assert_eq!(report.failure, "", "none of them ended with an error");
        assert_eq!(report.rows.len(), limits::REQUESTS);
        assert_eq!(report.dropped, 300 - 256 + 1 + WAITED as u64 - 256);
    }

    #[test]
    fn runs_without_room_come_with_the_next_report() {
        let mut requests = Requests::default();
        let mut number = 0;
        let mut push = |requests: &mut Requests, thread, op: &Op| {
            number += 1;
            requests.pushed(op, number, caller(thread), || number);
            number
        };
        for _ in 0..20 {
            for _ in 0..2 * RUNS {
                push(&mut requests, 1, &FREE);
                push(&mut requests, 2, &FREE);
            }
            for thread in [1, 2] {
                let last = push(&mut requests, thread, &Op::Sync);
                requests.answered(last, last);
            }
        }
        let mut told = 0;
        while let Some(report) = reported(&mut requests, None) {
            assert!(report.runs.len() <= limits::REQUEST_RUNS);
            for (index, row) in report.rows.iter().enumerate() {
                let runs: Vec<_> = report.runs_of(index).collect();
                assert_eq!(runs.len(), RUNS);
                assert_eq!((runs[0].0, runs[RUNS - 1].1), (row.first, row.last));
                told += 1;
            }
        }
        assert_eq!(told, 40);
    }

    #[test]
    fn enough_requests_are_reported_at_once() {
        let mut requests = Requests::default();
        for number in 1..=ENOUGH as u64 {
            requests.pushed(&Op::Sync, number, caller(1), || 5);
            requests.answered(number, 6);
        }
        assert_eq!(requests.next_wakeup(), Some(0));
    }
}
