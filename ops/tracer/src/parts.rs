//! Requests as programs report them, and the parts of the record that hold their ops.

use std::rc::Rc;

use bus_schemas::{
    ClientProcess, CostRun, Epoch, GpuId, GpuPosition, GrantKind, OpNumber, RequestReport,
    SessionId, Tenant,
};
use scheduler_leader_core::why::Timing;

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
    /// The detail of the failure that ended it; empty if the program did not tell it.
    pub(crate) failure: Option<Rc<str>>,
    /// Its ops, in order.
    pub(crate) runs: Box<[(OpNumber, OpNumber)]>,
    /// Its loads of modules, in order.
    pub(crate) loads: Box<[(OpNumber, OpNumber)]>,
}

impl Request {
    /// Number of its loads of modules in a part.
    pub(crate) fn loads_in(&self, part: &Part) -> u64 {
        let within = |(first, last): &(OpNumber, OpNumber)| {
            let (first, last) = ((*first).max(part.first), (*last).min(part.last));
            last.saturating_add(1).saturating_sub(first)
        };
        let loads = self.loads.iter().map(within);
        loads.fold(0, u64::saturating_add)
    }

    /// True if parts, in the order of their ops, hold all its ops.
    pub(crate) fn is_held(&self, parts: &[Rc<Part>]) -> bool {
        self.runs.iter().all(|(first, last)| {
            let mut next = *first;
            let at = parts.partition_point(|part| part.last < next);
            for part in parts.iter().skip(at) {
                if part.first > next || next > *last {
                    break;
                }
                next = next.max(part.last.saturating_add(1));
            }
            next > *last
        })
    }

    /// True if a part holds ops of it.
    pub(crate) fn needs(&self, part: &Part) -> bool {
        let at = self.runs.partition_point(|(_, last)| *last < part.first);
        self.runs
            .get(at)
            .is_some_and(|(first, _)| *first <= part.last)
    }
}
