//! The processes of a scene.

use std::cell::RefCell;
use std::rc::Rc;

use bus_schemas::subject::Subjects;
use bus_schemas::{ClusterSettings, Groups, Incarnation, LeaderId, Tenant, TenantSettings};
use gpu_worker_core::sequencer::{Identity, SequencerConfig};
use gpu_worker_core::sharing_domains::Share;
use gpu_worker_core::worker::CopySettings;
use sim_cluster::{
    ClientNode, Factory, LeaderConfig, LeaderProcess, MILLI, Nanos, Node, NodeRole, Random,
    Reports, WorkerNode, WorkerOptions, mix,
};

use crate::administrator::{Administrator, Errand};
use crate::device::SMS;
use crate::faults::{Fault, Strike, Target};
use crate::hostile::{Hostile, Overheard};
use crate::jobs::ModelDevice;
use crate::mutants::{Mutant, Mutated, apart};
use crate::scene::{Customer, Machine, Scene};
use crate::session::ModelProgram;

/// Makes the processes of a scene.
pub(super) fn factory(
    scene: &Scene,
    name: &Tenant,
    mutant: Option<Mutant>,
    overheard: &Rc<RefCell<Overheard>>,
) -> Factory {
    let (name, settings) = (name.clone(), scene.settings.clone());
    let (tenants, clients) = (scene.tenant_settings(), scene.clients.clone());
    let (machines, capacity) = (scene.workers.clone(), scene.capacity);
    let memory_limit = scene.memory_limit();
    let errands = errands(&scene.faults);
    let (times, overheard) = (hostile_times(&scene.faults), overheard.clone());
    let config = patience(scene, &name, mutant);
    Box::new(move |role, number, life, mut random| {
        let mutated = |node: Box<dyn Node>, has: bool| match mutant {
            Some(mutant) if has => Box::new(Mutated::new(node, mutant)) as Box<dyn Node>,
            _ => node,
        };
        match role {
            NodeRole::Leader => {
                let id = LeaderId(random.draw());
                let (mut settings, mut tenants) = (settings.clone(), tenants.clone());
                mislead(mutant, &mut settings, &mut tenants, &machines);
                let node = LeaderProcess::new(config.clone(), id, settings, tenants);
                mutated(Box::new(node), mutant.is_some_and(Mutant::of_leader))
            }
            NodeRole::Worker => {
                let own = machines.iter().find(|machine| machine.number == number);
                let identity = Identity {
                    incarnation: Incarnation(random.draw()),
                    gpu: number,
                    capacity,
                };
                let node = worker(&name, (identity, memory_limit), own, mutant);
                mutated(Box::new(node), mutant.is_some_and(Mutant::of_worker))
            }
            NodeRole::Administrator => Box::new(Administrator::new(&name, errands.clone())),
            NodeRole::Hostile => {
                let (times, overheard) = (times.clone(), overheard.clone());
                Box::new(Hostile::new(&name, times, overheard, random))
            }
            NodeRole::Client => {
                let own = clients.iter().find(|client| client.number == number);
                Box::new(client(&name, own, life, random))
            }
        }
    })
}

/// Timeouts of leaders and candidates. With slow nodes, they are as if the broker's events were heard: such
/// a node is not dead. In every fourth scene they are those for several servers, because a closed
/// connection may have moved to another server.
fn patience(scene: &Scene, name: &Tenant, mutant: Option<Mutant>) -> LeaderConfig {
    let config = LeaderConfig::new(name.clone());
    let several = mutant.is_none() && scene.seed.is_multiple_of(4);
    let config = if several { config.on_servers() } else { config };
    let config = match scene.troubles().slowness {
        true => config.with_events(),
        false => config,
    };
    match mutant {
        Some(Mutant::DeposesTheSlow) => LeaderConfig {
            silence: 100 * MILLI,
            silence_most: 0,
            ..config
        },
        Some(Mutant::LosesTheSlow) => LeaderConfig {
            worker_silence: 200 * MILLI,
            worker_silence_most: 0,
            ..config
        },
        _ => config,
    }
}

/// Makes leaders misread the settings, as a mutant does.
fn mislead(
    mutant: Option<Mutant>,
    settings: &mut ClusterSettings,
    tenants: &mut [(Tenant, TenantSettings)],
    machines: &[Machine],
) {
    let groups: Vec<Tenant> = machines.iter().map(Machine::group).collect();
    let mut each = |change: &dyn Fn(&mut TenantSettings)| {
        tenants.iter_mut().for_each(|(_, tenant)| change(tenant));
    };
    match mutant {
        Some(Mutant::WideWindow) => settings.window_ns *= 100,
        Some(Mutant::KeepsAll) => settings.record_buffer *= 10_000,
        Some(Mutant::GivesUpEarly) => settings.record_buffer /= 16,
        Some(Mutant::IgnoresTargets) => each(&|tenant| tenant.slo_ns = 0),
        Some(Mutant::EqualWeights) => each(&|tenant| tenant.weight = 1),
        Some(Mutant::IgnoresGroups) => {
            let all = Groups::new(groups).unwrap_or_default();
            each(&|tenant| tenant.groups = all.clone());
        }
        Some(Mutant::SharesExclusive) => each(&|tenant| share(tenant, &groups)),
        _ => {}
    }
}

fn worker(
    name: &Tenant,
    (identity, memory_limit): (Identity, u64),
    own: Option<&Machine>,
    mutant: Option<Mutant>,
) -> WorkerNode<ModelDevice> {
    let incarnation = identity.incarnation;
    // Both kinds of device, regardless of the seed.
    let preemptive = incarnation.0.is_multiple_of(2);
    // Tails in one message, or in several of few grants each. A mutant changes a single message.
    let seal_rows = match incarnation.0 % 3 {
        _ if mutant.is_some() => usize::MAX,
        0 => 2,
        1 => 40,
        _ => usize::MAX,
    };
    let settings = WorkerOptions {
        identity,
        config: SequencerConfig {
            preemptive,
            seal_rows,
            ..SequencerConfig::default()
        },
        sms: SMS,
        one_at_a_time: true,
        memory_limit,
        swap_ns_per_mib: 500_000,
        group: own.and_then(|own| own.group.clone()),
        exclusive: own.is_some_and(|own| own.exclusive),
        reports: Reports::Always(250 * MILLI),
        copies: copies(incarnation),
    };
    let device = ModelDevice::new(incarnation, preemptive, mutant);
    WorkerNode::new(Subjects::new(name), settings, device)
}

/// Settings of a worker's chunks: every scope, memory for none, a few and all of them, with and without
/// looks for idle ones.
fn copies(incarnation: Incarnation) -> CopySettings {
    let number = mix(incarnation.0);
    CopySettings {
        share: [Share::All, Share::Tenant, Share::Off][(number % 3) as usize],
        memory: [0, 1 << 20, 64 << 20, 64 << 20][(number >> 8) as usize % 4],
        idle: [0, 300 * MILLI][(number >> 16) as usize % 2],
    }
}

/// Makes a client process. A restarted one has no work left.
fn client(
    name: &Tenant,
    own: Option<&Customer>,
    life: u32,
    mut random: Random,
) -> ClientNode<ModelProgram> {
    let connection = format!("client-{:016x}", random.draw());
    let seed = random.draw();
    let tenant = own.map_or_else(|| name.clone(), |own| own.tenant.clone());
    let programs = own.filter(|_| life == 1).into_iter();
    let programs = programs.flat_map(|own| own.programs.iter().map(|it| (it, own.deadline)));
    let programs = programs.map(|(program, deadline)| {
        let random = Random::of(seed, u64::from(program.number));
        ModelProgram::new(program.clone(), deadline, random)
    });
    let dies = own.and_then(|own| own.dies);
    let dies = dies.map(|death| (death.at, death.told));
    ClientNode::new(name, tenant, connection, programs, dies)
}

/// Errands of an administrator.
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

/// Times at which a hostile tenant acts.
fn hostile_times(faults: &[Strike]) -> Vec<(Nanos, Nanos)> {
    let time = |strike: &Strike| match strike.fault {
        Fault::Hostile { time } => Some((strike.at, strike.at + time)),
        _ => None,
    };
    faults.iter().filter_map(time).collect()
}

/// Binds a tenant to the groups that it may use, with exclusive workers moved to separate groups. So a
/// tenant that is bound to none still cannot use them.
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
