//! One sequencer on a bench that plays leader, clients and device.

use bus_schemas::{
    Allowance, Column, Epoch, GpuPosition, Grant, GrantBatch, GrantKind, Incarnation, LeaderId,
    OpenGrant, Outcome, Seal, SealReply, SessionId, Tenant, WIRE_VERSION, Window, limits,
};
use gpu_worker_core::sequencer::{
    AckMessage, Action, BatchEvent, ChunkEvent, CompletedEvent, DoneMessage, Event, Identity,
    ImageReadiness, SequencerConfig, StartAction,
};
use gpu_worker_core::{Nanos, Sequencer};

pub(crate) const MS: Nanos = 1_000_000;

pub(crate) fn tenant() -> Tenant {
    "a".parse().unwrap()
}

/// The tenant of a session: sessions from 100 on belong to another tenant.
pub(crate) fn owner(session: u64) -> Tenant {
    if session < 100 {
        tenant()
    } else {
        "b".parse().unwrap()
    }
}

pub(crate) fn id(session: u64) -> SessionId {
    SessionId(session)
}

pub(crate) struct Bench {
    pub(crate) core: Sequencer,
    pub(crate) now: Nanos,
    pub(crate) epoch: Epoch,
    /// Next gpu position.
    pub(crate) next: u64,
    pub(crate) recorded: u64,
    pub(crate) reports: u64,
    /// Device nanoseconds of a completed slice.
    pub(crate) device_ns: u64,
    /// Staged bytes that sessions opened from now on may have, with their tenant's others.
    pub(crate) staged: Allowance,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::on_device(false)
    }

    pub(crate) fn on_device(preemptive: bool) -> Self {
        Self::configured(SequencerConfig {
            preemptive,
            ..SequencerConfig::default()
        })
    }

    pub(crate) fn configured(config: SequencerConfig) -> Self {
        let mut bench = Self::joining(config);
        bench.tell(Event::Timer);
        bench.seal(1, 1).sealed.expect("the first seal is obeyed");
        bench
    }

    /// A worker that no leader has sealed.
    pub(crate) fn joining(config: SequencerConfig) -> Self {
        let identity = Identity {
            incarnation: Incarnation(9),
            gpu: 3,
            capacity: 1 << 30,
        };
        let core = Sequencer::new(config, identity);
        let (now, epoch, next) = (1, 1, 1);
        Self {
            core,
            now,
            epoch,
            next,
            recorded: 0,
            reports: 0,
            device_ns: 100_000,
            staged: Allowance::NONE,
        }
    }

    pub(crate) fn tell(&mut self, event: Event<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, event, &mut actions);
        actions
    }

    pub(crate) fn after(&mut self, ns: Nanos) -> Vec<Action> {
        self.now += ns;
        self.tell(Event::Timer)
    }

    /// A seal by a leader that takes no pages of the tail.
    pub(crate) fn seal(&mut self, epoch: Epoch, leader: u64) -> SealReply {
        self.seal_after(epoch, leader, None)
    }

    pub(crate) fn seal_after(
        &mut self,
        epoch: Epoch,
        leader: u64,
        after: Option<GpuPosition>,
    ) -> SealReply {
        let seal = Seal {
            v: WIRE_VERSION,
            epoch,
            leader: LeaderId(leader),
            after,
            times: true,
        };
        let actions = self.tell(Event::Seal(&seal));
        let reply = actions.into_iter().find_map(|action| match action {
            Action::SealReply(reply) => Some(*reply),
            _ => None,
        });
        reply.expect("a seal is answered")
    }

    pub(crate) fn order_of(
        &mut self,
        epoch: Epoch,
        leader: u64,
        rows: &[Grant],
        first: u64,
    ) -> Vec<Action> {
        let opens = rows.iter().filter(|grant| grant.kind == GrantKind::Open);
        let opens = opens.map(|grant| OpenGrant {
            staged: self.staged,
            ..open_grant(grant.session)
        });
        let opens = opens.collect();
        let mut packed = Vec::new();
        let batch = GrantBatch {
            v: WIRE_VERSION,
            epoch,
            leader: LeaderId(leader),
            first,
            recorded: self.recorded,
            reports: self.reports,
            grants: Column::pack(rows, &mut packed),
            opens,
        };
        self.tell(Event::GrantBatch(&batch))
    }

    pub(crate) fn order(&mut self, rows: &[Grant]) -> Vec<Action> {
        let first = self.next;
        self.next += rows.len() as u64;
        self.order_of(self.epoch, self.epoch, rows, first)
    }

    pub(crate) fn open(&mut self, session: u64) {
        let actions = self.order(&[grant(GrantKind::Open, session, 0, 0)]);
        assert!(
            actions
                .iter()
                .any(|action| matches!(action, Action::Open(_)))
        );
        let session = id(session);
        let opened = Event::Opened {
            session,
            failure: None,
        };
        let actions = self.tell(opened);
        assert!(
            actions
                .iter()
                .any(|action| matches!(action, Action::SendAck(_)))
        );
        self.reports = done(&actions)
            .expect("an idle worker reports at once")
            .first;
    }

    pub(crate) fn batch(&mut self, session: u64, first: u64, count: u32) -> Vec<Action> {
        self.batch_of(session, first, count, &[], &[])
    }

    pub(crate) fn batch_of(
        &mut self,
        session: u64,
        first: u64,
        count: u32,
        outs: &[(u64, u64)],
        staged: &[(u64, u64)],
    ) -> Vec<Action> {
        self.tell(Event::Batch(BatchEvent {
            tenant: &tenant(),
            session: id(session),
            first,
            count,
            results: 0,
            bytes: 48 * u64::from(count),
            outs,
            staged,
            loads: &[],
        }))
    }

    pub(crate) fn complete(&mut self, start: StartAction, results: &[u64]) -> Vec<Action> {
        self.completed(start, results, 0)
    }

    pub(crate) fn complete_declared(&mut self, start: StartAction, declared: u64) -> Vec<Action> {
        self.completed(start, &[], declared)
    }

    fn completed(&mut self, start: StartAction, results: &[u64], declared: u64) -> Vec<Action> {
        self.tell(Event::Completed(CompletedEvent {
            position: start.position,
            session: start.session,
            began: None,
            device_ns: self.device_ns,
            results,
            compiled: &[],
            declared,
            fault: None,
        }))
    }

    pub(crate) fn chunk(
        &mut self,
        session: u64,
        transfer: u64,
        total: u64,
        offset: u64,
    ) -> Vec<Action> {
        self.tell(Event::Chunk(ChunkEvent {
            tenant: &owner(session),
            session: id(session),
            transfer,
            total,
            offset,
            bytes: (total - offset).min(limits::CHUNK_BYTES as u64),
            module: None,
            image: ImageReadiness::Unknown,
        }))
    }
}

pub(crate) fn grant(kind: GrantKind, session: u64, first: u64, last: u64) -> Grant {
    Grant {
        kind,
        priority: 2,
        global: 0,
        session: id(session),
        first,
        last,
        cost: 10_000_000,
        declared: 77,
        input: 1,
        epoch: 1,
    }
}

pub(crate) fn run(session: u64, first: u64, last: u64) -> Grant {
    grant(GrantKind::Run, session, first, last)
}

pub(crate) fn open_grant(session: SessionId) -> OpenGrant {
    let size = limits::WINDOW_MIN_BYTES;
    OpenGrant {
        session,
        tenant: owner(session.0),
        ordinal: session.0,
        window: Window {
            base: limits::ADDRESS_FIRST + session.0 * size,
            size,
        },
        quota: 0,
        nonce: session.0,
        priority: 2,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
    }
}

pub(crate) fn starts(actions: &[Action]) -> Vec<StartAction> {
    let start = |action: &Action| match action {
        Action::Start(start) => Some(*start),
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}

pub(crate) fn outcomes(actions: &[Action]) -> Vec<(u64, Outcome)> {
    let outcome = |action: &Action| match action {
        Action::Settled(settled) => Some((settled.position, settled.outcome)),
        _ => None,
    };
    actions.iter().filter_map(outcome).collect()
}

pub(crate) fn done(actions: &[Action]) -> Option<DoneMessage> {
    actions.iter().find_map(|action| match action {
        Action::SendDone(done) => Some(done.clone()),
        _ => None,
    })
}

pub(crate) fn ack(actions: &[Action]) -> Option<AckMessage> {
    actions.iter().find_map(|action| match action {
        Action::SendAck(ack) => Some((**ack).clone()),
        _ => None,
    })
}
