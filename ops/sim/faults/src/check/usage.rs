//! I10 of workers that die: what their blocks have, and what they reported behind the last report that a
//! block names, is what ran.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, Incarnation, Tenant, UsageBlock};
use scheduler_leader_core::replay::unrecorded_use;

use super::{CheckResult, Violation};

/// Device nanoseconds by tenant.
type Sums = BTreeMap<Tenant, u64>;

/// One incarnation's use, and what its blocks say of it.
#[derive(Debug, Default)]
struct Worker {
    used: Sums,
    /// In blocks so far.
    known: Sums,
    /// Behind each block that is the last of those cut together: the last report that is in it, and
    /// what all blocks so far have.
    cuts: Vec<(u64, Sums)>,
}

/// All workers' blocks.
#[derive(Debug, Default)]
pub(crate) struct UsageBlocks {
    workers: BTreeMap<Incarnation, Worker>,
}

impl UsageBlocks {
    /// A slice of a tenant took so long.
    pub(crate) fn used(&mut self, incarnation: Incarnation, tenant: &Tenant, device_ns: u64) {
        let worker = self.workers.entry(incarnation).or_default();
        *worker.used.entry(tenant.clone()).or_default() += device_ns;
    }

    /// A worker cut a block.
    pub(crate) fn take(&mut self, block: &UsageBlock) {
        let worker = self.workers.entry(block.incarnation).or_default();
        for row in &block.kernels {
            *worker.known.entry(row.tenant.clone()).or_default() += row.device_ns;
        }
        if let Some(reports) = block.reports {
            worker.cuts.push((reports, worker.known.clone()));
        }
    }

    /// Had every worker died after half of its blocks: what they have and what is told as lost is no
    /// more than what ran, and just that where `complete` says that all it reported is recorded.
    pub(crate) fn check(
        &self,
        record: &[(Epoch, u64, Vec<u8>)],
        complete: impl Fn(Incarnation) -> bool,
    ) -> CheckResult {
        let half = |worker: &Worker| worker.cuts.get(worker.cuts.len() / 2).cloned();
        let halves = self.workers.iter();
        let halves = halves.filter_map(|(id, worker)| Some((*id, half(worker)?)));
        let halves: BTreeMap<_, _> = halves.collect();
        let reports = halves.iter().map(|(id, (reports, _))| (*id, *reports));
        let Ok(lost) = unrecorded_use(record, &reports.collect()) else {
            // Whether it may be one that does not replay was looked at before.
            return Ok(());
        };
        for (incarnation, (_, known)) in halves {
            let lost = &lost[&incarnation];
            let exact = complete(incarnation) && lost.unrecorded == 0;
            let used = &self.workers[&incarnation].used;
            let mut sums = known;
            for (tenant, told) in &lost.tenants {
                let wrong = || Violation::new("I10", format!("{incarnation} ran for nobody"));
                let tenant = tenant.clone().ok_or_else(wrong)?;
                *sums.entry(tenant).or_default() += told.device_ns;
            }
            let tenants = used.keys().chain(sums.keys());
            for tenant in tenants {
                let ran = used.get(tenant).copied().unwrap_or(0);
                let told = sums.get(tenant).copied().unwrap_or(0);
                if told > ran || (exact && told < ran) {
                    let what = format!(
                        "{tenant} used {ran} ns of {incarnation}, blocks and losses have {told}"
                    );
                    return Err(Violation::new("I10", what));
                }
            }
        }
        Ok(())
    }
}
