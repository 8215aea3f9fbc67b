//! A worker, as simple as the protocol allows: it accepts, runs one position at a time, and
//! reports.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{
    Chain, ChainEntry, Column, Compilation, DeviceProperties, Done, DoneReport, DoneTimes,
    FaultRow, GpuId, Grant, GrantBatch, GrantKind, Incarnation, LeaderId, Outcome, Quotas, Refusal,
    ReportTimes, Residency, Seal, SealAnswer, SealPage, SealReply, SealedGrant, SealedSession,
    SessionFault, SessionId, Tenant, WIRE_VERSION, WorkerBeat, encode,
};

/// The only tenant.
pub(crate) fn tenant() -> Tenant {
    "chat".parse().unwrap()
}

pub(crate) struct Worker {
    pub(crate) incarnation: Incarnation,
    pub(crate) gpu: u32,
    pub(crate) epoch: u64,
    pub(crate) leader: LeaderId,
    pub(crate) position: u64,
    pub(crate) chain: Chain,
    pub(crate) sessions: BTreeMap<SessionId, SealedSession>,
    pub(crate) queue: VecDeque<SealedGrant>,
    pub(crate) tail: Vec<SealedGrant>,
    pub(crate) recorded: (u64, u64),
    pub(crate) reports: Vec<DoneReport>,
    pub(crate) acknowledged: u64,
    pub(crate) started: Vec<(SessionId, u64, u64)>,
    /// Number of grants of its tail in one message, and number of its pages that were asked for.
    pub(crate) rows: usize,
    pub(crate) pages: usize,
    /// True if a leader told it to leave. It stays, for the sake of the tests.
    pub(crate) dismissed: bool,
    /// True if a leader told it that another has its number. It stays as well.
    pub(crate) refused: bool,
    /// True if it announces that it leaves.
    pub(crate) leaves: bool,
    /// True if a leader told it that this is noted.
    pub(crate) noted: bool,
    /// Lists of quotas that it got, and true if it takes them; a worker of an earlier build takes
    /// none.
    pub(crate) lists: Vec<Quotas>,
    pub(crate) takes_quotas: bool,
    /// The memory report of its heartbeats.
    pub(crate) residency: Option<Residency>,
    /// Number of returns that it ended.
    pub(crate) returned: usize,
    /// The failure of a session that it tells of, once its op has run.
    pub(crate) fault: Option<SessionFault>,
    /// Compilations of the positions that it tells times of; `None` if it tells no times.
    pub(crate) compiled: Option<BTreeMap<u64, Compilation>>,
}

/// The device properties that a worker reports.
pub(crate) fn described(gpu: GpuId) -> DeviceProperties {
    DeviceProperties {
        name: format!("model {gpu}"),
        sms: 2,
        ..DeviceProperties::default()
    }
}

impl Worker {
    /// The first worker of a device, new.
    pub(crate) fn new(gpu: GpuId) -> Self {
        Self {
            incarnation: Incarnation(100 + u64::from(gpu)),
            gpu,
            epoch: 0,
            leader: LeaderId(0),
            position: 0,
            chain: Chain::default(),
            sessions: BTreeMap::new(),
            queue: VecDeque::new(),
            tail: Vec::new(),
            recorded: (0, 0),
            reports: Vec::new(),
            acknowledged: 0,
            started: Vec::new(),
            rows: usize::MAX,
            pages: 0,
            dismissed: false,
            refused: false,
            lists: Vec::new(),
            takes_quotas: true,
            residency: None,
            returned: 0,
            fault: None,
            compiled: None,
            leaves: false,
            noted: false,
        }
    }

    pub(crate) fn seal(&mut self, seal: &Seal) -> Vec<u8> {
        let fresh = seal.epoch > self.epoch;
        if !fresh && (seal.epoch, seal.leader) != (self.epoch, self.leader) {
            return encode(&SealReply {
                v: WIRE_VERSION,
                sealed: None,
                refused: Some(self.refusal()),
                page: None,
            });
        }
        let tail_epoch = self.epoch;
        (self.epoch, self.leader) = (seal.epoch, seal.leader);
        let after = seal.after.expect("its leader takes pages");
        let behind = self.tail.partition_point(|it| it.position <= after);
        let rest = &self.tail[behind..];
        if rest.len() > self.rows {
            self.pages += 1;
            let page = SealPage {
                epoch: self.epoch,
                leader: self.leader,
                after,
                tail: rest[..self.rows].to_vec(),
                named: Vec::new(),
            };
            return encode(&SealReply {
                v: WIRE_VERSION,
                sealed: None,
                refused: None,
                page: Some(page),
            });
        }
        let answer = SealAnswer {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            gpu: self.gpu,
            capacity: 8 << 30,
            position: self.position,
            chain: self.chain,
            global: 0,
            reports: self.reports.len() as u64,
            sessions: self.sessions.values().cloned().collect(),
            outstanding: self.queue.iter().copied().collect(),
            tail_epoch,
            tail_recorded: 0,
            tail: rest.to_vec(),
            ordinals: vec![(tenant(), 1)],
            faults: self.fault.iter().cloned().collect(),
            named: Vec::new(),
            forgotten: None,
        };
        encode(&SealReply {
            v: WIRE_VERSION,
            sealed: Some(answer),
            refused: None,
            page: None,
        })
    }

    /// Number of ops that ran.
    pub(crate) fn ran(&self) -> u64 {
        let started = self.started.iter();
        started.map(|(_, first, last)| last + 1 - first).sum()
    }

    pub(crate) fn refusal(&self) -> Refusal {
        Refusal {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
        }
    }

    pub(crate) fn order(&mut self, batch: &GrantBatch<'_>) -> Option<Refusal> {
        if (batch.epoch, batch.leader) != (self.epoch, self.leader) {
            return Some(self.refusal());
        }
        self.acknowledged = self.acknowledged.max(batch.reports);
        self.recorded = (batch.epoch, batch.recorded);
        let mut opens = batch.opens.iter();
        for (position, grant) in (batch.first..).zip(batch.grants.iter()) {
            let open = (grant.kind == GrantKind::Open).then(|| opens.next().unwrap());
            if position != self.position + 1 {
                continue;
            }
            if let Some(open) = open {
                let session = SealedSession {
                    session: open.session,
                    tenant: open.tenant.clone(),
                    ordinal: open.ordinal,
                    window: open.window,
                    quota: open.quota,
                    nonce: open.nonce,
                    accepted: 0,
                    done: 0,
                    received: 0,
                    closing: false,
                };
                self.sessions.insert(open.session, session);
            }
            self.accept(position, grant);
        }
        let (epoch, through) = self.recorded;
        self.tail
            .retain(|sealed| sealed.grant.epoch == epoch && sealed.grant.input > through);
        None
    }

    pub(crate) fn accept(&mut self, position: u64, grant: Grant) {
        let session = self.sessions.get_mut(&grant.session).unwrap();
        self.position = position;
        self.chain = self.chain.then(&ChainEntry {
            position,
            tenant: &session.tenant,
            ordinal: session.ordinal,
            kind: grant.kind,
            first: grant.first,
            last: grant.last,
        });
        session.closing |= grant.kind == GrantKind::Close;
        if grant.kind == GrantKind::Run && grant.first == session.accepted + 1 {
            session.accepted = grant.last;
        }
        self.queue.push_back(SealedGrant { position, grant });
        self.tail.push(SealedGrant { position, grant });
    }

    /// Ends at most one position.
    pub(crate) fn run(&mut self) {
        let Some(SealedGrant { position, grant }) = self.queue.pop_front() else {
            return;
        };
        let session = self.sessions.get_mut(&grant.session).unwrap();
        let ready = grant.first == session.done + 1 && grant.last <= session.received;
        let outcome = match grant.kind {
            GrantKind::Run if ready => {
                session.done = grant.last;
                self.started.push((grant.session, grant.first, grant.last));
                Outcome::Ran
            }
            GrantKind::Run => {
                session.accepted = session.done;
                Outcome::Void
            }
            _ => Outcome::Ran,
        };
        let received = session.received;
        self.returned += usize::from(grant.kind == GrantKind::Return);
        if grant.kind == GrantKind::Close {
            self.sessions.remove(&grant.session);
        }
        self.reports.push(DoneReport {
            position,
            session: grant.session,
            measured: 0,
            received,
            outcome,
            declared: 0,
        });
    }

    /// The times of these reports, all of them `now`; empty if it tells none.
    fn times(&self, now: u64, reports: &[DoneReport]) -> Vec<u8> {
        let Some(compiled) = self.compiled.as_ref().filter(|_| !reports.is_empty()) else {
            return Vec::new();
        };
        let row = ReportTimes {
            accepted: now,
            begun: now,
            lacked: 0,
            started: now,
            ended: now,
        };
        let of = |report: &DoneReport| compiled.get(&report.position).copied();
        let compiled = reports.iter().enumerate();
        let times = DoneTimes {
            clock: now,
            rows: vec![row; reports.len()],
            compiled: compiled
                .filter_map(|(at, report)| Some((at, of(report)?)))
                .collect(),
        };
        times.encode()
    }

    pub(crate) fn done(&self, now: u64) -> Vec<u8> {
        let (mut reports, mut received) = (Vec::new(), Vec::new());
        let (mut faults, mut details) = (Vec::new(), String::new());
        let has_run = |it: &&SessionFault| {
            let session = self.sessions.get(&it.session);
            session.is_some_and(|session| session.done >= it.op)
        };
        let fault = self.fault.iter().filter(has_run);
        let fault: Vec<_> = fault.map(|it| FaultRow::of(it, &mut details)).collect();
        let unacknowledged = &self.reports[self.acknowledged as usize..];
        let rows: Vec<_> = self
            .sessions
            .values()
            .map(|session| bus_schemas::Received {
                session: session.session,
                received: session.received,
            })
            .collect();
        encode(&Done {
            v: WIRE_VERSION,
            epoch: self.epoch,
            accepted: self.position,
            chain: self.chain,
            first: self.acknowledged + 1,
            reports: Column::pack(unacknowledged, &mut reports),
            received: Column::pack(&rows, &mut received),
            faults: Column::pack(&fault, &mut faults),
            details: &details,
            times: &self.times(now, unacknowledged),
        })
    }

    /// The number of its list of quotas from its leader.
    fn quotas(&self) -> u64 {
        let ours = self.lists.iter().filter(|list| list.epoch == self.epoch);
        ours.map(|list| list.number).max().unwrap_or(0)
    }

    pub(crate) fn beat(&self) -> WorkerBeat {
        WorkerBeat {
            epoch: self.epoch,
            leader: self.leader,
            draining: self.leaves,
            device: described(self.gpu).name,
            properties: Some(described(self.gpu)),
            quotas: self.takes_quotas.then(|| self.quotas()),
            residency: self.residency.clone(),
            ..WorkerBeat::new(self.incarnation, self.gpu, 8 << 30)
        }
    }
}
