//! The worker: the real sequencer, dispatch and meter, a modelled device, and the thin shell between
//! them.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::subject::{ToClient, ToWorker, WorkerSubject};
use bus_schemas::{
    Batch, Column, DeviceResult, GrantBatch, Op, OpNumber, ResultKind, Seal, SessionId,
    WIRE_VERSION, decode, encode,
};
use gpu_worker_core::dispatch;
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::sequencer::{
    Action, BatchEvent, CompletedEvent, Config, Event, Identity, StartAction,
};
use gpu_worker_core::{Dispatch, Meter, Sequencer};

use super::bus::{self, Bus, Message, Party};
use super::place::{CAPACITY, GPU, Place, SMS, WORKER};
use super::plain::{LIMITS, Plain};
use super::slices::{Slice, SliceOp, Slices};
use super::voice::{say, send};
use crate::device::{Device, Launch};
use crate::outcome::{Outcome, Row};
use crate::scenario::{Scenario, SimulationError};
use sim_cluster::{MILLI, Nanos};

/// What the pager tells the leader so often.
const MEASURED_EVERY: Nanos = 100 * MILLI;

/// What a worker keeps of a session.
#[derive(Debug, Default)]
struct Kept {
    client: usize,
    /// Number of the first op kept.
    first: OpNumber,
    ops: VecDeque<SliceOp>,
    /// Results by number: their ops and device time.
    results: BTreeMap<u64, (OpNumber, u64)>,
}

/// The worker's process.
pub(super) struct WorkerShell {
    core: Sequencer,
    meter: Meter,
    sessions: BTreeMap<SessionId, Kept>,
    dispatch: Dispatch<Slice, ()>,
    slices: Slices,
    device: Device,
    notice: Nanos,
    /// Results of the completion just told of.
    answers: Vec<(OpNumber, u64)>,
    measuring: bool,
    wake: Option<Nanos>,
}

impl WorkerShell {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let identity = Identity {
            incarnation: WORKER,
            gpu: GPU,
            capacity: CAPACITY,
        };
        let (from, to) = (scenario.warm_up, scenario.end());
        let config = Config {
            preemptive: true,
            ..Config::default()
        };
        Self {
            core: Sequencer::new(config, identity),
            meter: Meter::new(0, WORKER, 0, SMS, false),
            sessions: BTreeMap::new(),
            dispatch: Dispatch::new(LIMITS),
            slices: Slices::new(scenario.call),
            device: Device::new(scenario.device, scenario.gap, from, to),
            notice: scenario.notice,
            answers: Vec::new(),
            measuring: false,
            wake: Some(0),
        }
    }

    /// When the core wants to be told the time.
    pub(super) fn core_wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// When core or device have something to do.
    pub(super) fn wake(&mut self) -> Option<Nanos> {
        let calls = self.slices.wake(&self.device);
        let all = [self.wake, self.device.next_at(), calls];
        all.into_iter().flatten().min()
    }

    pub(super) fn active(&mut self, end: Nanos) -> Nanos {
        self.device.advance(end);
        self.device.active()
    }

    pub(super) fn tick(&mut self, now: Nanos, place: &Place, bus: &mut Bus) {
        self.event(now, None, Event::Tick, place, bus);
    }

    /// Lets the device go on: what has ended, what begins.
    pub(super) fn device_turn(
        &mut self,
        now: Nanos,
        (scenario, place): (&Scenario, &Place),
        bus: &mut Bus,
        outcome: &mut Outcome,
    ) -> Result<(), SimulationError> {
        self.device.advance(now);
        while let Some((launch, began)) = self.device.finished() {
            self.ended(now, (&launch, began), (scenario, place), bus, outcome)?;
        }
        while let Some(slice) = self.slices.take_idle(now) {
            bus.later(now + self.notice, bus::Event::Completed(slice));
        }
        self.slices.call(now);
        while self.device.has_room() {
            let Some((client, kernel)) = self.slices.next(now) else {
                break;
            };
            let model = &scenario.tenants[client].model;
            let launch = Launch {
                tenant: client as u32,
                request: 0,
                index: kernel,
                kernel: model.kernels[kernel as usize],
                ready: now,
            };
            self.device.start(now, launch);
        }
        Ok(())
    }

    fn ended(
        &mut self,
        now: Nanos,
        (launch, began): (&Launch, Nanos),
        (scenario, place): (&Scenario, &Place),
        bus: &mut Bus,
        outcome: &mut Outcome,
    ) -> Result<(), SimulationError> {
        let called = bus.called[launch.tenant as usize].pop_front();
        let Some(called) = called.filter(|called| called.kernel == launch.index) else {
            return Err(SimulationError::Cluster("a kernel ran out of order".into()));
        };
        let row = Row {
            tenant: launch.tenant,
            request: called.request,
            kernel: launch.index,
            ready: called.at,
            start: began + scenario.gap,
            end: now,
        };
        outcome.ended(scenario, row, launch.kernel.ns);
        let key = place.keys[launch.tenant as usize][launch.index as usize];
        if let Some(slice) = self.slices.ended(now, launch, key, now - began) {
            bus.later(now + self.notice, bus::Event::Completed(slice));
        }
        Ok(())
    }

    /// The thread has noticed that a slice is done.
    pub(super) fn completed(&mut self, now: Nanos, slice: &Slice, place: &Place, bus: &mut Bus) {
        let StartAction {
            position, session, ..
        } = slice.start;
        self.meter.completed(
            now,
            &SliceUse {
                session,
                device_ns: slice.device_ns,
                launches: slice.measured.len() as u64,
                sm_ns: slice.device_ns * u64::from(SMS),
                kernels: &slice.measured,
            },
        );
        if !self.measuring {
            self.measuring = true;
            bus.later(now + MEASURED_EVERY, bus::Event::Measured);
        }
        self.answers = slice.syncs().map(|op| (op, slice.device_ns)).collect();
        let event = CompletedEvent {
            position,
            session,
            device_ns: slice.device_ns,
            results: &vec![0; self.answers.len()],
            declared: slice.declared(&place.keys[slice.client]),
            fault: None,
        };
        self.event(now, None, Event::Completed(event), place, bus);
    }

    pub(super) fn report_measured(&mut self, now: Nanos, place: &Place, bus: &mut Bus) {
        match self.meter.measured() {
            Some(measured) => {
                let subject = place.subjects.measured(WORKER);
                say(now, Party::Leader, subject, encode(&measured), bus);
                bus.later(now + MEASURED_EVERY, bus::Event::Measured);
            }
            None => self.measuring = false,
        }
    }

    pub(super) fn message(
        &mut self,
        now: Nanos,
        message: &Message,
        place: &Place,
        bus: &mut Bus,
    ) -> Result<(), SimulationError> {
        let bytes = &message.bytes;
        let reply = message.reply.as_deref();
        match place.subjects.parse_worker(&message.subject) {
            Some(WorkerSubject::GrantBatch) => {
                let order = decode::<GrantBatch<'_>>(bytes).map_err(unread)?;
                self.event(now, reply, Event::GrantBatch(&order), place, bus);
            }
            Some(WorkerSubject::Seal) => {
                let seal = decode::<Seal>(bytes).map_err(unread)?;
                self.event(now, reply, Event::Seal(&seal), place, bus);
            }
            Some(WorkerSubject::Tenant(tenant, session, what)) => match what {
                ToWorker::Batch => {
                    let batch = decode::<Batch<'_>>(bytes).map_err(unread)?;
                    self.batch(now, (&tenant, session), &batch, place, bus)?;
                }
                ToWorker::State => {
                    let event = Event::ClientState {
                        tenant: &tenant,
                        session,
                        state: decode(bytes).map_err(unread)?,
                    };
                    self.event(now, None, event, place, bus);
                }
                ToWorker::Data => {}
            },
            Some(WorkerSubject::Lost | WorkerSubject::Leave) | None => {}
        }
        Ok(())
    }

    fn batch(
        &mut self,
        now: Nanos,
        (tenant, session): (&bus_schemas::Tenant, SessionId),
        batch: &Batch<'_>,
        place: &Place,
        bus: &mut Bus,
    ) -> Result<(), SimulationError> {
        let ops = batch.ops().map_err(unread)?;
        let syncs = (batch.first..).zip(ops.iter());
        let syncs = syncs.filter(|(_, op)| matches!(op.op, Op::Sync));
        let outs: Vec<(OpNumber, u64)> = syncs.map(|(number, _)| (number, 0)).collect();
        let event = BatchEvent {
            tenant,
            session,
            first: batch.first,
            count: batch.count,
            results: batch.results,
            bytes: (batch.descriptors.len() + batch.blob.len()) as u64,
            outs: &outs,
            staged: &[],
            loads: &[],
        };
        let mut actions = Vec::new();
        self.core.handle(now, Event::Batch(event), &mut actions);
        for action in &actions {
            if let Action::Keep {
                session,
                first,
                count,
                skip,
            } = *action
            {
                let kept = self.sessions.entry(session).or_default();
                if kept.ops.is_empty() {
                    kept.first = first;
                }
                let part = ops.iter().skip(skip as usize).take(count as usize);
                kept.ops.extend(part.map(|op| match op.op {
                    Op::Launch(launch) => SliceOp::Kernel(launch.function),
                    _ => SliceOp::Sync,
                }));
            }
        }
        self.carry_out(now, None, actions, place, bus);
        Ok(())
    }

    fn event(
        &mut self,
        now: Nanos,
        reply: Option<&str>,
        event: Event<'_>,
        place: &Place,
        bus: &mut Bus,
    ) {
        let mut actions = Vec::new();
        self.core.handle(now, event, &mut actions);
        self.carry_out(now, reply, actions, place, bus);
    }

    fn carry_out(
        &mut self,
        now: Nanos,
        reply: Option<&str>,
        actions: Vec<Action>,
        place: &Place,
        bus: &mut Bus,
    ) {
        for action in actions {
            match action {
                Action::Open(open) => {
                    let kept = self.sessions.entry(open.session).or_default();
                    kept.client = place.index(&open.tenant).unwrap_or(0);
                    self.meter.open(open.session, &open.tenant);
                    let (session, failure) = (open.session, None);
                    self.event(now, None, Event::Opened { session, failure }, place, bus);
                }
                Action::Start(start) => self.start(now, start),
                Action::Forget { session, through } => {
                    let kept = self.sessions.entry(session).or_default();
                    while kept.first <= through && kept.ops.pop_front().is_some() {
                        kept.first += 1;
                    }
                }
                Action::Results { session, first } => {
                    let answers = std::mem::take(&mut self.answers);
                    let kept = self.sessions.entry(session).or_default();
                    kept.results.extend((first..).zip(answers));
                    self.send_results(now, session, first, place, bus);
                }
                Action::ResendResults { session, from } => {
                    self.send_results(now, session, from, place, bus);
                }
                Action::ForgetResults { session, through } => {
                    let kept = self.sessions.entry(session).or_default();
                    kept.results = kept.results.split_off(&through.saturating_add(1));
                }
                other => send(now, reply, other, place, bus),
            }
        }
        self.wake = self.core.next_wakeup();
    }

    fn start(&mut self, now: Nanos, start: StartAction) {
        let Some(kept) = self.sessions.get(&start.session) else {
            return;
        };
        let skip = (start.first - kept.first) as usize;
        let count = (start.last + 1 - start.first) as usize;
        let ops: Vec<SliceOp> = kept.ops.range(skip..skip + count).copied().collect();
        let slice = Slice::new(start, kept.client, ops);
        let unchecked = StartAction {
            declared: None,
            ..start
        };
        self.dispatch
            .handle(dispatch::Event::Started(unchecked, slice));
        let look = |session| self.sessions.contains_key(&session).then_some(Plain);
        while let Some(action) = self.dispatch.next_action(look) {
            if let dispatch::Action::Submit(submission) = action {
                self.slices.start(now, submission.ops);
            }
        }
    }

    fn send_results(
        &self,
        now: Nanos,
        session: SessionId,
        from: u64,
        place: &Place,
        bus: &mut Bus,
    ) {
        let Some(kept) = self.sessions.get(&session) else {
            return;
        };
        let tenant = &place.tenants[kept.client];
        for (number, (op, device_ns)) in kept.results.range(from..) {
            let result = DeviceResult {
                v: WIRE_VERSION,
                number: *number,
                op: *op,
                kind: ResultKind::Sync,
                device_ns: *device_ns,
                total: 0,
                offset: 0,
                bytes: &[],
                events: Column::default(),
            };
            let subject = place.subjects.to_client(tenant, session, ToClient::Result);
            say(
                now,
                Party::Client(kept.client),
                subject,
                encode(&result),
                bus,
            );
        }
    }
}

fn unread(error: impl std::fmt::Display) -> SimulationError {
    SimulationError::Cluster(format!("an unreadable message: {error}"))
}
