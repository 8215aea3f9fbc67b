//! The list of quotas, on its way to workers.

use bus_schemas::{Tenant, TenantQuota, TenantSettings};
use scheduler_leader_core::Event;

use crate::world::{World, opened, tenant};

impl World {
    fn set_quota(&mut self, tenant: &Tenant, quota: u64) {
        let settings = TenantSettings {
            quota,
            ..TenantSettings::default()
        };
        for at in 0..self.nodes.len() {
            self.tell(at, Event::TenantSet(tenant, Some(&settings)));
        }
    }

    /// Number of lists that each worker got, and the last one's rows.
    fn lists(&self) -> Vec<(usize, Vec<TenantQuota>)> {
        let lists = self.workers.iter().map(|worker| {
            let last = worker.lists.last().map(|list| list.quotas.clone());
            (worker.lists.len(), last.unwrap_or_default())
        });
        lists.collect()
    }
}

#[test]
fn a_worker_gets_the_quotas_in_force_until_it_has_them_and_from_each_leader() {
    let mut world = opened(2);
    let row = |tenant: &Tenant, quota| TenantQuota {
        tenant: tenant.clone(),
        quota,
    };
    world.pass(500);
    // No tenant has a quota: that is a list too, and it is sent once.
    assert_eq!(world.lists(), [(1, vec![]), (1, vec![])]);
    let other: Tenant = "batch".parse().unwrap();
    world.set_quota(&tenant(), 3 << 30);
    world.set_quota(&other, 1 << 30);
    world.pass(500);
    let rows = vec![row(&other, 1 << 30), row(&tenant(), 3 << 30)];
    assert_eq!(world.lists(), [(2, rows.clone()), (2, rows.clone())]);
    // The same quota again is no news.
    world.set_quota(&other, 1 << 30);
    world.pass(500);
    assert_eq!(world.lists(), [(2, rows.clone()), (2, rows.clone())]);
    // A lost list is sent again; a worker of an earlier build gets none.
    world.workers[0].lists.pop();
    world.workers[1].takes_quotas = false;
    world.workers[1].lists.clear();
    world.pass(500);
    assert_eq!(world.lists(), [(2, rows.clone()), (0, vec![])]);
    // A quota is removed, under the next leader.
    let state = world.stored.clone();
    let standby = 1 - world.leading().unwrap();
    world.tell(standby, Event::State(&state));
    world.set_quota(&other, 0);
    world.set_quota(&tenant(), 3 << 30);
    world.kill_leader(0);
    world.pass(1_000);
    assert!(world.leading().is_some());
    assert_eq!(world.lists()[0].1, [row(&tenant(), 3 << 30)]);
    assert!(world.workers[0].lists.last().unwrap().epoch > 1);
}

#[test]
fn a_worker_learns_which_tenants_there_are_when_one_comes_or_goes() {
    let mut world = opened(1);
    let other: Tenant = "batch".parse().unwrap();
    let named = |world: &World| world.workers[0].lists.last().unwrap().tenants.clone();
    world.pass(500);
    assert_eq!(named(&world), [tenant()]);
    world.set_quota(&other, 0);
    world.pass(500);
    assert_eq!(named(&world), [other.clone(), tenant()]);
    world.tell(0, Event::TenantSet(&other, None));
    world.pass(500);
    assert_eq!(named(&world), [tenant()]);
}
