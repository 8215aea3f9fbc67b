//! A device's resources: who holds memory, who waits for it, and who used what.
//!
//! The [`Pager`] decides, the [`Meter`] adds up, and at most one [`Claim`] is open: its slice waits for
//! memory. It is asked again when memory may have become free, which is when slices have completed
//! and when a session has ended, and at no other time.

use std::collections::BTreeMap;

use bus_schemas::{
    ClientProcess, Failure, GpuId, Incarnation, KernelKey, KernelName, KernelRecord, Measured,
    MemoryAnswer, MemoryRequest, MoveTotals, OpNumber, Residency, SessionId, Tenant, TenantQuota,
    Usage, UsageBlock,
};

use crate::busy::BusyTimes;
use crate::dispatch::{Claim, ClaimAnswer, Claims};
use crate::ledger::Cut;
use crate::memory_report::MemoryReport;
use crate::meter::SliceUse;
use crate::pager::{
    Charge, MemoryAction, MemoryRequested, MoveEnded, SwapAction, SwapUse, TenantMemory,
};
use crate::{Meter, Nanos, Pager};

/// A slice that has completed, to its end or to a fault.
#[derive(Debug, Clone, Copy)]
pub struct CompletedSlice<'a> {
    /// Its first op.
    pub first: OpNumber,
    /// Its last.
    pub last: OpNumber,
    /// Bytes that its session holds now, as the device says.
    pub resident: u64,
    /// One of its ops failed.
    pub faulted: bool,
    /// What it used.
    pub used: SliceUse<'a>,
}

/// The resources of one device.
#[derive(Debug)]
pub struct Resources {
    pager: Pager,
    meter: Meter,
    claims: Claims,
    busy: BusyTimes,
    /// Bytes that sessions hold and that are stored once for several.
    saved: u64,
    /// Answers to requests for memory that were not taken.
    actions: Vec<MemoryAction>,
}

impl Resources {
    /// The resources of a device whose launches may take `small_launch` bytes without asking.
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

    /// A session begins, or is about to; again it changes nothing. A quota of 0 is the device's
    /// capacity.
    pub fn open(&mut self, now: Nanos, session: SessionId, tenant: &Tenant, quota: u64) {
        self.pager.open(now, session, tenant, quota);
        self.meter.open(session, tenant);
        self.busy.open(session, tenant);
    }

    /// A session has ended and its memory is free: the answer to the open claim, if it has one now.
    pub fn close(&mut self, now: Nanos, session: SessionId) -> Option<ClaimAnswer> {
        let byte_ms = self.pager.close(now, session);
        self.meter.close(session, byte_ms);
        self.busy.close(session);
        self.claims.ask_again(&mut self.pager)
    }

    /// A slice that needs memory is to run next. Without an answer its claim stays open.
    pub fn ask(&mut self, claim: Claim) -> Option<ClaimAnswer> {
        self.claims.ask(&mut self.pager, claim)
    }

    /// The session's claim needs no answer any more.
    pub fn withdraw(&mut self, session: SessionId) {
        self.claims.withdraw(session);
    }

    /// The memory of a session is wanted on the device, answered by [`SwapAction::Returned`].
    pub fn want(&mut self, now: Nanos, session: SessionId, priority: u8) {
        self.pager.want(now, session, priority);
    }

    /// A session that was to leave the device had something to run.
    pub fn kept(&mut self, now: Nanos, session: SessionId) {
        self.pager.kept(now, session);
    }

    /// A move of a session's memory has ended, and the session is charged so much now: the answer to the
    /// open claim, if it has one now.
    pub fn moved(&mut self, now: Nanos, ended: &MoveEnded, resident: u64) -> Option<ClaimAnswer> {
        self.pager.moved(now, ended);
        self.pager.charge(now, ended.session, resident);
        self.claims.ask_again(&mut self.pager)
    }

    /// How full the device says that the swap space is.
    pub fn swap_used(&mut self, used: SwapUse) {
        self.pager.swap_used(used);
    }

    /// The priority of a session's tenant, 0 (highest) to 4.
    pub fn set_priority(&mut self, session: SessionId, priority: u8) {
        self.pager.set_priority(session, priority);
    }

    /// Whether sessions may hold more than fits on the device.
    #[must_use]
    pub fn is_overcommitted(&self) -> bool {
        self.pager.is_overcommitted()
    }

    /// Bytes that a session has allocated, wherever they are.
    #[must_use]
    pub fn held(&self, session: SessionId) -> u64 {
        self.pager.held(session)
    }

    /// Whether somebody waits for memory on the device.
    #[must_use]
    pub fn has_wants(&self) -> bool {
        self.pager.has_wants()
    }

    /// What is to be moved now: to be asked after whatever happened, and now and then.
    pub fn swap_actions(&mut self, now: Nanos) -> Vec<SwapAction> {
        let mut actions = Vec::new();
        self.pager.swap(now, &mut actions);
        actions
    }

    /// What leaders are told of where memory is, if not all that sessions may hold fits.
    #[must_use]
    pub fn residency_report(&self) -> Option<Residency> {
        self.pager.residency_report()
    }

    /// A session's client asks for memory.
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

    /// Others are to use a session's memory, or it theirs: see [`Pager::keep`].
    ///
    /// # Errors
    /// [`Pager::keep`]'s.
    pub fn keep(&mut self, session: SessionId) -> Result<(), Failure> {
        self.pager.keep(session)
    }

    /// A leader says what tenants may hold from now on, and whose memory is never swapped out.
    pub fn set_quotas(
        &mut self,
        now: Nanos,
        quotas: impl IntoIterator<Item = TenantQuota>,
        pinned: impl IntoIterator<Item = Tenant>,
    ) {
        self.pager.pin_tenants(pinned);
        self.pager.set_quotas(now, quotas, &mut self.actions);
    }

    /// A session is being closed: all that it has will be free.
    pub fn closing(&mut self, session: SessionId) {
        self.pager.closing(session);
    }

    /// The answers to requests for memory that there are by now, and recalls: to whom, and what.
    /// Something may have become free since, or the time to refuse have come.
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

    /// Slices have completed, in this order: the answer to the open claim, if it has one now.
    pub fn completed<'a>(
        &mut self,
        now: Nanos,
        slices: impl IntoIterator<Item = CompletedSlice<'a>>,
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

    /// The worker's done reports through this one tell of nothing that [`Self::completed`] was not
    /// told of.
    pub fn reported(&mut self, through: u64) {
        self.meter.reported(through);
    }

    /// What sessions are charged now, by what others did, and the bytes saved by sharing. That
    /// frees nothing: no claim is asked again.
    pub fn recharged(&mut self, now: Nanos, changed: &[Charge], saved: u64) {
        self.pager.recharged(now, changed);
        self.saved = saved;
    }

    /// Preparing an image of a tenant took this much processor time.
    pub fn prepared(&mut self, tenant: &Tenant, ns: u64) {
        self.meter.prepared(tenant, ns);
    }

    /// A tenant need not send so many bytes of a copy: they are here.
    pub fn unsent(&mut self, tenant: &Tenant, bytes: u64) {
        self.meter.unsent(tenant, bytes);
    }

    /// What memory of all tenants did up to now: moves, waits for them, what was not charged or sent.
    #[must_use]
    pub fn moves(&self, now: Nanos) -> BTreeMap<Tenant, MoveTotals> {
        self.meter.moves(now, &self.pager)
    }

    /// From now on a launch is ready and waits while the device is busy, or none is.
    pub fn waiting(&mut self, now: Nanos, waits: bool) {
        self.meter.waiting(now, waits);
    }

    /// What kernel keys stand for, each said once.
    pub fn names(&mut self, names: impl IntoIterator<Item = KernelName>) {
        self.meter.names(names);
    }

    /// What each tenant has of the memory, as of now; launches of these sessions run since then.
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

    /// What each tenant that has sessions here has of the memory, and how much of that is swapped out.
    #[must_use]
    pub fn tenants_memory(&self) -> BTreeMap<Tenant, (TenantMemory, u64)> {
        let tenants = self.pager.tenants_after(None);
        let memory = tenants.filter_map(|(tenant, sessions)| {
            let memory = self.pager.tenant_memory(tenant)?;
            Some((tenant.clone(), (memory, self.pager.swapped(sessions))))
        });
        memory.collect()
    }

    /// The process that has a session, where its client says so.
    #[must_use]
    pub fn process(&self, session: SessionId) -> Option<ClientProcess> {
        self.pager.process(session)
    }

    /// Everything used up to now. The latest message of an incarnation says all.
    #[must_use]
    pub fn usage(&self, now: Nanos) -> Usage {
        Usage {
            saved: self.saved,
            ..self.meter.usage(now, &self.pager)
        }
    }

    /// The next usage blocks, if there is anything to report.
    pub fn cut(&mut self, now: Nanos, cut: &Cut) -> Vec<UsageBlock> {
        self.meter.cut(now, &self.pager, cut)
    }

    /// Totals of the kernel keys that changed since this was last asked, if any did.
    pub fn measured(&mut self) -> Option<Measured> {
        self.meter.measured()
    }

    /// What was measured of kernel keys and not yet taken, of `most` keys.
    pub fn take_times(&mut self, most: usize) -> Vec<(KernelKey, KernelRecord)> {
        self.meter.take_times(most)
    }

    /// The most the device's sessions can hold now, bytes.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.pager.charged()
    }

    /// Whether a slice waits for memory.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.claims.is_waiting()
    }
}
