//! The tenants' quotas, on their way to workers.
//!
//! A quota travels with the open grant of each session. What it becomes later is sent as a list of all
//! quotas, with a number: to each worker whose heartbeats do not say that it has that list of this
//! epoch. The list also names the tenants whose memory is never to be swapped out, and all that there
//! are: a worker that one of them floods hears the others one by one. Nothing of it is recorded: it
//! bounds memory on workers, and no order depends on it.

use bus_schemas::{Incarnation, Quotas, Tenant, TenantQuota, TenantSettings, WIRE_VERSION, encode};

use super::context::Context;
use super::term::Term;

/// Rows of a list: it must fit into a message. Where there are more, none is sent, for a list that
/// lacks a tenant would lift its quota: what open grants say goes on to hold.
const ROWS: usize = 20_000;
/// Tenants that a list names at most as those that there are.
const TENANTS: usize = 4_096;

impl Term {
    /// A tenant's settings are about to change: another quota makes another list, and so does memory
    /// that may be swapped out from now on, or may not, and a tenant that comes or goes.
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
