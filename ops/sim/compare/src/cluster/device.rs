//! The worker's device: the launches that the real feed allows the device thread, and the time at which a
//! slice's end is noticed.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use ::device::OpResult;
use bus_schemas::{Op, OpRef, ResultKind, SessionId};
use gpu_worker_core::sequencer::OpenAction;
use sim_cluster::{DEVICE, Ended, Io, Nanos, NodeFact, SimDevice, SliceEnd};

use super::books::Shared;
use super::place::{Place, SMS};
use super::slices::{Slice, SliceOp, Slices};
use crate::device::Launch;
use crate::outcome::KernelRow;
use crate::scenario::Scenario;

/// A device that is fed launch by launch.
pub(super) struct FedDevice {
    scenario: Rc<Scenario>,
    place: Rc<Place>,
    books: Shared,
    /// Index of the tenant of each open session.
    sessions: BTreeMap<SessionId, usize>,
    slices: Slices,
    /// Slices that are done, noticed one after the other.
    done: VecDeque<Box<Slice>>,
}

impl FedDevice {
    pub(super) fn new(scenario: Rc<Scenario>, place: Rc<Place>, books: Shared) -> Self {
        Self {
            slices: Slices::new(scenario.call),
            scenario,
            place,
            books,
            sessions: BTreeMap::new(),
            done: VecDeque::new(),
        }
    }

    /// Notes that a slice is done; the thread notices it a while later.
    fn is_done(&mut self, io: &mut Io, slice: Box<Slice>) {
        self.done.push_back(slice);
        io.later(io.now + self.scenario.notice, DEVICE);
    }

    /// Handles the end of a kernel.
    fn kernel_ended(&mut self, io: &mut Io, launch: &Launch, began: Nanos) {
        let client = launch.tenant as usize;
        let mut books = self.books.borrow_mut();
        let called = books.customers[client].called.pop_front();
        let Some(called) = called.filter(|called| called.kernel == launch.index) else {
            let why = "a kernel ran out of order".into();
            return io.fact(NodeFact::Broken { why });
        };
        let row = KernelRow {
            tenant: launch.tenant,
            request: called.request,
            kernel: launch.index,
            ready: called.at,
            start: began + self.scenario.gap,
            end: io.now,
        };
        books.outcome.ended(&self.scenario, row, launch.kernel.ns);
        drop(books);
        let key = self.place.keys[client][launch.index as usize];
        if let Some(slice) = self.slices.ended(io.now, launch, key, io.now - began) {
            self.is_done(io, slice);
        }
    }

    fn finished(&mut self) -> Option<(Launch, Nanos)> {
        self.books.borrow_mut().device.finished()
    }
}

impl SimDevice for FedDevice {
    type Op = SliceOp;
    // Kernels are launched here without modules, memory or false costs: only their order is decided.
    const SCANS: bool = false;

    fn keep(op: &OpRef<'_>) -> SliceOp {
        match op.op {
            Op::Launch(launch) => SliceOp::Kernel(launch.function),
            _ => SliceOp::Sync,
        }
    }

    fn op(_: &SliceOp) -> Op {
        Op::Sync
    }

    fn open(&mut self, _: &mut Io, open: OpenAction) -> bool {
        let client = self.place.index(&open.tenant).unwrap_or(0);
        self.sessions.insert(open.session, client);
        true
    }

    fn close(&mut self, _: &mut Io, _: SessionId) {}

    fn submit(&mut self, io: &mut Io, slice: sim_cluster::SimSlice<SliceOp>) {
        let submission = slice.submission;
        let session = submission.start.session;
        if let Some(client) = self.sessions.get(&session).copied() {
            let slice = Slice::new(submission.start, client, submission.ops);
            self.slices.start(io.now, slice);
        }
    }

    fn turn(&mut self, io: &mut Io) {
        self.books.borrow_mut().device.advance(io.now);
        while let Some((launch, began)) = self.finished() {
            self.kernel_ended(io, &launch, began);
        }
        while let Some(slice) = self.slices.take_idle(io.now) {
            self.is_done(io, slice);
        }
        self.slices.call(io.now);
        let device = &mut self.books.borrow_mut().device;
        while device.has_room() {
            let Some((client, kernel)) = self.slices.next(io.now) else {
                break;
            };
            let model = &self.scenario.tenants[client].model;
            let launch = Launch {
                tenant: client as u32,
                request: 0,
                index: kernel,
                kernel: model.kernels[kernel as usize],
                ready: io.now,
            };
            device.start(io.now, launch);
        }
    }

    fn wake(&mut self) -> Option<Nanos> {
        let device = &self.books.borrow().device;
        let wakes = [self.slices.wake(device), device.next_at()];
        wakes.into_iter().flatten().min()
    }

    fn ended(&mut self, _: &mut Io) -> Option<Ended> {
        let slice = *self.done.pop_front()?;
        let answer = |op| OpResult {
            op,
            kind: ResultKind::Sync,
            bytes: None,
            printed: Vec::new(),
            device_ns: slice.device_ns,
        };
        Some(Ended::Slice(Box::new(SliceEnd {
            start: slice.start,
            declared: Some(slice.declared(&self.place.keys[slice.client])),
            device_ns: slice.device_ns,
            sm_ns: slice.device_ns * u64::from(SMS),
            answers: slice.syncs().map(answer).collect(),
            kernels: slice.measured,
            fault: None,
        })))
    }
}
