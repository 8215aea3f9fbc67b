//! The processes of a scene.

use bus_schemas::{Groups, TenantSettings};

use super::*;
use crate::faults::Strike;
use crate::flaw::apart;
use crate::nodes::{Administrator, Errand};
use crate::scene::Machine;

/// Makes the processes of a scene.
pub(super) fn factory(scene: &Scene, name: &Tenant, flaw: Option<Flaw>) -> Factory {
    let (name, settings) = (name.clone(), scene.settings.clone());
    let (tenants, clients) = (scene.accounts(), scene.clients.clone());
    let (machines, capacity) = (scene.workers.clone(), scene.capacity);
    let errands = errands(&scene.faults);
    Box::new(move |role, number, life, mut random| {
        let flawed = |node: Box<dyn Node>, has: bool| match flaw {
            Some(flaw) if has => Box::new(Flawed::new(node, flaw)) as Box<dyn Node>,
            _ => node,
        };
        match role {
            Role::Leader => {
                let id = LeaderId(random.draw());
                let (mut settings, mut tenants) = (settings.clone(), tenants.clone());
                match flaw {
                    Some(Flaw::WideWindow) => settings.window_ns *= 100,
                    Some(Flaw::KeepsAll) => settings.record_buffer *= 10_000,
                    Some(Flaw::GivesUpEarly) => settings.record_buffer /= 16,
                    Some(Flaw::IgnoresTargets) => {
                        tenants.iter_mut().for_each(|(_, tenant)| tenant.slo_ns = 0);
                    }
                    Some(Flaw::EqualWeights) => {
                        tenants.iter_mut().for_each(|(_, tenant)| tenant.weight = 1);
                    }
                    Some(Flaw::IgnoresGroups) => {
                        let all = || Groups::new(machines.iter().map(Machine::group));
                        let all = || all().unwrap_or_default();
                        tenants.iter_mut().for_each(|(_, it)| it.groups = all());
                    }
                    Some(Flaw::SharesExclusive) => {
                        let groups = machines.iter().map(Machine::group);
                        let groups: Vec<Tenant> = groups.collect();
                        tenants.iter_mut().for_each(|(_, it)| share(it, &groups));
                    }
                    _ => {}
                }
                let node = LeaderProcess::new(&name, id, settings, tenants);
                flawed(Box::new(node), flaw.is_some_and(Flaw::of_leader))
            }
            Role::Worker => {
                let subjects = bus_schemas::subject::Subjects::new(&name);
                let identity = Identity {
                    incarnation: Incarnation(random.draw()),
                    gpu: number,
                    capacity,
                };
                let own = machines.iter().find(|machine| machine.number == number);
                let kind = own.map_or((None, false), |own| (own.group.clone(), own.exclusive));
                let node = WorkerNode::new(subjects, identity, kind, flaw);
                flawed(Box::new(node), flaw.is_some_and(Flaw::of_worker))
            }
            Role::Administrator => Box::new(Administrator::new(&name, errands.clone())),
            Role::Client => {
                let own = clients.iter().find(|client| client.number == number);
                let (tenant, mut plan) = own.map_or_else(
                    || (name.clone(), Plan::default()),
                    |own| {
                        let (programs, dies) = (own.programs.clone(), own.dies);
                        let plan = Plan {
                            programs,
                            dies,
                            deadline: own.deadline,
                        };
                        (own.tenant.clone(), plan)
                    },
                );
                if life > 1 {
                    plan.programs.clear();
                }
                Box::new(ClientNode::new(&name, tenant, plan, random))
            }
        }
    })
}

/// What an administrator is to do.
fn errands(faults: &[Strike]) -> Vec<Errand> {
    let errand = |strike: &Strike| match strike.fault {
        Fault::Drain {
            node: Target::Worker(gpu),
            time,
        } => Some(Errand {
            gpu,
            at: strike.at,
            until: strike.at + time,
        }),
        _ => None,
    };
    faults.iter().filter_map(errand).collect()
}

/// Binds a tenant such that it may use what it may use, where exclusive workers are not, but in groups
/// of their own: who is bound to none is still kept from them.
fn share(tenant: &mut TenantSettings, groups: &[Tenant]) {
    let names: Vec<Tenant> = match tenant.groups.is_empty() {
        true => groups.to_vec(),
        false => {
            let bound = tenant.groups.names().filter_map(|name| name.parse().ok());
            bound
                .flat_map(|group: Tenant| [apart(&group), group])
                .collect()
        }
    };
    tenant.groups = Groups::new(names).unwrap_or_default();
}
