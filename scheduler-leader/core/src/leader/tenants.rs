//! A term's tenants, as far as the order does not need them: the times of their requests, and the
//! feasibility of their targets.

use std::collections::BTreeMap;

use bus_schemas::{
    AdmissionAnswer, AdmissionRequest, Attainment, Tenant, TenantSettings, WIRE_VERSION,
};

use super::admission;
use super::term::Term;
use crate::scheduler::DirtySession;
use crate::time::Nanos;

impl Term {
    /// Counts the requests of a session that are done by now.
    pub(super) fn attain(&mut self, dirty: &DirtySession, now: Nanos) {
        let (session, done) = (dirty.session, dirty.progress.done);
        let placed = (dirty.slot, session);
        if self.attainments.awaits(dirty.slot)
            && let Some(view) = self.scheduler.session(session)
        {
            let target = self.scheduler.target(&view.tenant);
            self.attainments
                .done(now, placed, done, &view.tenant, target);
        }
    }

    /// Applies an administrator's change or removal of a tenant.
    pub(super) fn tenant_set(
        &mut self,
        tenant: &Tenant,
        settings: Option<&TenantSettings>,
        now: Nanos,
    ) {
        match settings {
            Some(settings) => self.attainments.target_set(now, tenant, settings.slo_ns),
            None => self.attainments.tenant_removed(tenant),
        }
    }

    /// Returns the verdicts on all targets, as if a tenant had the requested settings.
    pub(super) fn admission(&self, request: AdmissionRequest, now: Nanos) -> AdmissionAnswer {
        let tenants = self.scheduler.tenants().into_iter();
        let known = tenants.filter_map(|view| Some((view.tenant, view.settings?)));
        let mut tenants: BTreeMap<_, _> = known.collect();
        tenants.insert(request.tenant, request.settings);
        let (cluster, flows) = (self.scheduler.settings(), self.scheduler.flows());
        AdmissionAnswer {
            v: WIRE_VERSION,
            targets: admission::judge(now, cluster, &tenants, &flows, &self.loads),
        }
    }

    /// The attainment of each tenant that has had requests.
    pub(super) fn attainments(&self, now: Nanos) -> Vec<(Tenant, TenantSettings, Attainment)> {
        let tenants = self.scheduler.tenants().into_iter();
        let attained = tenants.filter_map(|view| {
            let attainment = *self.attainments.of(now, &view.tenant)?;
            Some((view.tenant, view.settings?, attainment))
        });
        attained.collect()
    }
}
