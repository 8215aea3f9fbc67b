//! A device by holder, with the metrics that NVIDIA's exporter for data centers has of whole
//! devices. That exporter cannot attribute a shared device. Here each holder has its own part, and
//! the parts add up to the device's.

use std::collections::BTreeMap;

use bus_schemas::{ClientProcess, GpuId, SessionId, Tenant, Usage};

/// Minimum time over which work is measured.
pub(super) const SPAN_NS: u64 = 1_000_000_000;
/// Maximum number of distinct holders of a device; the use by others is attributed to their tenant.
const HOLDERS: usize = 256;

/// Identity of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// The device's number in the cluster.
    pub gpu: GpuId,
    /// The device's model, for people.
    pub model: String,
    /// The device's vendor, if it is known.
    pub vendor: Option<&'static str>,
    /// The device's UUID, as NVIDIA writes it.
    pub uuid: String,
    /// Maximum bytes that sessions may have together.
    pub capacity: u64,
}

/// The holder of a part of a device: none, a tenant, or a tenant's program on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) tenant: String,
    pub(crate) host: String,
    pub(crate) program: String,
}

/// A holder's part of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Share {
    /// Busy time, percent.
    pub(crate) busy: f64,
    /// Share of all SMs, 0 to 1.
    pub(crate) sms: f64,
    /// Bytes charged to the holder.
    pub(crate) resident: u64,
}

/// Totals that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    device_ns: u64,
    sm_ns: u64,
}

impl Used {
    fn since(self, before: Self) -> Self {
        Self {
            device_ns: self.device_ns.saturating_sub(before.device_ns),
            sm_ns: self.sm_ns.saturating_sub(before.sm_ns),
        }
    }

    fn add(&mut self, other: Self) {
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
        self.sm_ns = self.sm_ns.saturating_add(other.sm_ns);
    }

    /// Limits the totals to those of `left`.
    fn within(self, left: Self) -> Self {
        Self {
            device_ns: self.device_ns.min(left.device_ns),
            sm_ns: self.sm_ns.min(left.sm_ns),
        }
    }
}

/// Usage up to a moment.
#[derive(Debug, Default)]
struct Sample {
    elapsed_ns: u64,
    active_ns: u64,
    tenants: BTreeMap<Tenant, Used>,
    sessions: BTreeMap<SessionId, Used>,
}

impl Sample {
    fn of(usage: &Usage) -> Self {
        let mut sample = Self {
            elapsed_ns: usage.elapsed_ns,
            active_ns: usage.active_ns,
            ..Self::default()
        };
        for row in &usage.sessions {
            let used = Used {
                device_ns: row.device_ns,
                sm_ns: row.sm_ns,
            };
            sample
                .tenants
                .entry(row.tenant.clone())
                .or_default()
                .add(used);
            // Session 0 is the sum of sessions that ended long ago.
            if row.session != SessionId(0) {
                sample.sessions.insert(row.session, used);
            }
        }
        sample
    }
}

/// One device by holder.
#[derive(Debug, Default)]
pub(crate) struct SharedDevice {
    pub(crate) identity: DeviceIdentity,
    before: Sample,
    worked: BTreeMap<Holder, Share>,
    /// The parts. One has no holder, so that an idle device has a series too.
    pub(crate) shares: BTreeMap<Holder, Share>,
}

impl SharedDevice {
    /// Takes in the usage up to now.
    pub(super) fn take(
        &mut self,
        identity: &DeviceIdentity,
        usage: &Usage,
        process: impl Fn(SessionId) -> Option<ClientProcess>,
    ) {
        self.identity.clone_from(identity);
        let holders = holders(usage, process);
        let span = usage.elapsed_ns.saturating_sub(self.before.elapsed_ns);
        if span >= SPAN_NS {
            let now = Sample::of(usage);
            let active = now.active_ns.saturating_sub(self.before.active_ns);
            let sm_time = span.saturating_mul(u64::from(usage.sms.max(1)));
            let parts = parts(&self.before, &now, &holders);
            self.worked = shares(&parts, part(active, span), sm_time);
            self.before = now;
        }
        self.shares.clone_from(&self.worked);
        self.shares.entry(Holder::default()).or_default();
        for row in &usage.sessions {
            if row.resident > 0 {
                let share = self
                    .shares
                    .entry(holder(row.session, &row.tenant, &holders));
                share.or_default().resident += row.resident;
            }
        }
    }

    /// Bytes that are charged to no holder.
    pub(crate) fn free(&self) -> u64 {
        let charged: u64 = self.shares.values().map(|share| share.resident).sum();
        self.identity.capacity.saturating_sub(charged)
    }
}

/// Returns the holder of each session with a known client process.
fn holders(
    usage: &Usage,
    process: impl Fn(SessionId) -> Option<ClientProcess>,
) -> BTreeMap<SessionId, Holder> {
    let mut distinct = std::collections::BTreeSet::new();
    let mut holders = BTreeMap::new();
    for row in &usage.sessions {
        let Some(process) = process(row.session) else {
            continue;
        };
        let holder = Holder {
            tenant: row.tenant.to_string(),
            host: process.host.as_str().to_owned(),
            program: process.name.as_str().to_owned(),
        };
        if distinct.len() < HOLDERS || distinct.contains(&holder) {
            distinct.insert(holder.clone());
            holders.insert(row.session, holder);
        }
    }
    holders
}

/// Returns a session's holder: its program, else its tenant.
fn holder(session: SessionId, tenant: &Tenant, known: &BTreeMap<SessionId, Holder>) -> Holder {
    known.get(&session).cloned().unwrap_or_else(|| Holder {
        tenant: tenant.to_string(),
        ..Holder::default()
    })
}

/// Returns the use by each holder between two moments. A tenant's part covers all that the tenant
/// used, including sessions that ended meanwhile.
fn parts(
    before: &Sample,
    now: &Sample,
    holders: &BTreeMap<SessionId, Holder>,
) -> BTreeMap<Holder, Used> {
    let news = |(tenant, used): (&Tenant, &Used)| {
        let before = before.tenants.get(tenant).copied().unwrap_or_default();
        (tenant.to_string(), used.since(before))
    };
    let mut left: BTreeMap<String, Used> = now.tenants.iter().map(news).collect();
    let mut parts = BTreeMap::<Holder, Used>::new();
    for (session, holder) in holders {
        let (Some(used), Some(left)) = (now.sessions.get(session), left.get_mut(&holder.tenant))
        else {
            continue;
        };
        let before = before.sessions.get(session).copied().unwrap_or_default();
        let own = used.since(before).within(*left);
        *left = left.since(own);
        parts.entry(holder.clone()).or_default().add(own);
    }
    for (tenant, rest) in left {
        let holder = Holder {
            tenant,
            ..Holder::default()
        };
        parts.entry(holder).or_default().add(rest);
    }
    parts
}

/// Returns the parts as shares of a device that was busy for the given part of the time. Work is
/// counted when it ends, so work that began earlier is cut to the time of the span.
fn shares(parts: &BTreeMap<Holder, Used>, busy: f64, sm_time: u64) -> BTreeMap<Holder, Share> {
    let mut all = Used::default();
    parts.values().for_each(|used| all.add(*used));
    let sms = part(all.sm_ns, sm_time);
    let used = parts.iter().filter(|(_, used)| **used != Used::default());
    let shares = used.map(|(holder, used)| {
        let share = Share {
            busy: 100.0 * busy * part(used.device_ns, all.device_ns),
            sms: sms * part(used.sm_ns, all.sm_ns),
            resident: 0,
        };
        (holder.clone(), share)
    });
    shares.collect()
}

/// A part of a whole, 0 to 1.
pub(super) fn part(of: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => (of as f64 / whole as f64).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Incarnation, ShortText, UsageRow, WIRE_VERSION};

    use super::*;

    fn row(tenant: &str, session: u64, device_ms: u64) -> UsageRow {
        UsageRow {
            tenant: tenant.parse().expect("a name"),
            session: SessionId(session),
            launches: 1,
            sm_ns: device_ms * 2_000_000,
            device_ns: device_ms * 1_000_000,
            byte_ms: 0,
            resident: session << 20,
        }
    }

    fn usage(seconds: u64, active_ms: u64, sessions: Vec<UsageRow>) -> Usage {
        Usage {
            v: WIRE_VERSION,
            incarnation: Incarnation(1),
            sms: 4,
            elapsed_ns: seconds * 1_000_000_000,
            active_ns: active_ms * 1_000_000,
            starved_ns: 0,
            sm_ns: sessions.iter().map(|row| row.sm_ns).sum(),
            saved: 0,
            sessions,
        }
    }

    fn process(session: SessionId) -> Option<ClientProcess> {
        (session.0 == 2).then(|| ClientProcess {
            host: ShortText::new("node"),
            pid: 7,
            name: ShortText::new("train.py"),
        })
    }

    #[test]
    fn the_parts_add_up_to_the_device_whichever_sessions_end() {
        let identity = DeviceIdentity {
            capacity: 16 << 20,
            ..DeviceIdentity::default()
        };
        let mut device = SharedDevice::default();
        let before = vec![row("a", 1, 100), row("b", 2, 300)];
        device.take(&identity, &usage(1, 400, before), process);
        assert_eq!(device.free(), 13 << 20);
        // Session 1 is now part of the sum of old sessions, and a new session has begun.
        let now = vec![row("a", 0, 100), row("a", 3, 150), row("b", 2, 600)];
        device.take(&identity, &usage(2, 800, now), process);
        let sum = |of: fn(&Share) -> f64| device.shares.values().map(of).sum::<f64>();
        assert!((sum(|share| share.busy) - 40.0).abs() < 1e-9);
        assert!((sum(|share| share.sms) - 0.9 / 4.0).abs() < 1e-9);
        let tenant_b = Holder {
            tenant: "b".into(),
            host: "node".into(),
            program: "train.py".into(),
        };
        assert!((device.shares[&tenant_b].busy - 40.0 * 300.0 / 450.0).abs() < 1e-9);
        assert_eq!(device.shares[&tenant_b].resident, 2 << 20);
        assert!(device.shares.contains_key(&Holder::default()));
    }

    #[test]
    fn work_that_began_long_before_it_ended_fills_the_device_and_no_more() {
        let mut device = SharedDevice::default();
        let identity = DeviceIdentity::default();
        device.take(&identity, &usage(1, 0, Vec::new()), process);
        device.take(
            &identity,
            &usage(2, 9_000, vec![row("a", 1, 9_000)]),
            process,
        );
        let sum: f64 = device.shares.values().map(|share| share.busy).sum();
        assert!((sum - 100.0).abs() < 1e-9);
        assert!(device.shares.values().all(|share| share.sms <= 1.0));
    }
}
