//! I10 for workers that die: the use in their blocks, and their reports after the last report that a block
//! names, add up to the actual use.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, Incarnation, Tenant, UsageBlock};
use scheduler_leader_core::replay::unrecorded_use;

use super::{CheckResult, Violation};

/// Device nanoseconds by tenant.
type Sums = BTreeMap<Tenant, u64>;

/// Use of one incarnation, and the use in its blocks.
#[derive(Debug, Default)]
struct Worker {
    used: Sums,
    /// Use in its blocks so far.
    known: Sums,
    /// For each block that is the last of several cut together: the last report that it covers, and the use
    /// in all blocks so far.
    cuts: Vec<(u64, Sums)>,
}

/// All workers' blocks.
#[derive(Debug, Default)]
pub(crate) struct UsageBlocks {
    workers: BTreeMap<Incarnation, Worker>,
}

impl UsageBlocks {
    /// Notes the device time of a tenant's slice.
    pub(crate) fn used(&mut self, incarnation: Incarnation, tenant: &Tenant, device_ns: u64) {
        let worker = self.workers.entry(incarnation).or_default();
        *worker.used.entry(tenant.clone()).or_default() += device_ns;
    }

    /// Notes a block that a worker cut.
    pub(crate) fn take(&mut self, block: &UsageBlock) {
        let worker = self.workers.entry(block.incarnation).or_default();
        for row in &block.kernels {
            *worker.known.entry(row.tenant.clone()).or_default() += row.device_ns;
        }
        if let Some(reports) = block.reports {
            worker.cuts.push((reports, worker.known.clone()));
        }
    }

    /// Pretends that every worker died after half of its blocks. The use in those blocks and the reported
    /// loss must not exceed the actual use. They must equal it if `complete` is true: all reports are
    /// recorded.
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
            // An earlier check decides if the record may fail to replay.
            return Ok(());
        };
        for (incarnation, (_, known)) in halves {
            let lost = &lost[&incarnation];
            let exact = complete(incarnation) && lost.unrecorded == 0;
            let used = &self.workers[&incarnation].used;
            let mut sums = known;
            for (tenant, told) in &lost.tenants {
                let wrong = || Violation::new("I10", format!("{incarnation} ran for no session"));
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
