//! The join of requests and positions, by session and op: a request is whole once its last op has run.

use std::collections::{HashMap, VecDeque};

use bus_schemas::{
    ClientProcess, CostRun, Epoch, GpuId, GpuPosition, GrantKind, OpNumber, RequestReport,
    SessionId, Tenant,
};
use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::Timing;

/// Maximum number of parts of one session that are kept; beyond it the oldest are forgotten.
const PARTS: usize = 2_048;
/// Maximum number of parts of all sessions. Beyond it, those of the sessions that ran least recently are forgotten.
const ALL_PARTS: usize = 65_536;
/// Time for which a part is kept after a later request of its session was reported, nanoseconds. The requests of other
/// threads may hold its ops.
const LINGER: u64 = 10_000_000_000;
/// Time for which a request waits for the record of its ops, nanoseconds. Those of a lost worker never come.
const PATIENCE: u64 = 2_500_000_000;
/// Time for which a session without parts is kept, nanoseconds.
const AFTERLIFE: u64 = 60_000_000_000;
/// Number of reported requests of a session that are known by their last op.
const KNOWN: usize = 1_024;
/// Maximum number of requests of a session without a whole record. An honest session has one for each thread, at its
/// end.
const INCOMPLETE: usize = 256;

/// A slice that ran, or a part of a standing grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) gpu: GpuId,
    pub(crate) epoch: Epoch,
    pub(crate) position: GpuPosition,
    pub(crate) priority: u8,
    pub(crate) kind: GrantKind,
    pub(crate) first: OpNumber,
    pub(crate) last: OpNumber,
    pub(crate) launches: Option<u64>,
    pub(crate) device_ns: u64,
    pub(crate) work: Box<[CostRun]>,
    pub(crate) timing: Box<Timing>,
}

/// A request as its program reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tenant: Tenant,
    pub(crate) session: SessionId,
    pub(crate) process: Option<ClientProcess>,
    pub(crate) report: RequestReport,
    /// Its ops, in order.
    pub(crate) runs: Box<[(OpNumber, OpNumber)]>,
}

/// A request with the parts that hold its ops, in the order of their ops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined<T> {
    pub(crate) request: Request,
    pub(crate) parts: Vec<Part>,
    /// Returns of the session's memory during the request.
    pub(crate) returns: Vec<Part>,
    /// True if the record of all its ops came.
    pub(crate) is_whole: bool,
    /// The mark of the message that reported it.
    pub(crate) mark: T,
}

#[derive(Debug)]
struct Session {
    tenant: Tenant,
    parts: VecDeque<Part>,
    /// Returns of its memory.
    returns: VecDeque<Part>,
    /// The last op that has run.
    ran: OpNumber,
    /// The last op of a reported request.
    reported: OpNumber,
    /// The last ops of the requests that were reported last.
    known: VecDeque<OpNumber>,
    /// Number of requests without a whole record.
    incomplete: usize,
    /// Time of its last part.
    seen: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    request: Request,
    since: u64,
    mark: T,
}

/// Sessions by id, and the requests that wait for their record. `T` marks the message of a request. Times are
/// nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Join<T> {
    sessions: HashMap<SessionId, Session>,
    waiting: VecDeque<Waiting<T>>,
    parts: usize,
    /// Time since which the record is followed without a gap; `None` while its earlier part is read.
    whole_since: Option<u64>,
}

impl<T> Join<T> {
    pub(crate) fn new() -> Self {
        Self {
            sessions: HashMap::new(),
            waiting: VecDeque::new(),
            parts: 0,
            whole_since: None,
        }
    }

    /// Notes that the record is read from its beginning.
    pub(crate) fn begins(&mut self) {
        self.whole_since = None;
    }

    /// Notes that the record is read up to now.
    pub(crate) fn is_read(&mut self, now: u64) {
        self.whole_since.get_or_insert(now);
    }

    /// Number of requests that wait for their record.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes in a request.
    pub(crate) fn request(&mut self, request: Request, now: u64, mark: T) {
        self.waiting.push_back(Waiting {
            request,
            since: now,
            mark,
        });
    }

    /// Takes in a position of the record.
    pub(crate) fn position(&mut self, position: &ReplayedPosition) {
        match position.kind {
            GrantKind::Open => {
                let entry = self.sessions.entry(position.session);
                entry.or_insert_with(|| Session::new(position.tenant.clone()));
            }
            GrantKind::Run | GrantKind::Standing | GrantKind::Return => self.part(position),
            GrantKind::Close | GrantKind::Revoke => {}
        }
    }

    fn part(&mut self, position: &ReplayedPosition) {
        let Some(timing) = &position.timing else {
            return;
        };
        let entry = self.sessions.entry(position.session);
        let session = entry.or_insert_with(|| Session::new(position.tenant.clone()));
        session.seen = session.seen.max(timing.ended);
        let part = Part {
            gpu: position.gpu,
            epoch: position.epoch,
            position: position.position,
            priority: position.priority,
            kind: position.kind,
            first: position.first,
            last: position.last,
            launches: position.launches,
            device_ns: position.end.map_or(0, |end| end.measured),
            work: position.work.clone().into(),
            timing: timing.clone(),
        };
        if part.kind == GrantKind::Return {
            let is_new = session
                .returns
                .back()
                .is_none_or(|last| last.timing.ended < timing.ended);
            if is_new {
                session.returns.push_back(part);
                if session.returns.len() > PARTS {
                    session.returns.pop_front();
                }
            }
            return;
        }
        // A record that is read again tells the same parts again.
        if position.last < position.first || position.last <= session.ran {
            return;
        }
        session.ran = position.last;
        session.parts.push_back(part);
        self.parts += 1;
        if session.parts.len() > PARTS {
            session.parts.pop_front();
            self.parts -= 1;
        }
        if self.parts > ALL_PARTS {
            self.shrink();
        }
    }

    /// Forgets the parts of the sessions that ran least recently, until half are left.
    #[cold]
    fn shrink(&mut self) {
        let mut by_age: Vec<_> = self
            .sessions
            .iter()
            .map(|(id, it)| (it.seen, *id))
            .collect();
        by_age.sort_unstable();
        for (_, id) in by_age {
            if self.parts <= ALL_PARTS / 2 {
                break;
            }
            if let Some(session) = self.sessions.get_mut(&id) {
                self.parts -= session.parts.len();
                session.parts.clear();
            }
        }
    }

    /// Returns the requests with a whole record, and those for which it did not come in time. A request comes without
    /// parts if its session is another tenant's or never was, or if it was reported before.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Joined<T>> {
        let mut due = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else {
                break;
            };
            let session = self.own(&waiting.request);
            let has_run = session.is_some_and(|it| it.ran >= waiting.request.report.last);
            let since = self.whole_since.map(|whole| whole.max(waiting.since));
            let is_late = since.is_some_and(|since| now >= since.saturating_add(PATIENCE));
            if !has_run && !is_late {
                self.waiting.push_back(waiting);
                continue;
            }
            let taken = self.take(&waiting.request, has_run);
            let (parts, returns, is_whole) = taken.unwrap_or_default();
            due.push(Joined {
                request: waiting.request,
                parts,
                returns,
                is_whole,
                mark: waiting.mark,
            });
        }
        due
    }

    /// The session of a request, if it is its tenant's.
    fn own(&self, request: &Request) -> Option<&Session> {
        let session = self.sessions.get(&request.session)?;
        (session.tenant == request.tenant).then_some(session)
    }

    /// The parts and the returns of a request, and true if they have all its ops. `None` if none may be told.
    fn take(&mut self, request: &Request, has_run: bool) -> Option<(Vec<Part>, Vec<Part>, bool)> {
        self.own(request)?;
        let session = self.sessions.get_mut(&request.session)?;
        let (parts, returns) = session.of(request);
        let first = parts.first().map(|part| part.first);
        let is_whole = has_run && first.is_some_and(|first| first <= request.report.first);
        session
            .admits(request.report.last, is_whole)
            .then_some((parts, returns, is_whole))
    }

    /// Forgets what no request will need.
    pub(crate) fn forget(&mut self, now: u64) {
        let parts = &mut self.parts;
        self.sessions.retain(|_, session| {
            let before = session.parts.len();
            let old = now.saturating_sub(LINGER);
            while let Some(part) = session.parts.front()
                && part.last <= session.reported
                && part.timing.ended < old
            {
                session.parts.pop_front();
            }
            while session
                .returns
                .front()
                .is_some_and(|it| it.timing.ended < old)
            {
                session.returns.pop_front();
            }
            let stays = !session.parts.is_empty() || session.seen.saturating_add(AFTERLIFE) > now;
            *parts -= before - session.parts.len();
            stays
        });
    }
}

impl Session {
    fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            parts: VecDeque::new(),
            returns: VecDeque::new(),
            ran: 0,
            reported: 0,
            known: VecDeque::new(),
            incomplete: 0,
            seen: 0,
        }
    }

    /// Notes a request by its last op. Returns false for one that was reported before, or that is one too many without
    /// a whole record: a tenant may report anything, but not more requests than it has ops.
    fn admits(&mut self, last: OpNumber, is_whole: bool) -> bool {
        let is_old = self.known.len() >= KNOWN && self.known.iter().all(|known| last < *known);
        if is_old || self.known.contains(&last) {
            return false;
        }
        if !is_whole {
            self.incomplete += 1;
            if self.incomplete > INCOMPLETE {
                return false;
            }
        }
        self.known.push_back(last);
        if self.known.len() > KNOWN {
            self.known.pop_front();
        }
        self.reported = self.reported.max(last);
        true
    }

    /// The parts that hold ops of a request, and the returns of memory while it lasted.
    fn of(&self, request: &Request) -> (Vec<Part>, Vec<Part>) {
        let mut parts = Vec::new();
        let mut at = 0;
        for (first, last) in &request.runs {
            at = at.max(self.parts.partition_point(|part| part.last < *first));
            let holds = self
                .parts
                .iter()
                .skip(at)
                .take_while(|part| part.first <= *last);
            let before = parts.len();
            parts.extend(holds.cloned());
            at += parts.len() - before;
        }
        let report = &request.report;
        let during =
            |it: &&Part| it.timing.ended > report.began && it.timing.accepted < report.ended;
        let returns = self.returns.iter().filter(during).cloned();
        (parts, returns.collect())
    }
}

#[cfg(test)]
pub(crate) mod tests;
