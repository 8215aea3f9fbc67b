//! Models of a leader's environment: GPUs, clients, and the messages between them and it.

use bus_schemas::subject::LeaderSubject;
use bus_schemas::{DoneReport, Incarnation, SessionId, Tenant, WorkerBeat};

use crate::load::incarnation;

/// Bytes of memory of a modelled GPU.
pub(crate) const CAPACITY: u64 = 141 << 30;

/// A message to the leader.
#[derive(Debug)]
pub(crate) enum Message {
    Bus(LeaderSubject, Vec<u8>),
    Recorded { epoch: u64, number: u64 },
}

/// A modelled GPU: every grant is done at once.
#[derive(Debug, Default)]
pub(crate) struct Gpu {
    pub(crate) position: u64,
    /// Reports not acknowledged, from number `first` on.
    pub(crate) reports: Vec<DoneReport>,
    pub(crate) first: u64,
}

/// A session with endless work.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) tenant: Tenant,
    pub(crate) id: SessionId,
    pub(crate) granted: u64,
    pub(crate) announced: u64,
}

/// The GPU of a grant subject.
pub(crate) fn gpu_of(subject: &str) -> Option<usize> {
    let (_, worker) = subject.strip_suffix(".order")?.rsplit_once('.')?;
    let worker: Incarnation = worker.parse().ok()?;
    Some(worker.0 as usize - 1)
}

/// The heartbeat of a GPU's worker.
pub(crate) fn beat(gpu: usize) -> WorkerBeat {
    WorkerBeat::new(incarnation(gpu), gpu as u32, CAPACITY)
}
