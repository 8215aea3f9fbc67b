//! Use that is lost with workers: what they reported done and no usage block has.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use bus_schemas::{GpuId, Incarnation, Tenant, UsageEnd};
use scheduler_leader_core::replay::{ReportedWork, UnrecordedUse, unrecorded_use};

use super::Books;
use crate::admin::Administrator;

/// A worker that ended without a last block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaid {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// What of its use no block has; none where the record does not say.
    pub loss: Option<Loss>,
}

/// What a worker reported done and no block has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// By tenant; none where the record does not say whose it was.
    pub tenants: BTreeMap<Option<Tenant>, ReportedWork>,
    /// Reports that went with a leader: what they told is in no sum.
    pub unrecorded: u64,
}

impl Loss {
    /// What its reports tell, but for what its blocks have all the same.
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
    /// Workers whose blocks end within the interval without a last one: those that are at work, and
    /// those that were killed.
    fn open(&self) -> BTreeMap<Incarnation, &UsageEnd> {
        let open = self.ends.workers();
        let open = open.filter(|(_, end)| !end.left && self.query.spans(end.at_ms));
        open.map(|(incarnation, end)| (*incarnation, end)).collect()
    }

    /// What is lost of each of these workers; `told` is what they reported behind the reports that
    /// their blocks name, if the record says so.
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
    /// Workers that ended without a last block, and what of their use no block has.
    ///
    /// # Errors
    /// [`crate::exit::Unreachable`] without a leader or broker; where the record cannot be read.
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
        // That the record does not replay is something else than that it cannot be read.
        let blocks = crate::record::stream_blocks(self).await?;
        Ok(books.losses(&dead, unrecorded_use(&blocks, &reported).ok()))
    }
}

#[cfg(test)]
mod tests;
