//! A session's requests, for its traces: each is the work of one thread between two of its waits.
//!
//! An op costs a look at its thread's request and a count. The clock is read when a request begins,
//! when the thread waits, and when the answer comes.

mod errors;

use std::collections::{BTreeSet, VecDeque};

use bus_schemas::{
    ClientProcess, Code, Failure, Op, OpNumber, RequestReport, RequestReports, RequestRun,
    SessionId, TraceContext, WIRE_VERSION, encode, limits,
};

use crate::Nanos;
use errors::{Errors, Pending};

/// Time for which a finished request waits for others before it is reported.
const LINGER: Nanos = 100_000_000;
/// Number of finished requests that are reported without waiting for more.
const ENOUGH: usize = 64;
/// Maximum number of threads with a request that has no wait yet. The oldest of more is reported as it is.
const THREADS: usize = 256;
/// Time after which the waits of other threads end the request of a thread that has never waited. A thread that
/// compiles its first kernel on a busy machine is within it.
const UNWAITED: Nanos = 10_000_000_000;
/// Maximum number of threads that are known to wait.
const WAITERS: usize = 4_096;
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
    /// Errors that its thread met, and the session went on.
    errors: Errors,
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

impl Finished {
    /// Adds the request to a report. `zero` is the zero of its times in nanoseconds since 1970.
    fn tell(self, reports: &mut RequestReports, zero: u64) {
        let (request, index) = (self.request, reports.rows.len() as u64);
        let since_1970 = |at: Nanos| zero.saturating_add(at);
        reports.rows.push(RequestReport {
            thread: request.thread,
            launches: request.launches,
            began: since_1970(request.began),
            waited: since_1970(request.waited),
            ended: since_1970(self.ended.max(request.waited)),
            first: request.start,
            last: request.last,
            parent: request.parent,
            error: self.error,
        });
        let run = |(first, last)| RequestRun {
            report: index,
            first,
            last,
        };
        reports.loads.extend(request.loads.into_iter().map(run));
        if !request.before.is_empty() {
            let last = (request.first, request.last);
            let all = request.before.into_iter().chain([last]);
            reports.runs.extend(all.map(run));
        }
        request.errors.tell(reports, index, since_1970);
    }
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
    /// Threads that have waited.
    waiters: BTreeSet<u32>,
    finished: VecDeque<Finished>,
    dropped: u64,
    /// The failure of requests that ended with an error, as reports tell it.
    failure: String,
    /// Errors that threads without a request met.
    pending: Pending,
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
            errors: self.pending.take(caller.thread),
        };
        if is_load(op) {
            request.load(number);
        }
        match waits {
            true => self.wait(request),
            false => self.open.push(request),
        }
    }

    /// Notes that op `number` of a thread loads a module with which the thread was busy since `at`. A request
    /// that begins with this op begins then.
    pub fn loaded(&mut self, thread: u32, number: OpNumber, at: Nanos) {
        let mut open = self.open.iter_mut();
        if let Some(request) = open.find(|it| (it.thread, it.start) == (thread, number)) {
            request.began = request.began.min(at);
        }
    }

    /// Notes that a call of a thread failed, and the session goes on. The request under way tells it, or the next one
    /// of the thread.
    pub fn call_failed(&mut self, thread: u32, failure: &Failure, now: Nanos) {
        let mut open = self.open.iter_mut();
        match open.find(|it| it.thread == thread) {
            Some(request) => request.errors.add(failure, now),
            None => self.pending.add(thread, failure, now),
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
        self.note_waiter(request.thread);
        match self.waited.len() < WAITED {
            true => self.waited.push(request),
            false => self.dropped += 1,
        }
    }

    fn note_waiter(&mut self, thread: u32) {
        // The number of the thread that came first is the lowest.
        if self.waiters.insert(thread) && self.waiters.len() > WAITERS {
            self.waiters.pop_first();
        }
    }

    /// Ends the requests of threads that have never waited, if all their ops are done with this one.
    fn finish_unwaited(&mut self, op: OpNumber, now: Nanos) {
        let mut at = 0;
        while let Some(request) = self.open.get(at) {
            let is_old = now.saturating_sub(request.began) >= UNWAITED;
            if request.last > op || !is_old || self.waiters.contains(&request.thread) {
                at += 1;
                continue;
            }
            let mut request = self.open.swap_remove(at);
            request.waited = now;
            self.finish(request, now, None);
        }
    }

    /// Notes that a thread waited for its ops through this one without a message: they were known to be done.
    pub fn settled(&mut self, thread: u32, through: OpNumber, now: Nanos) {
        let done = |it: &Request| it.thread == thread && it.last <= through;
        if let Some(at) = self.open.iter().position(done) {
            self.note_waiter(thread);
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
        self.finish_unwaited(op, now);
    }

    /// Notes that the session is over: by a failure, or at its end.
    pub fn over(&mut self, failure: Option<&Failure>, now: Nanos) {
        let error = failure.map(|failure| failure.code);
        if let Some(failure) = failure {
            self.failure = failure.brief();
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
            errors: Vec::new(),
            words: String::new(),
        };
        let mut errors = 0;
        while let Some(finished) = self.finished.front() {
            let runs = match finished.request.before.len() {
                0 => 0,
                before => before + 1,
            };
            let with_errors = errors + finished.request.errors.runs();
            // All together are bounded: the stream takes no larger message.
            let taken = reports.runs.len() + reports.loads.len() + runs + with_errors;
            let loads = limits::REQUEST_RUNS.saturating_sub(taken);
            let is_first = reports.rows.is_empty();
            let is_full = taken > limits::REQUEST_RUNS || finished.request.loads.len() > loads;
            if is_full && !is_first {
                // The next report has the rest.
                break;
            }
            let Some(mut finished) = self.finished.pop_front() else {
                break;
            };
            finished.request.loads.truncate(loads);
            errors = with_errors;
            finished.tell(&mut reports, zero);
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
mod tests;
