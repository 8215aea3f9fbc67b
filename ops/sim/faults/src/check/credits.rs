//! I10: the use that workers report is the actual use, tenant by tenant, across changes of leader.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, SessionId, Tenant, Usage};

use super::{CheckResult, Violation};
use sim_cluster::Nanos;

/// A tenant's use of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    launches: u64,
    device_ns: u64,
    sm_ns: u64,
    resident: u64,
    byte_ns: u128,
}

/// Use of one incarnation, and its last report of it.
#[derive(Debug, Default)]
struct Device {
    sums: BTreeMap<Tenant, Sum>,
    resident: BTreeMap<SessionId, (u64, Nanos)>,
    active_ns: u64,
    /// True if there was use since the last report.
    unsaid: bool,
}

/// All devices' use.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    devices: BTreeMap<Incarnation, Device>,
    /// Number of compared reports.
    pub compared: u64,
}

impl Credits {
    /// Notes that a slice of a tenant has used a device.
    pub(crate) fn used(
        &mut self,
        incarnation: Incarnation,
        tenant: &Tenant,
        [launches, device_ns, sm_ns]: [u64; 3],
    ) {
        let device = self.devices.entry(incarnation).or_default();
        let sum = device.sums.entry(tenant.clone()).or_default();
        sum.launches += launches;
        sum.device_ns += device_ns;
        sum.sm_ns += sm_ns;
        device.active_ns += if launches > 0 { device_ns } else { 0 };
        device.unsaid |= launches + device_ns > 0;
    }

    /// Sets the resident bytes of a tenant's session from now on.
    pub(crate) fn resident(
        &mut self,
        now: Nanos,
        incarnation: Incarnation,
        (session, tenant): (SessionId, &Tenant),
        bytes: u64,
    ) {
        let device = self.devices.entry(incarnation).or_default();
        let sum = device.sums.entry(tenant.clone()).or_default();
        let (before, since) = device
            .resident
            .insert(session, (bytes, now))
            .unwrap_or((0, now));
        sum.byte_ns += u128::from(before) * u128::from(now - since);
        sum.resident = sum.resident - before + bytes;
    }

    /// Checks a worker's report of use.
    pub(crate) fn said(
        &mut self,
        now: Nanos,
        usage: &Usage,
        tenant_of: &dyn Fn(SessionId) -> Option<Tenant>,
    ) -> CheckResult {
        let incarnation = usage.incarnation;
        let device = self.devices.entry(incarnation).or_default();
        device.unsaid = false;
        self.compared += 1;
        let mut said: BTreeMap<&Tenant, (Sum, u128, u128)> = BTreeMap::new();
        for row in &usage.sessions {
            let (sum, byte_ms, rows) = said.entry(&row.tenant).or_default();
            sum.launches += row.launches;
            sum.device_ns += row.device_ns;
            sum.sm_ns += row.sm_ns;
            sum.resident += row.resident;
            *byte_ms += u128::from(row.byte_ms);
            *rows += 1;
        }
        let wrong = |what: String| Err(Violation::new("I10", format!("{incarnation}: {what}")));
        for (tenant, sum) in &device.sums {
            let (is, byte_ms, rows) = said.remove(tenant).unwrap_or_default();
            let same = (is.launches, is.device_ns, is.sm_ns, is.resident)
                == (sum.launches, sum.device_ns, sum.sm_ns, sum.resident);
            if !same {
                return wrong(format!("{tenant} used {sum:?}, it says {is:?}"));
            }
            let open = device.resident.iter();
            let open = open.filter(|(session, _)| tenant_of(**session).as_ref() == Some(tenant));
            let open = open.map(|(_, (bytes, since))| u128::from(*bytes) * u128::from(now - since));
            let byte_ns = sum.byte_ns + open.sum::<u128>();
            // Every row is rounded down.
            let (low, high) = (byte_ms * 1_000_000, (byte_ms + rows) * 1_000_000);
            if !(low..=high).contains(&byte_ns) {
                return wrong(format!(
                    "{tenant} held {byte_ns} byte ns, it says {byte_ms} ms"
                ));
            }
        }
        let idle = Sum::default();
        if let Some((tenant, (sum, ..))) = said.iter().find(|(_, (sum, ..))| *sum != idle) {
            return wrong(format!("{tenant} used nothing, it says {sum:?}"));
        }
        let sm_ns: u64 = device.sums.values().map(|sum| sum.sm_ns).sum();
        if usage.sm_ns != sm_ns || usage.active_ns != device.active_ns {
            let (is, active) = (usage.sm_ns, usage.active_ns);
            let ours = device.active_ns;
            return wrong(format!(
                "{sm_ns} SM ns, {ours} ns active, it says {is}, {active}"
            ));
        }
        if usage.active_ns > usage.elapsed_ns {
            return wrong("active for longer than it is there".to_owned());
        }
        Ok(())
    }

    /// Notes that a worker died; its unreported use is lost with it.
    pub(crate) fn worker_died(&mut self, incarnation: Incarnation) {
        self.devices.remove(&incarnation);
    }

    /// Checks at the end that every living worker has reported all its use.
    pub(crate) fn finish(&self) -> CheckResult {
        match self.devices.iter().find(|(_, device)| device.unsaid) {
            None => Ok(()),
            Some((incarnation, _)) => {
                let what = format!("{incarnation} keeps to itself what was used");
                Err(Violation::new("I10", what))
            }
        }
    }
}
