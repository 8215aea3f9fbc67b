//! A device's resources: memory held, waiting claims, and usage.
//!
//! The [`Pager`] decides, the [`Meter`] adds up, and at most one [`Claim`] is open: its slice waits for
//! memory. The pager is asked again only when memory may have become free: after slices have completed, and
//! after a session has ended.

use std::collections::BTreeMap;

use bus_schemas::{
    ClientProcess, Failure, GpuId, Incarnation, KernelKey, KernelName, KernelRecord, Measured,
    MemoryAnswer, MemoryRequest, MoveTotals, OpNumber, Residency, SessionId, Tenant, TenantQuota,
    Usage, UsageBlock,
};

use device::{Moved, Recharged, SwapUse};

use crate::busy::BusyTimes;
use crate::dispatch::{Claim, ClaimAnswer, Claims};
use crate::ledger::Cut;
use crate::memory_report::MemoryReport;
use crate::meter::SliceUse;
use crate::pager::{MemoryAction, MemoryRequested, SwapAction, TenantMemory};
use crate::{Meter, Nanos, Pager};

/// A slice that has completed, to its end or to a fault.
#[derive(Debug, Clone, Copy)]
pub struct MeteredSlice<'a> {
    /// Its first op.
    pub first: OpNumber,
    /// Its last.
    pub last: OpNumber,
    /// Bytes that its session holds now, by the device's report.
    pub resident: u64,
    /// True if one of its ops failed.
    pub faulted: bool,
    /// Its usage.
    pub used: SliceUse<'a>,
}

/// The resources of one device.
#[derive(Debug)]
pub struct Resources {
    pager: Pager,
    meter: Meter,
    claims: Claims,
    busy: BusyTimes,
    /// Bytes saved because memory of several sessions is stored once.
    saved: u64,
    /// Memory actions that were not taken yet.
    actions: Vec<MemoryAction>,
}

impl Resources {
    /// Creates the resources of a device; launches may take `small_launch` bytes without asking.
    #[must_use]
    pub fn new(pager: Pager, meter: Meter, small_launch: u64) -> Self {
        Self {
            pager,
            meter,
            claims: Claims::new(small_launch),
            busy: BusyTimes::default(),
            saved: 0,
            actions: Vec::new(),
        }
    }

    /// Adds a session that begins, or is about to. A repeated call changes nothing. A quota of 0 stands for
    /// the device's capacity.
    pub fn open(&mut self, now: Nanos, session: SessionId, tenant: &Tenant, quota: u64) {
        self.pager.open(now, session, tenant, quota);
        self.meter.open(session, tenant);
        self.busy.open(session, tenant);
    }

    /// Removes a session that has ended and freed its memory. Returns the answer to the open claim, if there
    /// is one now.
    pub fn close(&mut self, now: Nanos, session: SessionId) -> Option<ClaimAnswer> {
        let byte_ms = self.pager.close(now, session);
        self.meter.close(session, byte_ms);
        self.busy.close(session);
        self.claims.ask_again(&mut self.pager)
    }

    /// Asks for the memory of the slice that runs next. Without an answer its claim stays open.
    pub fn ask(&mut self, claim: Claim) -> Option<ClaimAnswer> {
        self.claims.ask(&mut self.pager, claim)
    }

    /// Drops the session's claim; it needs no answer any more. Returns true if there was one.
    pub fn withdraw(&mut self, session: SessionId) -> bool {
        self.claims.withdraw(session)
    }

    /// Notes that a session needs its memory on the device. The answer is [`SwapAction::Returned`].
    pub fn want(&mut self, now: Nanos, session: SessionId, priority: u8) {
        self.pager.want(now, session, priority);
    }

    /// Notes that a session which was to leave the device has work.
    pub fn kept(&mut self, now: Nanos, session: SessionId) {
        self.pager.kept(now, session);
    }

    /// Handles the end of a move of a session's memory. Returns the answer to the open claim, if there is one
    /// now.
    pub fn moved(&mut self, now: Nanos, ended: &Moved) -> Option<ClaimAnswer> {
        self.pager.moved(now, ended);
        self.pager.charge(now, ended.session, ended.resident);
        self.claims.ask_again(&mut self.pager)
    }

    /// Takes the device's report of the use of the swap space.
    pub fn swap_used(&mut self, used: SwapUse) {
        self.pager.swap_used(used);
    }

    /// Sets the priority of a session's tenant, 0 (highest) to 4.
    pub fn set_priority(&mut self, session: SessionId, priority: u8) {
        self.pager.set_priority(session, priority);
    }

    /// Number of sessions that hold memory or may.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.pager.sessions()
    }

    /// Bytes that a session has allocated, on the device or off it.
    #[must_use]
    pub fn held(&self, session: SessionId) -> u64 {
        self.pager.held(session)
    }

    /// True if time alone may change a decision: a session waits for memory, is asked to give some back, or may
    /// leave the device once it is idle.
    #[must_use]
    pub fn needs_look(&self) -> bool {
        self.pager.is_waiting() || self.pager.may_move()
    }

    /// Returns the moves to begin now. Call it after every event, and now and then.
    pub fn swap_actions(&mut self, now: Nanos) -> Vec<SwapAction> {
        let mut actions = Vec::new();
        self.pager.swap(now, &mut actions);
        actions
    }

    /// Returns the report of places for leaders, if not all memory that sessions may hold fits.
    #[must_use]
    pub fn residency_report(&self) -> Option<Residency> {
        self.pager.residency_report()
    }

    /// Handles a request for memory from a session's client.
    pub fn request(&mut self, now: Nanos, session: SessionId, request: &MemoryRequest) {
        let requested = MemoryRequested {
            session,
            number: request.number,
            held: request.held,
            after: request.after,
            wanted: request.wanted,
            least: request.least,
            recall: request.recall,
        };
        if request.pinned {
            self.pager.pin(session);
        }
        if let Some(process) = request.process {
            self.pager.name_process(session, process);
        }
        self.pager.request(now, requested, &mut self.actions);
    }

    /// Keeps a session on the device because it shares memory with other sessions: see [`Pager::keep`].
    ///
    /// # Errors
    /// Those of [`Pager::keep`].
    pub fn keep(&mut self, now: Nanos, session: SessionId) -> Result<(), Failure> {
        self.pager.keep(now, session, &mut self.actions)
    }

    /// Sets the quotas of tenants from now on, and the tenants that are never swapped out.
    pub fn set_quotas(
        &mut self,
        now: Nanos,
        quotas: impl IntoIterator<Item = TenantQuota>,
        pinned: impl IntoIterator<Item = Tenant>,
    ) {
        self.pager.pin_tenants(pinned);
        self.pager.set_quotas(now, quotas, &mut self.actions);
    }

    /// Notes that a session is being closed; all its memory will be free.
    pub fn closing(&mut self, session: SessionId) {
        self.pager.closing(session);
    }

    /// Returns the answers and recalls that are due, each with its tenant and session. Memory may have become
    /// free since, or the time to refuse may have come.
    pub fn memory_answers(&mut self, now: Nanos) -> Vec<(Tenant, SessionId, MemoryAnswer)> {
        self.pager.settle(now, &mut self.actions);
        let pager = &self.pager;
        let answers = self.actions.drain(..).filter_map(|action| {
            let (session, answer) = match action {
                MemoryAction::Recall { session, .. } => (session, pager.recall_message(session)?),
                MemoryAction::Answer {
                    session,
                    number,
                    committed,
                    memory,
                    refused,
                } => (session, memory.answer(number, committed, refused)),
            };
            Some((pager.owner(session)?.clone(), session, answer))
        });
        answers.collect()
    }

    /// Handles slices that have completed, in this order. Returns the answer to the open claim, if there is
    /// one now.
    pub fn completed<'a>(
        &mut self,
        now: Nanos,
        slices: impl IntoIterator<Item = MeteredSlice<'a>>,
    ) -> Option<ClaimAnswer> {
        for slice in slices {
            let session = slice.used.session;
            let (resident, faulted) = (slice.resident, slice.faulted);
            self.pager
                .completed(now, (slice.first, slice.last), session, resident, faulted);
            self.meter.completed(now, &slice.used);
            if slice.used.launches > 0 {
                self.busy.ran(now, session, slice.used.device_ns);
            }
        }
        self.claims.ask_again(&mut self.pager)
    }

    /// Notes that [`Self::completed`] has counted all usage of the worker's done reports through this one.
    pub fn reported(&mut self, through: u64) {
        self.meter.reported(through);
    }

    /// Takes charges that changed because of other sessions, and the bytes saved by sharing. That frees
    /// nothing, so no claim is asked again.
    pub fn recharged(&mut self, now: Nanos, changed: &[Recharged], saved: u64) {
        self.pager.recharged(now, changed);
        self.saved = saved;
    }

    /// Counts the processor time that preparing an image of a tenant took.
    pub fn prepared(&mut self, tenant: &Tenant, ns: u64) {
        self.meter.prepared(tenant, ns);
    }

    /// Counts bytes of a copy that a tenant need not send, because the worker has them.
    pub fn unsent(&mut self, tenant: &Tenant, bytes: u64) {
        self.meter.unsent(tenant, bytes);
    }

    /// Returns the move totals of all tenants up to now: moves, waits for them, and bytes not charged or not
    /// sent.
    #[must_use]
    pub fn moves(&self, now: Nanos) -> BTreeMap<Tenant, MoveTotals> {
        self.meter.moves(now, &self.pager)
    }

    /// Notes that from now on a launch is ready and waits while the device is busy, or that none does.
    pub fn waiting(&mut self, now: Nanos, waits: bool) {
        self.meter.waiting(now, waits);
    }

    /// Adds names of kernel keys, each once.
    pub fn names(&mut self, names: impl IntoIterator<Item = KernelName>) {
        self.meter.names(names);
    }

    /// Returns the report of each tenant's memory, as of now. `running` are the sessions with running
    /// launches and the times at which they began.
    #[must_use]
    pub fn memory_report<'a>(
        &'a self,
        now: Nanos,
        worker: (Incarnation, GpuId),
        running: &'a BTreeMap<SessionId, Nanos>,
    ) -> MemoryReport<'a> {
        MemoryReport {
            now,
            worker,
            pager: &self.pager,
            meter: &self.meter,
            busy: &self.busy,
            running,
        }
    }

    /// Returns the memory of each tenant with sessions on this worker, and its swapped-out bytes.
    #[must_use]
    pub fn tenants_memory(&self) -> BTreeMap<Tenant, (TenantMemory, u64)> {
        let tenants = self.pager.tenants_after(None);
        let memory = tenants.filter_map(|(tenant, sessions)| {
            let memory = self.pager.tenant_memory(tenant)?;
            Some((tenant.clone(), (memory, self.pager.swapped(sessions))))
        });
        memory.collect()
    }

    /// The client process of a session, if reported.
    #[must_use]
    pub fn process(&self, session: SessionId) -> Option<ClientProcess> {
        self.pager.process(session)
    }

    /// Returns the usage up to now. The latest message of an incarnation has all of it.
    #[must_use]
    pub fn usage(&self, now: Nanos) -> Usage {
        Usage {
            saved: self.saved,
            ..self.meter.usage(now, &self.pager)
        }
    }

    /// Returns the next usage blocks, if there is anything to report.
    pub fn cut(&mut self, now: Nanos, cut: &Cut) -> Vec<UsageBlock> {
        self.meter.cut(now, &self.pager, cut)
    }

    /// Takes the totals of the kernel keys that changed since the last call, if any did.
    pub fn measured(&mut self) -> Option<Measured> {
        self.meter.measured()
    }

    /// Takes the measurements of at most `most` kernel keys.
    pub fn take_times(&mut self, most: usize) -> Vec<(KernelKey, KernelRecord)> {
        self.meter.take_times(most)
    }

    /// Maximum bytes that the device's sessions can hold now.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.pager.charged()
    }

    /// True if a slice waits for memory.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.claims.is_waiting()
    }
}
