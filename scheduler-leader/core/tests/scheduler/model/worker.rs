//! A worker and its sessions in the model.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Chain, CostRun, DoneReport, Grant, Incarnation, OpenGrant, Tenant, Window};

/// One worker: accepts in order, runs in order, voids what cannot run.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) gpu: u32,
    pub(crate) position: u64,
    pub(crate) chain: Chain,
    pub(crate) global: u64,
    /// Accepted and not done.
    pub(crate) queue: VecDeque<(u64, Grant)>,
    /// True if the last of these is a standing grant that is not closed.
    pub(crate) open: bool,
    /// Reports on standing grants that are not handed over.
    pub(crate) told: Vec<DoneReport>,
    /// The last report handed over.
    pub(crate) reports: u64,
    pub(crate) ordinals: BTreeMap<Tenant, u64>,
}

/// One session as the worker sees it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) tenant: Tenant,
    pub(crate) ordinal: u64,
    pub(crate) worker: Incarnation,
    pub(crate) window: Window,
    /// All ops submitted, expanded.
    pub(crate) ops: Vec<CostRun>,
    /// Ops that the leader was told of.
    pub(crate) announced: u64,
    /// Ops that the worker has.
    pub(crate) received: u64,
    /// Ops that ran.
    pub(crate) done: u64,
    /// Ops that started under a standing grant.
    pub(crate) started: u64,
    /// First op of its last standing grant, or of the first one that this one continues.
    pub(crate) stood: u64,
    /// The last op of its last standing grant: cut points are found from there on.
    pub(crate) base: u64,
    pub(crate) closing: bool,
    pub(crate) closed: bool,
}

impl Worker {
    pub(super) fn new(gpu: u32) -> Self {
        Self {
            gpu,
            position: 0,
            chain: Chain::default(),
            global: 0,
            queue: VecDeque::new(),
            open: false,
            told: Vec::new(),
            reports: 0,
            ordinals: BTreeMap::new(),
        }
    }
}

impl Session {
    pub(super) fn new(worker: Incarnation, open: &OpenGrant) -> Self {
        Self {
            tenant: open.tenant.clone(),
            ordinal: open.ordinal,
            worker,
            window: open.window,
            ops: Vec::new(),
            announced: 0,
            received: 0,
            done: 0,
            started: 0,
            stood: 0,
            base: 0,
            closing: false,
            closed: false,
        }
    }
}
