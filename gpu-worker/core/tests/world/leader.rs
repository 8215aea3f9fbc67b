//! A leader, as simple as the protocol allows: it grants, repeats, and takes reports.

use std::collections::BTreeMap;

use bus_schemas::{
    Allowance, Column, DoneReport, Epoch, GpuPosition, Grant, GrantBatch, GrantKind, LeaderId,
    OpNumber, OpenGrant, Outcome, SealAnswer, SessionId, Tenant, WIRE_VERSION, Window, encode,
};

/// A leader: it grants the ops that its sessions have queued, and resends grants that are not accepted.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) epoch: Epoch,
    pub(crate) id: LeaderId,
    pub(super) sealed: bool,
    pub(super) first: GpuPosition,
    pub(super) grants: Vec<(Grant, Option<OpenGrant>)>,
    pub(super) accepted: GpuPosition,
    pub(super) reports: u64,
    pub(super) ended: BTreeMap<GpuPosition, Outcome>,
    pub(super) next: BTreeMap<u64, OpNumber>,
    pub(super) doubted: BTreeMap<u64, OpNumber>,
    pub(super) rewound: BTreeMap<u64, GpuPosition>,
    pub(super) closed: BTreeMap<u64, bool>,
    /// Position of the last standing grant of each session that is not closed.
    pub(super) standing: BTreeMap<u64, GpuPosition>,
    /// Last position granted to each session.
    pub(super) last: BTreeMap<u64, GpuPosition>,
}

impl Leader {
    pub(super) fn new(epoch: Epoch, id: u64) -> Self {
        Self {
            epoch,
            id: LeaderId(id),
            sealed: false,
            first: 1,
            grants: Vec::new(),
            accepted: 0,
            reports: 0,
            ended: BTreeMap::new(),
            next: BTreeMap::new(),
            doubted: BTreeMap::new(),
            rewound: BTreeMap::new(),
            closed: BTreeMap::new(),
            standing: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    pub(super) fn start_from(&mut self, answer: &SealAnswer) {
        if self.sealed {
            return;
        }
        self.sealed = true;
        self.first = answer.position + 1;
        self.accepted = answer.position;
        self.reports = answer.reports;
        for sealed in &answer.outstanding {
            // Later reports have the outcomes of these; voids rewind below.
            self.last.insert(sealed.grant.session.0, sealed.position);
            self.next
                .insert(sealed.grant.session.0, sealed.grant.last + 1);
        }
        for session in &answer.sessions {
            self.next.insert(session.session.0, session.accepted + 1);
            self.closed.insert(session.session.0, session.closing);
        }
        for fault in &answer.faults {
            self.closed.entry(fault.session.0).or_default();
        }
    }

    pub(super) fn grant(&mut self, kind: GrantKind, session: u64, first: OpNumber, last: OpNumber) {
        let open = (kind == GrantKind::Open).then(|| open_grant(session));
        let position = self.first + self.grants.len() as u64;
        self.last.insert(session, position);
        let cost = match kind {
            GrantKind::Standing => {
                self.standing.insert(session, position);
                40_000
            }
            _ => 1_000 * (last - first + 1),
        };
        self.grants.push((
            Grant {
                kind,
                priority: (session % 5) as u8,
                global: self.first + self.grants.len() as u64,
                session: SessionId(session),
                first,
                last,
                cost,
                declared: 0,
                input: self.grants.len() as u64 + 1,
                epoch: self.epoch,
            },
            open,
        ));
    }

    /// True if everything granted to a session has ended.
    pub(super) fn is_clear(&self, session: u64) -> bool {
        let last = self.last.get(&session);
        last.is_none_or(|last| self.ended.contains_key(last))
    }

    pub(super) fn order(&self, from: GpuPosition, count: usize) -> Vec<u8> {
        let skip = (from.max(self.first) - self.first) as usize;
        let rows: Vec<_> = self.grants.iter().skip(skip).take(count).collect();
        let grants: Vec<_> = rows.iter().map(|(grant, _)| *grant).collect();
        let mut packed = Vec::new();
        let batch = GrantBatch {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.id,
            first: from.max(self.first),
            recorded: self.grants.len() as u64 / 2,
            reports: self.reports,
            grants: Column::pack(&grants, &mut packed),
            opens: rows.iter().filter_map(|(_, open)| open.clone()).collect(),
        };
        encode(&batch)
    }

    pub(super) fn hear(
        &mut self,
        first: u64,
        reports: &[DoneReport],
        old: &BTreeMap<GpuPosition, Grant>,
    ) {
        for (number, report) in (first..).zip(reports) {
            if number != self.reports + 1 {
                continue;
            }
            self.reports = number;
            let session = report.session.0;
            if report.outcome == Outcome::Closed {
                self.next.insert(session, report.received + 1);
                if self.standing.get(&session) == Some(&report.position) {
                    self.standing.remove(&session);
                }
            }
            if matches!(report.outcome, Outcome::Part | Outcome::Closed) {
                continue;
            }
            self.ended.insert(report.position, report.outcome);
            if report.outcome == Outcome::Void {
                // Only the first of several successive voids rewinds.
                let rewound = self.rewound.get(&session).copied().unwrap_or(0);
                if report.position > rewound {
                    self.next.insert(session, old[&report.position].first);
                    let granted = self.first + self.grants.len() as u64 - 1;
                    self.rewound.insert(session, granted);
                }
                let received = self.doubted.entry(session).or_default();
                *received = report.received.max(*received);
            }
        }
    }
}

pub(crate) fn tenant() -> Tenant {
    "a".parse().unwrap()
}

pub(crate) fn open_grant(session: u64) -> OpenGrant {
    let size = 16 << 30;
    OpenGrant {
        session: SessionId(session),
        tenant: tenant(),
        ordinal: session,
        window: Window {
            base: bus_schemas::limits::ADDRESS_FIRST + session * size,
            size,
        },
        quota: 0,
        nonce: session,
        priority: (session % 5) as u8,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
    }
}
