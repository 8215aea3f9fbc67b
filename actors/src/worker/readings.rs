//! Readings of the device's resources: the core has them, and the VramPager publishes and records them.

use std::collections::BTreeMap;

use actix::Message;
use bus_schemas::{
    ClientProcess, KernelKey, KernelRecord, Measured, MoveTotals, SessionId, Tenant, Usage,
    UsageBlock,
};
use gpu_worker_core::Resources;
use gpu_worker_core::ledger::Cut;
use gpu_worker_core::pager::TenantMemory;

use crate::host_clock::ms_since_1970;

/// The usage of the device, and the memory of its tenants.
pub(super) struct UsageReading {
    pub(super) usage: Usage,
    /// Processes of the sessions among its rows, as far as reported.
    pub(super) processes: BTreeMap<SessionId, ClientProcess>,
    /// Memory of each tenant, and its swapped-out bytes.
    pub(super) memory: BTreeMap<Tenant, (TenantMemory, u64)>,
    pub(super) moves: BTreeMap<Tenant, MoveTotals>,
}

impl UsageReading {
    pub(super) fn of(resources: &Resources, now: u64) -> Self {
        let usage = resources.usage(now);
        let sessions = usage.sessions.iter().map(|row| row.session);
        let process = |session| Some((session, resources.process(session)?));
        Self {
            processes: sessions.filter_map(process).collect(),
            memory: resources.tenants_memory(),
            moves: resources.moves(now),
            usage,
        }
    }
}

/// All readings at the end of a worker.
pub(super) struct Readings {
    pub(super) measured: Option<Measured>,
    pub(super) usage: UsageReading,
    pub(super) blocks: Vec<UsageBlock>,
}

impl Readings {
    pub(super) fn last(resources: &mut Resources, now: u64) -> Self {
        Self {
            measured: resources.measured(),
            usage: UsageReading::of(resources, now),
            blocks: cut(resources, now, true),
        }
    }
}

/// Asks for the usage so far.
pub(super) struct ReadUsage;

impl Message for ReadUsage {
    type Result = UsageReading;
}

/// Takes the totals of the kernel keys that changed.
pub(super) struct TakeMeasured;

impl Message for TakeMeasured {
    type Result = Option<Measured>;
}

/// Takes the measurements of at most this many kernel keys, for their records.
pub(super) struct TakeTimes(pub(super) usize);

impl Message for TakeTimes {
    type Result = Vec<(KernelKey, KernelRecord)>;
}

/// Asks for the next usage blocks. They come as [`Blocks`], ahead of the last ones.
pub(super) struct CutUsage;

impl Message for CutUsage {
    type Result = ();
}

/// The next usage blocks.
pub(super) struct Blocks(pub(super) Vec<UsageBlock>);

impl Message for Blocks {
    type Result = ();
}

/// Cuts the next usage blocks.
pub(super) fn cut(resources: &mut Resources, now: u64, last: bool) -> Vec<UsageBlock> {
    let at_ms = ms_since_1970();
    resources.cut(now, &Cut { at_ms, last })
}
