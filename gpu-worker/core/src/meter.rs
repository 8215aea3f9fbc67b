//! The usage meter: absolute totals since the incarnation began.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    GpuId, Incarnation, KernelKey, KernelName, KernelRecord, Measured, MeasuredKernel, MoveTotals,
    SessionId, Tenant, Usage, UsageBlock, UsageRow, WIRE_VERSION, invariant,
};

use device::KernelTime;

use crate::Nanos;
use crate::kept_keys::{Kept, KeptKeys};
use crate::ledger::{Cut, Ledger};
use crate::pager::Pager;
use crate::times::Times;

/// Maximum number of closed sessions with rows of their own; older ones are added to their tenant's row of
/// session 0.
pub const CLOSED_ROWS: usize = 2_048;
/// Maximum number of kernel keys in one message.
const KERNELS: usize = 4_096;

/// The usage of a completed slice.
#[derive(Debug, Clone, Copy)]
pub struct SliceUse<'a> {
    /// Its session.
    pub session: SessionId,
    /// Device nanoseconds that it took.
    pub device_ns: u64,
    /// Number of launches run.
    pub launches: u64,
    /// SM-nanoseconds.
    pub sm_ns: u64,
    /// Its launches by kernel key.
    pub kernels: &'a [KernelTime],
}

/// The meter of one device.
#[derive(Debug)]
pub struct Meter {
    incarnation: Incarnation,
    sms: u32,
    began: Nanos,
    open: BTreeMap<SessionId, UsageRow>,
    closed: BTreeMap<SessionId, UsageRow>,
    older: BTreeMap<Tenant, UsageRow>,
    sm_ns: u64,
    active_ns: u64,
    active_through: Nanos,
    /// True if no two slices run at the same time.
    exclusive: bool,
    starved_ns: u64,
    starved_since: Option<Nanos>,
    /// Waiting time on an exclusive device that no slice's own time accounts for yet.
    waited_ns: u64,
    kernels: BTreeMap<KernelKey, (u64, u64)>,
    changed: BTreeSet<KernelKey>,
    /// Bytes of copies that tenants did not have to send.
    unsent: BTreeMap<Tenant, u64>,
    ledger: Ledger,
    times: Times,
    kept: KeptKeys,
}

impl Meter {
    /// Creates the meter of a device with this many SMs, from `now` on. An `exclusive` device runs a single
    /// slice at a time and may park it. Slices of other devices overlap, and run from their start to their
    /// end.
    #[must_use]
    pub fn new(
        now: Nanos,
        incarnation: Incarnation,
        gpu: GpuId,
        sms: u32,
        exclusive: bool,
    ) -> Self {
        Self {
            exclusive,
            incarnation,
            sms,
            began: now,
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            older: BTreeMap::new(),
            sm_ns: 0,
            active_ns: 0,
            active_through: now,
            starved_ns: 0,
            starved_since: None,
            waited_ns: 0,
            kernels: BTreeMap::new(),
            changed: BTreeSet::new(),
            unsent: BTreeMap::new(),
            ledger: Ledger::new(incarnation, gpu, sms),
            times: Times::default(),
            kept: KeptKeys::default(),
        }
    }

    /// Adds a session.
    pub fn open(&mut self, session: SessionId, tenant: &Tenant) {
        let row = || row(session, tenant);
        self.open.entry(session).or_insert_with(row);
    }

    /// Counts a slice that has completed just now.
    pub fn completed(&mut self, now: Nanos, used: &SliceUse<'_>) {
        let Some(row) = self.open.get_mut(&used.session) else {
            return;
        };
        // Launches that overlap others may together take longer than their slice.
        let launched = used.kernels.iter().map(|kernel| kernel.total_ns).sum();
        let device_ns = used.device_ns.max(launched);
        row.launches += used.launches;
        row.sm_ns += used.sm_ns;
        row.device_ns += device_ns;
        let tenant = row.tenant.clone();
        let counted = self.counted(&tenant, used.kernels);
        let kernels = counted.as_deref().unwrap_or(used.kernels);
        self.ledger.ran(&tenant, device_ns, kernels);
        self.sm_ns += used.sm_ns;
        if used.launches > 0 && self.exclusive {
            self.active_ns += used.device_ns;
            self.starve(now, used.device_ns);
        } else if used.launches > 0 {
            // Slices may overlap: time that an earlier completion covered is not counted again.
            let from = now.saturating_sub(used.device_ns).max(self.active_through);
            self.active_ns += now.saturating_sub(from);
            self.active_through = now.max(self.active_through);
        }
        // Keys that are not counted by themselves are not learned either.
        for ran in kernels.iter().filter(|ran| ran.key != KernelKey::OTHER) {
            let kernel = self.kernels.entry(ran.key).or_default();
            kernel.0 += ran.count;
            kernel.1 += ran.total_ns;
            self.changed.insert(ran.key);
            self.times.ran(ran);
        }
    }

    /// Returns the launches under the keys by which they are counted, if those differ from their own.
    fn counted(&mut self, tenant: &Tenant, kernels: &[KernelTime]) -> Option<Vec<KernelTime>> {
        let mut counted: Option<Vec<KernelTime>> = None;
        for (at, ran) in kernels.iter().enumerate() {
            match self.kept.ran(tenant, ran.key) {
                Kept::First => {
                    let name = self.times.named(ran.key).cloned();
                    name.into_iter().for_each(|name| self.ledger.name(name));
                }
                Kept::Again => {}
                Kept::Other => {
                    let counted = counted.get_or_insert_with(|| kernels.to_vec());
                    if let Some(other) = counted.get_mut(at) {
                        other.key = KernelKey::OTHER;
                    }
                }
            }
        }
        counted
    }

    /// Counts the processor time that preparing a module for a tenant took, beside device time. It counts as
    /// device time of no kernel and no session, because the session may have ended.
    pub fn prepared(&mut self, tenant: &Tenant, ns: u64) {
        let empty = || row(SessionId(0), tenant);
        self.older
            .entry(tenant.clone())
            .or_insert_with(empty)
            .device_ns += ns;
        self.ledger.ran(tenant, ns, &[]);
    }

    /// Counts bytes of a copy that a tenant need not send, because the worker has them.
    pub fn unsent(&mut self, tenant: &Tenant, bytes: u64) {
        *self.unsent.entry(tenant.clone()).or_default() += bytes;
    }

    /// Returns the move totals of all tenants up to now.
    #[must_use]
    pub fn moves(&self, now: Nanos, pager: &Pager) -> BTreeMap<Tenant, MoveTotals> {
        let mut moves = pager.moves(now);
        for (tenant, bytes) in &self.unsent {
            moves.entry(tenant.clone()).or_default().unsent_bytes = *bytes;
        }
        moves
    }

    /// Returns the move totals of one tenant up to now.
    #[must_use]
    pub fn moves_of(&self, now: Nanos, pager: &Pager, tenant: &Tenant) -> MoveTotals {
        MoveTotals {
            unsent_bytes: self.unsent.get(tenant).copied().unwrap_or(0),
            ..pager.moves_of(now, tenant)
        }
    }

    /// Notes that [`Self::completed`] has counted all usage of the worker's done reports through this one.
    pub fn reported(&mut self, through: u64) {
        self.ledger.reported(through);
    }

    /// Accounts for the waiting time after a slice that ran for `device_ns` on an exclusive device. At most
    /// that much of the time was spent waiting for a busy device. The rest passed between slices, or while a
    /// slice ran that is now parked and accounts for it later. The rest is forgotten once no launch waits.
    fn starve(&mut self, now: Nanos, device_ns: u64) {
        if let Some(since) = &mut self.starved_since {
            self.waited_ns += now.saturating_sub(std::mem::replace(since, now));
        }
        let busy = self.waited_ns.min(device_ns);
        self.starved_ns += busy;
        self.waited_ns -= busy;
        if self.starved_since.is_none() {
            self.waited_ns = 0;
        }
    }

    /// Notes that from now on a launch is ready and waits while the device is busy, or that none does.
    pub fn waiting(&mut self, now: Nanos, waits: bool) {
        match (waits, self.starved_since) {
            (true, None) => self.starved_since = Some(now),
            (false, Some(since)) => {
                let waited = now.saturating_sub(since);
                if self.exclusive {
                    self.waited_ns += waited;
                } else {
                    self.starved_ns += waited;
                }
                self.starved_since = None;
            }
            _ => {}
        }
    }

    /// Closes the row of a session that has ended and held this many byte-milliseconds.
    pub fn close(&mut self, session: SessionId, byte_ms: u64) {
        let Some(mut row) = self.open.remove(&session) else {
            return;
        };
        row.byte_ms = byte_ms;
        self.closed.insert(session, row);
        while self.closed.len() > CLOSED_ROWS {
            let Some((_, old)) = self.closed.pop_first() else {
                return;
            };
            let empty = || self::row(SessionId(0), &old.tenant);
            let sum = self.older.entry(old.tenant.clone()).or_insert_with(empty);
            add(sum, &old);
        }
    }

    /// Returns the usage up to now. The latest message of an incarnation has all of it.
    #[must_use]
    pub fn usage(&self, now: Nanos, pager: &Pager) -> Usage {
        // An exclusive device's time is known when a slice has ended, and so is its starvation.
        let since = self.starved_since.filter(|_| !self.exclusive);
        let starving = since.map_or(0, |at| now.saturating_sub(at));
        let open = self.open.values().map(|row| {
            let residency = pager.residency(row.session).unwrap_or_default();
            UsageRow {
                byte_ms: residency.byte_ms(now),
                resident: residency.resident,
                ..row.clone()
            }
        });
        let ended = self.older.values().chain(self.closed.values()).cloned();
        let sessions: Vec<UsageRow> = ended.chain(open).collect();
        let (rows, device) = (
            sessions.iter().map(|row| row.sm_ns).sum::<u64>(),
            self.sm_ns,
        );
        invariant!(
            I10,
            rows == device,
            "{rows} SM-nanoseconds in rows of {device} that were used"
        );
        Usage {
            v: WIRE_VERSION,
            incarnation: self.incarnation,
            sms: self.sms,
            elapsed_ns: now.saturating_sub(self.began),
            active_ns: self.active_ns,
            starved_ns: self.starved_ns + starving,
            sm_ns: self.sm_ns,
            saved: 0,
            sessions,
        }
    }

    /// Adds names of kernel keys, each once. Blocks have the names of kept keys.
    pub fn names(&mut self, names: impl IntoIterator<Item = KernelName>) {
        for name in names {
            self.times.name(&name);
            if self.kept.has(name.kernel) {
                self.ledger.name(name);
            }
        }
    }

    /// Takes the measurements of at most `most` kernel keys. Over several calls every key gets its turn.
    pub fn take_times(&mut self, most: usize) -> Vec<(KernelKey, KernelRecord)> {
        self.times.take(most)
    }

    /// Returns the next usage blocks, if there is anything to report.
    pub fn cut(&mut self, now: Nanos, pager: &Pager, cut: &Cut) -> Vec<UsageBlock> {
        let usage = self.usage(now, pager);
        let moves = self.moves(now, pager);
        self.ledger.cut(&usage, &moves, cut)
    }

    /// Takes the totals of the kernel keys that changed since the last call, if any did.
    pub fn measured(&mut self) -> Option<Measured> {
        if self.changed.is_empty() {
            return None;
        }
        let mut kernels = Vec::new();
        while kernels.len() < KERNELS
            && let Some(key) = self.changed.pop_first()
        {
            let (count, total_ns) = self.kernels.get(&key).copied().unwrap_or_default();
            kernels.push(MeasuredKernel {
                key,
                count,
                total_ns,
            });
        }
        Some(Measured {
            v: WIRE_VERSION,
            kernels,
        })
    }
}

/// Reduces the rows to `most`. The rows beyond are added to their tenant's row of session 0, so that totals
/// stay whole however few rows a message can hold.
pub fn fold(rows: &mut Vec<UsageRow>, most: usize) {
    let before = sum(rows);
    let excess = rows.split_off(most.min(rows.len()));
    let mut sums: BTreeMap<Tenant, UsageRow> = BTreeMap::new();
    for each in excess {
        let empty = || row(SessionId(0), &each.tenant);
        add(sums.entry(each.tenant.clone()).or_insert_with(empty), &each);
    }
    for (tenant, sum) in sums {
        match rows
            .iter_mut()
            .find(|row| row.session.0 == 0 && row.tenant == tenant)
        {
            Some(row) => add(row, &sum),
            None => rows.push(sum),
        }
    }
    let after = self::sum(rows);
    invariant!(
        I10,
        before == after,
        "{before:?} in rows are {after:?} once they are added up"
    );
}

/// Sums of launches, SM-nanoseconds, device nanoseconds and byte-milliseconds of rows.
fn sum(rows: &[UsageRow]) -> [u64; 4] {
    rows.iter()
        .fold([0; 4], |[launches, sm_ns, device_ns, byte_ms], row| {
            [
                launches + row.launches,
                sm_ns + row.sm_ns,
                device_ns + row.device_ns,
                byte_ms + row.byte_ms,
            ]
        })
}

fn add(sum: &mut UsageRow, row: &UsageRow) {
    sum.launches += row.launches;
    sum.sm_ns += row.sm_ns;
    sum.device_ns += row.device_ns;
    sum.byte_ms += row.byte_ms;
    sum.resident += row.resident;
}

fn row(session: SessionId, tenant: &Tenant) -> UsageRow {
    UsageRow {
        tenant: tenant.clone(),
        session,
        launches: 0,
        sm_ns: 0,
        device_ns: 0,
        byte_ms: 0,
        resident: 0,
    }
}

#[cfg(test)]
mod tests;
