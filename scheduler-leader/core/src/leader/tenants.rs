//! What a reign keeps of tenants beside the order: how their requests do.

use std::collections::BTreeSet;

use bus_schemas::{Attainment, SessionId, Tenant, TenantSettings};

use super::config::Nanos;
use super::reign::Reign;

impl Reign {
    /// Counts the requests of sessions that are done by now.
    pub(super) fn attain(&mut self, sessions: &BTreeSet<SessionId>, now: Nanos) {
        let waiting = sessions.iter().copied();
        let waiting = waiting.filter(|session| self.attainments.awaits(*session));
        for session in waiting.collect::<Vec<_>>() {
            if let Some(view) = self.order.session(session) {
                let target = self.order.target(&view.tenant);
                self.attainments
                    .done(now, session, view.done, &view.tenant, target);
            }
        }
    }

    /// An administrator changed or removed a tenant.
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

    /// How the requests of each tenant did that has had any.
    pub(super) fn attainments(&self, now: Nanos) -> Vec<(Tenant, TenantSettings, Attainment)> {
        let tenants = self.order.tenants().into_iter();
        let attained = tenants.filter_map(|view| {
            let attainment = self.attainments.of(now, &view.tenant)?;
            Some((view.tenant, view.settings?, attainment))
        });
        attained.collect()
    }
}
