//! Usage that is lost with workers: they reported it done, but no usage block has it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use bus_schemas::{GpuId, Incarnation, Tenant, UsageEnd};
use scheduler_leader_core::replay::{ReportedWork, UnrecordedUse, unrecorded_use};

use super::Books;
use crate::administrator::Administrator;

/// A worker that ended without a last block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaid {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// Its usage that no block has; `None` if the record does not say.
    pub loss: Option<Loss>,
}

/// Work that a worker reported done and no block has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// By tenant; the key is `None` if the record does not say which.
    pub tenants: BTreeMap<Option<Tenant>, ReportedWork>,
    /// Reports that were lost with a leader; their work is in no sum.
    pub unrecorded: u64,
}

impl Loss {
    /// The reported work, less the part that its blocks have.
    fn of(mut told: UnrecordedUse, end: &UsageEnd) -> Self {
        for (tenant, has) in end.beyond() {
            if let Some(it) = told.tenants.get_mut(&Some(tenant)) {
                it.device_ns = it.device_ns.saturating_sub(has.device_ns);
                it.launches = it.launches.saturating_sub(has.launches);
            }
        }
        told.tenants.retain(|_, it| !it.is_zero());
        Self {
            tenants: told.tenants,
            unrecorded: told.unrecorded,
        }
    }

    /// All tenants together.
    #[must_use]
    pub fn sum(&self) -> ReportedWork {
        let mut sum = ReportedWork::default();
        self.tenants.values().for_each(|it| sum.add(it));
        sum
    }
}

impl Books {
    /// Workers with a last block in the interval that is not marked as final: those still running,
    /// and those that were killed.
    fn open(&self) -> BTreeMap<Incarnation, &UsageEnd> {
        let open = self.ends.workers();
        let open = open.filter(|(_, end)| !end.left && self.query.spans(end.at_ms));
        open.map(|(incarnation, end)| (*incarnation, end)).collect()
    }

    /// The loss of each of these workers. `told` is the work that they reported after the reports
    /// that their blocks name, if the record has it.
    fn losses(
        &self,
        dead: &BTreeMap<Incarnation, &UsageEnd>,
        mut told: Option<BTreeMap<Incarnation, UnrecordedUse>>,
    ) -> Vec<Unsaid> {
        let unsaid = dead.iter().map(|(incarnation, end)| {
            let told = told.as_mut().and_then(|told| told.remove(incarnation));
            let mut loss = told.map(|told| Loss::of(told, end));
            if let (Some(loss), Some(wanted)) = (&mut loss, &self.query.tenant) {
                loss.tenants.retain(|of, _| of.as_ref() == Some(wanted));
            }
            Unsaid {
                incarnation: *incarnation,
                gpu: end.gpu,
                loss,
            }
        });
        unsaid.collect()
    }
}

impl Administrator {
    /// Workers that ended without a final block, with their usage that no block has.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a leader or broker; an error if the record cannot be
    /// read.
    pub async fn unsaid(&self, books: &Books) -> Result<Vec<Unsaid>> {
        let mut dead = books.open();
        if dead.is_empty() {
            return Ok(Vec::new());
        }
        let status = self.status(self.patience()).await?;
        let live = status.workers.iter().filter(|worker| !worker.lost);
        let live: BTreeSet<_> = live.map(|worker| worker.incarnation).collect();
        dead.retain(|incarnation, _| !live.contains(incarnation));
        if dead.is_empty() {
            return Ok(Vec::new());
        }
        let reported = dead.iter().filter_map(|(incarnation, end)| {
            let reports = end.reports()?;
            Some((*incarnation, reports))
        });
        let reported = reported.collect();
        // A record that does not replay is not an error here, unlike one that cannot be read.
        let blocks = crate::record::stream_blocks(self).await?;
        Ok(books.losses(&dead, unrecorded_use(&blocks, &reported).ok()))
    }
}

#[cfg(test)]
mod tests;
