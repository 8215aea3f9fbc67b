//! Who used what: absolute totals since the incarnation began.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Incarnation, KernelKey, Measured, MeasuredKernel, SessionId, Tenant, Usage, UsageRow,
    WIRE_VERSION,
};

use crate::Nanos;
use crate::pager::Pager;

/// Closed sessions with rows of their own; older ones are added up in their tenant's row of
/// session 0.
pub const CLOSED_ROWS: usize = 2_048;
/// Kernel keys in one message.
const KERNELS: usize = 4_096;

/// What a completed slice used.
#[derive(Debug, Clone, Copy)]
pub struct SliceUse<'a> {
    /// Its session.
    pub session: SessionId,
    /// Device nanoseconds it took.
    pub device_ns: u64,
    /// Launches run.
    pub launches: u64,
    /// SM-nanoseconds.
    pub sm_ns: u64,
    /// Launches and device nanoseconds by kernel key.
    pub kernels: &'a [(KernelKey, u64, u64)],
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
    /// No two slices run at the same time.
    exclusive: bool,
    starved_ns: u64,
    starved_since: Option<Nanos>,
    /// Of an exclusive device: waiting that no slice's own time has answered for yet.
    waited_ns: u64,
    kernels: BTreeMap<KernelKey, (u64, u64)>,
    changed: BTreeSet<KernelKey>,
}

impl Meter {
    /// A device with this many SMs, from `now` on. An `exclusive` one runs a single slice at a
    /// time and may park it; slices of another overlap, and run from their start to their end.
    #[must_use]
    pub fn new(now: Nanos, incarnation: Incarnation, sms: u32, exclusive: bool) -> Self {
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
        }
    }

    /// A session begins.
    pub fn open(&mut self, session: SessionId, tenant: &Tenant) {
        let row = || row(session, tenant);
        self.open.entry(session).or_insert_with(row);
    }

    /// A slice has completed just now.
    pub fn completed(&mut self, now: Nanos, used: &SliceUse<'_>) {
        let Some(row) = self.open.get_mut(&used.session) else {
            return;
        };
        row.launches += used.launches;
        row.sm_ns += used.sm_ns;
        row.device_ns += used.device_ns;
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
        for &(key, count, total_ns) in used.kernels {
            let kernel = self.kernels.entry(key).or_default();
            kernel.0 += count;
            kernel.1 += total_ns;
            self.changed.insert(key);
        }
    }

    /// A slice ran for `device_ns` on a device that runs one at a time: as much of the waiting until
    /// now was for a busy device. The rest was between slices, or while one ran that is parked and
    /// will answer for it; once nobody waits it is forgotten.
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

    /// From now on a launch is ready and waits while the device is busy, or none is.
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

    /// A session has ended, having held this many byte-milliseconds.
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

    /// Everything up to now. The latest message of an incarnation says all.
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
        Usage {
            v: WIRE_VERSION,
            incarnation: self.incarnation,
            sms: self.sms,
            elapsed_ns: now.saturating_sub(self.began),
            active_ns: self.active_ns,
            starved_ns: self.starved_ns + starving,
            sm_ns: self.sm_ns,
            sessions: ended.chain(open).collect(),
        }
    }

    /// Totals of the kernel keys that changed since this was last asked, if any did.
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

/// Makes do with `most` rows: those beyond are added up in their tenant's row of session 0, so
/// that totals stay whole whatever a message can hold.
pub fn fold(rows: &mut Vec<UsageRow>, most: usize) {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tenant(number: u64) -> Tenant {
        format!("t{number}").parse().unwrap()
    }

    #[test]
    fn overlap_is_active_once_and_waiting_is_starvation() {
        let mut meter = Meter::new(0, Incarnation(1), 4, false);
        meter.open(SessionId(1), &tenant(1));
        let slice = |device_ns| SliceUse {
            session: SessionId(1),
            device_ns,
            launches: 1,
            sm_ns: 4 * device_ns,
            kernels: &[(KernelKey(7), 1, 10)],
        };
        meter.waiting(50, true);
        meter.completed(100, &slice(80));
        meter.waiting(110, false);
        meter.completed(120, &slice(90));
        meter.completed(200, &slice(10));
        let usage = meter.usage(200, &Pager::new(0));
        assert_eq!((usage.active_ns, usage.starved_ns), (80 + 20 + 10, 60));
        assert_eq!((usage.sm_ns, usage.elapsed_ns), (4 * 180, 200));
        let measured = meter.measured().unwrap();
        assert_eq!(
            (measured.kernels[0].count, measured.kernels[0].total_ns),
            (3, 30)
        );
        assert_eq!(meter.measured(), None);
    }

    #[test]
    fn a_parked_slice_is_active_while_it_runs() {
        let mut meter = Meter::new(0, Incarnation(1), 1, true);
        meter.open(SessionId(1), &tenant(1));
        let slice = |device_ns| SliceUse {
            session: SessionId(1),
            device_ns,
            launches: 1,
            sm_ns: device_ns,
            kernels: &[],
        };
        // The long one ran from 0 to 50 and from 60 to 110; the other came at 40.
        meter.waiting(40, true);
        meter.completed(60, &slice(10));
        meter.waiting(60, false);
        meter.completed(110, &slice(100));
        let usage = meter.usage(200, &Pager::new(0));
        assert_eq!((usage.active_ns, usage.starved_ns), (110, 20));
    }

    #[test]
    fn nobody_starves_beside_an_idle_device() {
        let mut meter = Meter::new(0, Incarnation(1), 1, true);
        meter.open(SessionId(1), &tenant(1));
        let slice = SliceUse {
            session: SessionId(1),
            device_ns: 10,
            launches: 1,
            sm_ns: 10,
            kernels: &[],
        };
        // Something waits all the time, and the device works a tenth of it.
        meter.waiting(0, true);
        for end in 1..=10 {
            meter.completed(end * 100, &slice);
        }
        let usage = meter.usage(1_050, &Pager::new(0));
        assert_eq!((usage.active_ns, usage.starved_ns), (100, 100));
        // What waited beside the idle device counts against no later slice.
        meter.waiting(1_100, false);
        meter.completed(1_200, &slice);
        meter.completed(1_300, &slice);
        let usage = meter.usage(1_300, &Pager::new(0));
        assert_eq!((usage.active_ns, usage.starved_ns), (120, 110));
    }

    proptest! {
        /// I10: rows add up to the device's totals, however many sessions come and go.
        #[test]
        fn credits_are_conserved(
            slices in prop::collection::vec((0..40_u64, 0..1_000_u64, any::<bool>()), 1..400),
        ) {
            let mut meter = Meter::new(0, Incarnation(1), 2, false);
            let mut pager = Pager::new(1 << 30);
            let (mut sum, mut now, mut next) = (0, 0, 0_u64);
            let mut sessions = [0_u64; 40];
            for (slot, device_ns, closes) in slices {
                now += 1_000_000;
                let session = &mut sessions[slot as usize];
                if *session == 0 {
                    next += 1;
                    *session = next;
                    meter.open(SessionId(next), &tenant(slot % 3));
                    pager.open(now, SessionId(next), &tenant(slot % 3), 0);
                }
                let id = SessionId(*session);
                sum += 2 * device_ns;
                let used = SliceUse {
                    session: id, device_ns, launches: 1, sm_ns: 2 * device_ns, kernels: &[],
                };
                meter.completed(now, &used);
                pager.completed(now, 0, id, device_ns, false);
                if closes {
                    meter.close(id, pager.close(now, id));
                    *session = 0;
                }
            }
            let usage = meter.usage(now, &pager);
            prop_assert_eq!(usage.sm_ns, sum);
            prop_assert_eq!(usage.sessions.iter().map(|row| row.sm_ns).sum::<u64>(), sum);
            let held: u64 = usage.sessions.iter().map(|row| row.byte_ms).sum();
            prop_assert_eq!(held, pager.device().byte_ms(now));
            let resident: u64 = usage.sessions.iter().map(|row| row.resident).sum();
            prop_assert_eq!(resident, pager.device().resident);
        }
    }

    #[test]
    fn old_sessions_are_added_up_by_tenant() {
        let mut meter = Meter::new(0, Incarnation(1), 1, false);
        let count = CLOSED_ROWS as u64 + 10;
        for number in 1..=count {
            meter.open(SessionId(number), &tenant(number % 2));
            let used = SliceUse {
                session: SessionId(number),
                device_ns: 5,
                launches: 1,
                sm_ns: 5,
                kernels: &[],
            };
            meter.completed(number * 10, &used);
            meter.close(SessionId(number), 1);
        }
        let usage = meter.usage(0, &Pager::new(0));
        assert_eq!(usage.sessions.len(), CLOSED_ROWS + 2);
        let sum = |field: fn(&UsageRow) -> u64| usage.sessions.iter().map(field).sum::<u64>();
        assert_eq!(sum(|row| row.sm_ns), 5 * count);
        assert_eq!(sum(|row| row.byte_ms), count);
        let mut rows = usage.sessions;
        fold(&mut rows, 10);
        assert_eq!(rows.len(), 10, "two of the ten are the tenants' sums");
        assert_eq!(rows.iter().map(|row| row.sm_ns).sum::<u64>(), 5 * count);
    }
}
