//! The device as a worker needs it: the part of it that is modelled.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, OpRef, SessionId, Tenant, Weights,
};
use gpu_worker_core::dispatch::{Claim, Submission};
use gpu_worker_core::ledger::KernelRan;
use gpu_worker_core::sequencer::{OpenAction, StartAction};

use crate::Nanos;
use crate::node::Io;

/// A slice that the dispatch has handed on.
#[derive(Debug)]
pub struct SimSlice<O> {
    /// What it is.
    pub submission: Submission<Vec<O>>,
    /// The staged bytes that it uses, by transfer.
    pub staged: BTreeMap<u64, Vec<u8>>,
}

/// One answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswer {
    /// The op it answers.
    pub op: OpNumber,
    /// Bytes of a copy to the host; `None` for a sync.
    pub bytes: Option<Vec<u8>>,
    /// Device nanoseconds since the last answer.
    pub device_ns: u64,
}

/// What has ended on a device.
#[derive(Debug)]
pub enum Ended {
    /// A session has begun.
    Opened(SessionId),
    /// A session is gone.
    Closed(SessionId),
    /// A slice is done, or has failed.
    Slice(Box<SliceEnd>),
}

/// How a slice ended.
#[derive(Debug)]
pub struct SliceEnd {
    /// As the sequencer started it.
    pub start: StartAction,
    /// What its ops declare, added up.
    pub declared: u64,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// SM-nanoseconds of its launches.
    pub sm_ns: u64,
    /// Its launches.
    pub kernels: Vec<KernelRan>,
    /// Answers, in op order.
    pub answers: Vec<ModelAnswer>,
    /// The op that failed.
    pub fault: Option<(OpNumber, Failure)>,
}

/// A modelled device. It asks to be looked at with [`super::DEVICE`] when something of it ends.
pub trait SimDevice {
    /// An op as its worker keeps it until it is started.
    type Op: Clone;
    /// Whether slices have anything to look at before they are handed on: modules, transfers,
    /// memory, and whether they are what was declared.
    const LOOKS: bool;

    /// What is kept of an op.
    fn keep(op: &OpRef<'_>) -> Self::Op;
    /// The op that was kept.
    fn op(kept: &Self::Op) -> Op;
    /// The key of a launch.
    fn key(_module: &ModuleHash, _launch: &Launch) -> KernelKey {
        KernelKey(0)
    }

    /// A session is to begin. Says whether it has already.
    fn open(&mut self, io: &mut Io, open: OpenAction) -> bool;
    /// A session that has nothing left to run is to end.
    fn close(&mut self, io: &mut Io, session: SessionId);
    /// A slice is to run.
    fn submit(&mut self, io: &mut Io, slice: SimSlice<Self::Op>);
    /// A session's close is accepted: what runs of it ends soon. Says whether it does.
    fn stop(&mut self, _io: &mut Io, _session: SessionId, _why: &Failure) -> bool {
        true
    }
    /// Begins what can begin.
    fn work(&mut self, _io: &mut Io) {}
    /// Time has passed.
    fn turn(&mut self, _io: &mut Io) {}
    /// When [`SimDevice::turn`] is due.
    fn wake(&mut self) -> Option<Nanos> {
        None
    }
    /// Takes the next of what has ended.
    fn ended(&mut self, io: &mut Io) -> Option<Ended>;

    /// The pager is to be asked this. A mutant asks for something else.
    fn bend_claim(&self, _claim: &mut Claim) {}
    /// Bytes that a session holds.
    fn held(&self, _session: SessionId) -> u64 {
        0
    }
    /// Jobs that wait behind what runs, if something does and it is known.
    fn behind(&self) -> Option<usize> {
        None
    }
    /// Whether something has begun and something more urgent runs.
    fn has_parked(&self) -> bool {
        false
    }
    /// Weights that tenants' programs may have in common.
    fn weights(&self, _tenants: &BTreeSet<&Tenant>) -> Option<Weights> {
        None
    }
}
