//! The join of requests and positions, by session and op: a request is whole once its last op has run.
//!
//! The record is followed as it grows. Parts of sessions are kept until a report may need them, within bounds. A
//! request may be reported so late that its parts are gone. Then the record is read once more from its beginning, and
//! the parts go to the requests that wait for them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use bus_schemas::{GrantKind, OpNumber, RequestReport, SessionId, Tenant};
use scheduler_leader_core::replay::ReplayedPosition;

pub(crate) use crate::parts::{Part, Ran, Request};
use crate::parts::{SLICES, join_tails};

/// Number of parts of one session that are kept for requests to come. Beyond it those without spans of their own are
/// joined, and the oldest are forgotten.
const PARTS: usize = 2_048;
/// Number of parts beyond that from which on both is done.
const SURPLUS: usize = 256;
/// Maximum number of such parts of all sessions. Beyond it, those of the sessions that ran least recently are
/// forgotten.
const ALL_PARTS: usize = 65_536;
/// Maximum number of parts of all requests that wait.
const OF_REQUESTS: usize = 1 << 18;
/// Time of the record, after the end of a request, at which its last op should have come. Nanoseconds.
const PATIENCE: u64 = 2_500_000_000;
/// Time for which a request waits where the record stands still, nanoseconds: no leader leads, or a worker is lost.
const PATIENCE_MOST: u64 = 30_000_000_000;
/// Time for which a session without parts is kept, nanoseconds: as long as the stream keeps reports.
const AFTERLIFE: u64 = 3_600_000_000_000;
/// Minimum time between two readings of the record from its beginning for requests with forgotten parts, nanoseconds.
const READ_AGAIN: u64 = 30_000_000_000;
/// The same as a multiple of the time that the last reading took.
const READ_AGAIN_TIMES: u64 = 10;
/// Maximum number of threads of a session that are told apart.
const THREADS: usize = 4_096;

/// A request with the parts that hold its ops, in the order of their ops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined<T> {
    pub(crate) request: Request,
    pub(crate) parts: Vec<Rc<Part>>,
    /// Returns of the session's memory about the time of the request.
    pub(crate) returns: Vec<Rc<Part>>,
    /// True if the record of all its ops came.
    pub(crate) is_whole: bool,
    /// True if its ops have run: the record has later ops of its session.
    pub(crate) has_run: bool,
    /// The mark of the message that reported it.
    pub(crate) mark: T,
}

#[derive(Debug)]
struct Session {
    tenant: Tenant,
    parts: VecDeque<Rc<Part>>,
    /// Returns of its memory.
    returns: VecDeque<Rc<Part>>,
    /// The last op that has run.
    ran: OpNumber,
    /// True if it is closed: no op runs any more.
    is_closed: bool,
    /// The last op that each thread has reported.
    reported: BTreeMap<u32, OpNumber>,
    /// Time of its last part.
    seen: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    request: Request,
    parts: VecDeque<Rc<Part>>,
    since: u64,
    /// True if the record was read from its beginning since it came.
    is_searched: bool,
    /// True if it has more parts than there was room for.
    is_cut: bool,
    /// True if some of its parts were joined with those of other requests, and are left out.
    is_blurred: bool,
    mark: T,
}

/// Sessions by id, and the requests that wait for their record. `T` marks the message of a request. Times are
/// nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Join<T> {
    sessions: HashMap<SessionId, Session>,
    waiting: HashMap<SessionId, Vec<Waiting<T>>>,
    waits: usize,
    /// Number of waiting requests of each tenant.
    tenants: HashMap<Tenant, usize>,
    /// Number of parts kept for sessions, and of those of waiting requests.
    parts: (usize, usize),
    /// The latest end of a part in the record.
    record: u64,
    /// True while the record is followed without a gap; false while its earlier part is read.
    is_whole: bool,
    /// Time at which it was read from its beginning last: begin and end.
    read: (u64, u64),
    wants_again: bool,
}

impl<T> Join<T> {
    pub(crate) fn new() -> Self {
        Self {
            sessions: HashMap::new(),
            waiting: HashMap::new(),
            waits: 0,
            tenants: HashMap::new(),
            parts: (0, 0),
            record: 0,
            is_whole: false,
            read: (0, 0),
            wants_again: false,
        }
    }

    /// Notes that the record is read from its beginning, which tells everything again.
    pub(crate) fn begins(&mut self, now: u64) {
        self.is_whole = false;
        self.read.0 = now;
        self.wants_again = false;
        for session in self.sessions.values_mut() {
            session.parts.clear();
            session.returns.clear();
            session.ran = 0;
        }
        let requests = self.waiting.values_mut().flatten();
        for waiting in requests {
            waiting.parts.clear();
            (waiting.is_cut, waiting.is_blurred) = (false, false);
            waiting.is_searched = true;
        }
        self.parts = (0, 0);
    }

    /// Notes that the record is read up to now.
    pub(crate) fn is_read(&mut self, now: u64) {
        self.is_whole = true;
        self.read.1 = now;
    }

    /// True if the record is to be read from its beginning: requests wait for parts that were forgotten.
    pub(crate) fn wants_again(&self, now: u64) -> bool {
        let (begun, ended) = self.read;
        let took = ended.saturating_sub(begun);
        let pause = READ_AGAIN.max(took.saturating_mul(READ_AGAIN_TIMES));
        self.wants_again && self.is_whole && now >= ended.saturating_add(pause)
    }

    /// Number of requests that wait for their record.
    pub(crate) fn waiting(&self) -> usize {
        self.waits
    }

    /// True if several tenants' requests wait, and the record is followed.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_whole && self.tenants.len() > 1
    }

    /// Number of requests of a tenant that wait for their record.
    pub(crate) fn waiting_of(&self, tenant: &Tenant) -> usize {
        self.tenants.get(tenant).copied().unwrap_or(0)
    }

    /// Takes in a request. Returns the mark of one that is not to be told, with true if it was told before: its thread
    /// has reported later ops. Else its session is another tenant's.
    pub(crate) fn request(&mut self, request: Request, now: u64, mark: T) -> Option<(T, bool)> {
        let (mut parts, mut is_blurred) = (VecDeque::new(), false);
        if let Some(session) = self.sessions.get_mut(&request.session) {
            if session.tenant != request.tenant {
                return Some((mark, false));
            }
            if !session.admits(&request.report) {
                return Some((mark, true));
            }
            parts = session.of(&request);
            let all = parts.len();
            parts.retain(|part| !request.is_blurred(part));
            is_blurred = parts.len() < all;
        }
        let room = OF_REQUESTS.saturating_sub(self.parts.1);
        let is_cut = parts.len() > room;
        parts.truncate(room);
        self.parts.1 += parts.len();
        self.waits += 1;
        *self.tenants.entry(request.tenant.clone()).or_default() += 1;
        let waiting = self.waiting.entry(request.session).or_default();
        waiting.push(Waiting {
            request,
            parts,
            since: now,
            is_searched: false,
            is_cut,
            is_blurred,
            mark,
        });
        None
    }

    /// Takes in a position of the record.
    pub(crate) fn position(&mut self, position: &ReplayedPosition) {
        let entry = self.sessions.entry(position.session);
        let session = entry.or_insert_with(|| Session::new(position.tenant.clone()));
        match position.kind {
            GrantKind::Run | GrantKind::Standing | GrantKind::Return => self.part(position),
            GrantKind::Close => session.is_closed = true,
            GrantKind::Open | GrantKind::Revoke => {}
        }
    }

    fn part(&mut self, position: &ReplayedPosition) {
        let (Some(timing), Some(session)) =
            (&position.timing, self.sessions.get_mut(&position.session))
        else {
            return;
        };
        session.seen = session.seen.max(timing.ended);
        self.record = self.record.max(timing.ended);
        let part = Rc::new(Part {
            gpu: position.gpu,
            epoch: position.epoch,
            position: position.position,
            priority: position.priority,
            kind: position.kind,
            first: position.first,
            last: position.last,
            slices: 1,
            launches: position.launches,
            device_ns: position.end.map_or(0, |end| end.measured),
            work: position.work.iter().map(Ran::from).collect(),
            timing: timing.clone(),
        });
        if part.kind == GrantKind::Return {
            session.returns.push_back(part);
            if session.returns.len() > PARTS {
                session.returns.pop_front();
            }
            return;
        }
        if position.last < position.first || position.last <= session.ran {
            return;
        }
        session.ran = position.last;
        let requests = self.waiting.get_mut(&position.session);
        for waiting in requests.into_iter().flatten() {
            if waiting.request.tenant != session.tenant || !waiting.request.needs(&part) {
                continue;
            }
            self.parts.1 -= waiting.parts.len();
            waiting.add(&part, OF_REQUESTS.saturating_sub(self.parts.1));
            self.parts.1 += waiting.parts.len();
        }
        self.parts.0 -= session.parts.len();
        session.keep(part);
        self.parts.0 += session.parts.len();
        if self.parts.0 > ALL_PARTS {
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
            if self.parts.0 <= ALL_PARTS / 2 {
                break;
            }
            if let Some(session) = self.sessions.get_mut(&id) {
                self.parts.0 -= session.parts.len();
                session.parts.clear();
            }
        }
    }

    /// Returns the requests with a whole record, and those for which it does not come. A request that has not run
    /// comes without parts if its session is another tenant's or never was.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Joined<T>> {
        let mut due = Vec::new();
        let mut wants_again = false;
        for (id, requests) in &mut self.waiting {
            let session = self.sessions.get(id);
            let mut at = 0;
            while let Some(waiting) = requests.get(at) {
                let own = session.filter(|it| it.tenant == waiting.request.tenant);
                let state = state(
                    waiting,
                    own,
                    (self.is_whole, self.read.1),
                    (self.record, now),
                );
                wants_again |= state == State::Forgotten;
                if matches!(state, State::Waits | State::Forgotten) {
                    at += 1;
                    continue;
                }
                let waiting = requests.remove(at);
                self.waits -= 1;
                self.parts.1 -= waiting.parts.len();
                if let Some(count) = self.tenants.get_mut(&waiting.request.tenant) {
                    *count -= 1;
                }
                due.push(Joined {
                    returns: own
                        .map(|it| it.returns_of(&waiting.request))
                        .unwrap_or_default(),
                    request: waiting.request,
                    parts: waiting.parts.into(),
                    is_whole: state == State::Whole,
                    has_run: matches!(state, State::Whole | State::Unrecorded),
                    mark: waiting.mark,
                });
            }
        }
        self.waiting.retain(|_, requests| !requests.is_empty());
        self.tenants.retain(|_, count| *count > 0);
        self.wants_again = wants_again;
        due
    }

    /// Forgets sessions that no request will need.
    pub(crate) fn forget(&mut self, now: u64) {
        if !self.is_whole {
            return;
        }
        let waiting = &self.waiting;
        self.sessions.retain(|id, session| {
            let is_recent = session.seen.saturating_add(AFTERLIFE) > now;
            is_recent || !session.parts.is_empty() || waiting.contains_key(id)
        });
    }
}

impl<T> Waiting<T> {
    /// Adds a part, where there is room for this number. Those without spans of their own are joined.
    fn add(&mut self, part: &Rc<Part>, room: usize) {
        let len = self.parts.len();
        match self.parts.back_mut().filter(|_| len >= SLICES) {
            Some(tail) if self.request.is_joint(tail, part) => Rc::make_mut(tail).add(part),
            Some(_) => self.is_cut = true,
            None if len >= room => self.is_cut = true,
            None => self.parts.push_back(Rc::clone(part)),
        }
    }
}

/// The state of a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its ops have yet to come.
    Waits,
    /// All its ops are there.
    Whole,
    /// Its ops have run, and their parts were forgotten: they come when the record is read again.
    Forgotten,
    /// Its ops have run, and some are missing: their end was reported to a leader that died, or they are too many.
    Unrecorded,
    /// Some of its ops will not come.
    Lost,
}

fn state<T>(
    waiting: &Waiting<T>,
    session: Option<&Session>,
    (is_read, read): (bool, u64),
    (record, now): (u64, u64),
) -> State {
    let report = &waiting.request.report;
    let has_run = session.is_some_and(|it| it.ran >= report.last);
    let first = waiting.parts.front().map(|part| part.first);
    let since = waiting.since.max(read);
    match () {
        () if has_run && waiting.is_blurred => match is_read {
            true => State::Forgotten,
            false => State::Waits,
        },
        () if has_run && waiting.is_cut => State::Unrecorded,
        () if has_run && first.is_some_and(|first| first <= report.first) => {
            match waiting.request.is_held(&waiting.parts) {
                true => State::Whole,
                false => State::Unrecorded,
            }
        }
        () if !is_read => State::Waits,
        () if has_run => {
            let kept = session.and_then(|it| it.parts.front());
            let is_kept = kept.is_some_and(|part| part.first <= report.first);
            match is_kept || waiting.is_searched {
                true => State::Unrecorded,
                false => State::Forgotten,
            }
        }
        () if session.is_some_and(|it| it.is_closed) => State::Lost,
        () if now >= since.saturating_add(PATIENCE_MOST) => State::Lost,
        () => {
            let heard = record >= report.ended.saturating_add(PATIENCE);
            let waited = now >= since.saturating_add(PATIENCE);
            match heard && waited {
                true => State::Lost,
                false => State::Waits,
            }
        }
    }
}

impl Session {
    fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            parts: VecDeque::new(),
            returns: VecDeque::new(),
            ran: 0,
            is_closed: false,
            reported: BTreeMap::new(),
            seen: 0,
        }
    }

    /// Notes a request. Returns false if it begins before the end of one that its thread has reported: a tenant may
    /// report anything, but a thread has one request at a time.
    fn admits(&mut self, report: &RequestReport) -> bool {
        let before = self.reported.get(&report.thread).copied();
        if report.first <= before.unwrap_or(0) {
            return false;
        }
        if before.is_none() && self.reported.len() >= THREADS {
            // Threads come and go: the one that ran least recently has ended.
            let oldest = self.reported.iter().min_by_key(|(_, last)| **last);
            if let Some(thread) = oldest.map(|(thread, _)| *thread) {
                self.reported.remove(&thread);
            }
        }
        self.reported.insert(report.thread, report.last);
        true
    }

    /// Keeps a part for requests to come.
    fn keep(&mut self, part: Rc<Part>) {
        self.parts.push_back(part);
        if self.parts.len() > PARTS + SURPLUS {
            let mut newest = self.parts.split_off(PARTS / 2);
            join_tails(&mut self.parts);
            self.parts.append(&mut newest);
            let surplus = self.parts.len().saturating_sub(PARTS);
            self.parts.drain(..surplus);
        }
    }

    /// The kept parts that hold ops of a request.
    fn of(&self, request: &Request) -> VecDeque<Rc<Part>> {
        let at = self
            .parts
            .partition_point(|part| part.last < request.report.first);
        let behind = self.parts.iter().skip(at);
        let within = behind.take_while(|part| part.first <= request.report.last);
        within.filter(|part| request.needs(part)).cloned().collect()
    }

    /// Returns of memory about the time of a request.
    fn returns_of(&self, request: &Request) -> Vec<Rc<Part>> {
        let report = &request.report;
        let during =
            |it: &&Rc<Part>| it.timing.ended > report.began && it.timing.accepted < report.ended;
        self.returns.iter().filter(during).cloned().collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
