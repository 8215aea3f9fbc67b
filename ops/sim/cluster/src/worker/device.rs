//! The device as a worker needs it: the modelled part.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Code, ExportPlace, Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, OpRef, SessionId,
    Tenant, Weights,
};
use device::{KernelTime, OpResult};
use gpu_worker_core::dispatch::Submission;
use gpu_worker_core::exports::DeviceAction;
use gpu_worker_core::sequencer::{OpenAction, StartAction};

use crate::Nanos;
use crate::node::Io;

/// A slice that the dispatch has handed on.
#[derive(Debug)]
pub struct SimSlice<O> {
    /// The submission of the dispatch.
    pub submission: Submission<Vec<O>>,
    /// The staged bytes that it uses, by transfer.
    pub staged: BTreeMap<u64, Vec<u8>>,
}

/// The end of work on a device.
#[derive(Debug)]
pub enum Ended {
    /// A session has begun.
    Opened(SessionId),
    /// A session is gone.
    Closed(SessionId),
    /// A slice is done, or has failed.
    Slice(Box<SliceEnd>),
}

/// The end of a slice.
#[derive(Debug)]
pub struct SliceEnd {
    /// The action by which the sequencer started it.
    pub start: StartAction,
    /// Sum of the costs that its ops declare, if [`SimDevice::SCANS`] is false.
    pub declared: Option<u64>,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// SM-nanoseconds of its launches.
    pub sm_ns: u64,
    /// Its launches.
    pub kernels: Vec<KernelTime>,
    /// Answers, in op order.
    pub answers: Vec<OpResult>,
    /// The op that failed.
    pub fault: Option<(OpNumber, Failure)>,
}

/// A modelled device. It asks for a call with [`super::DEVICE`] when a part of its work ends.
pub trait SimDevice {
    /// An op as its worker keeps it until it is started.
    type Op: Clone;
    /// True if slices have to be checked before they are handed on: their modules, transfers and memory,
    /// and their declared costs.
    const SCANS: bool;

    /// Converts an op to its kept form.
    fn keep(op: &OpRef<'_>) -> Self::Op;
    /// Returns the kept op.
    fn op(kept: &Self::Op) -> Op;
    /// The key of a launch.
    fn key(_module: &ModuleHash, _launch: &Launch) -> KernelKey {
        KernelKey(0)
    }

    /// Begins a session. Returns true if it has begun already.
    fn open(&mut self, io: &mut Io, open: OpenAction) -> bool;
    /// Ends a session that has no work left.
    fn close(&mut self, io: &mut Io, session: SessionId);
    /// Runs a slice.
    fn submit(&mut self, io: &mut Io, slice: SimSlice<Self::Op>);
    /// Carries out an accepted close: the session's running slice ends soon.
    fn stop(&mut self, _io: &mut Io, _session: SessionId, _why: &Failure) {}
    /// Begins the work that can begin.
    fn work(&mut self, _io: &mut Io) {}
    /// Notes that time has passed.
    fn turn(&mut self, _io: &mut Io) {}
    /// Time at which [`SimDevice::turn`] is due.
    fn wake(&mut self) -> Option<Nanos> {
        None
    }
    /// Takes the next end of work.
    fn ended(&mut self, io: &mut Io) -> Option<Ended>;

    /// The form of an op that the dispatch sees: a mutant's is another.
    fn bend(&self) -> fn(Op) -> Op {
        |op| op
    }
    /// A message of the worker about memory: a mutant's is another.
    fn bend_promise(&self, message: Vec<u8>) -> Vec<u8> {
        message
    }
    /// Acts on memory that sessions share.
    ///
    /// # Errors
    /// Those of [`device::ExportMemory`].
    fn exchange(
        &mut self,
        _io: &mut Io,
        _session: SessionId,
        _action: DeviceAction,
    ) -> Result<Option<ExportPlace>, Failure> {
        let why = "this device shares no memory";
        Err(Failure::new(Code::NotExported, why))
    }
    /// True if a session has exports or imports.
    fn shares(&self, _session: SessionId) -> bool {
        false
    }
    /// Takes the numbers of the exports that are gone since the last call.
    fn take_gone(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Bytes that a session holds.
    fn held(&self, _session: SessionId) -> u64 {
        0
    }
    /// True if some job has begun and a more urgent one runs.
    fn has_parked(&self) -> bool {
        false
    }
    /// Weights that tenants' programs may have in common.
    fn weights(&self, _tenants: &BTreeSet<&Tenant>) -> Option<Weights> {
        None
    }
}
