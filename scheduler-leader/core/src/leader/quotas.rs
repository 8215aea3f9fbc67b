//! The tenants' quotas, on their way to workers.
//!
//! A quota travels with the open grant of each session. Later values are sent as a numbered list of
//! all quotas, to each worker until its heartbeats report this list of this epoch. The list also
//! names the tenants with memory that must never be swapped out, and all existing tenants. A worker
//! that is flooded by one tenant then hears the others one by one. Nothing of the list is recorded:
//! it bounds memory on workers, and no order depends on it.

use bus_schemas::{Incarnation, Quotas, Tenant, TenantQuota, TenantSettings, WIRE_VERSION, encode};

use super::context::Context;
use super::term::Term;

/// Maximum rows of a list: it must fit into a message. With more, no list is sent, for a list that
/// lacks a tenant would lift its quota. The values in open grants then stay in force.
const ROWS: usize = 20_000;
/// Maximum number of existing tenants that a list names.
const TENANTS: usize = 4_096;

impl Term {
    /// Notes that a tenant's settings are about to change. The list changes with a quota, with the
    /// permission to swap, and with a tenant that is added or removed.
    pub(super) fn quota_set(&mut self, tenant: &Tenant, settings: Option<&TenantSettings>) {
        let quota = settings.map_or(0, |settings| settings.quota);
        let pinned = settings.is_some_and(|settings| !settings.swap);
        let scheduler = &self.scheduler;
        let before = (scheduler.quota_of(tenant), scheduler.is_pinned(tenant));
        if (before, scheduler.is_known(tenant)) != ((quota, pinned), settings.is_some()) {
            self.quotas += 1;
        }
    }

    /// Sends a worker the quotas in force, unless it has them.
    pub(super) fn send_quotas(&self, worker: Incarnation, cx: &mut Context<'_>) {
        let (publisher, number) = (&self.publisher, self.quotas);
        let is_sealed = self.streams.get(&worker).is_some_and(|it| it.sealed);
        let has = cx.members.get(worker).and_then(|member| member.quotas);
        let lacks = has.is_some_and(|has| has != (publisher.epoch, number));
        if !is_sealed || !lacks {
            return;
        }
        let rows = self.scheduler.quotas().count() + self.scheduler.pinned().count();
        if rows > ROWS {
            return;
        }
        let quotas = self.scheduler.quotas().map(|(tenant, quota)| TenantQuota {
            tenant: tenant.clone(),
            quota,
        });
        let known = self.scheduler.known().take(TENANTS + 1);
        let known: Vec<_> = known.cloned().collect();
        let list = Quotas {
            v: WIRE_VERSION,
            epoch: publisher.epoch,
            leader: publisher.leader,
            number,
            quotas: quotas.collect(),
            pinned: self.scheduler.pinned().cloned().collect(),
            tenants: match known.len() {
                ..=TENANTS => known,
                _ => Vec::new(),
            },
        };
        let subject = publisher.subjects.quotas(worker);
        publisher.publish(subject.into(), encode(&list), cx.actions);
    }
}
