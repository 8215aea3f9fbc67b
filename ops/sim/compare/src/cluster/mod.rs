//! Warploom itself: the simulated cluster, with a modelled device that a worker feeds, and clocked
//! programs. Every message is encoded, sent, delayed and decoded.

mod books;
mod device;
mod place;
mod program;
mod slices;

use std::cell::RefCell;
use std::rc::Rc;

use bus_schemas::{ClusterSettings, Invariant, LeaderId};
use gpu_worker_core::sequencer::{Identity, SequencerConfig};
use gpu_worker_core::worker::CopySettings;
use sim_cluster::{
    ClientFact, ClientNode, Cluster, ClusterObserver, ClusterOptions, Delays, Factory, Jitter,
    LeaderConfig, LeaderProcess, MILLI, Nanos, NodeFact, NodeId, NodeRole, Random, Reports, SECOND,
    Ways, WorkerNode, WorkerOptions,
};

use self::books::{Books, Shared};
use self::device::FedDevice;
use self::place::{CAPACITY, GPU, Place, SMS, WORKER, settings};
use self::program::ClockedProgram;
use crate::outcome::ComparedRun;
use crate::scenario::{Scenario, SimulationError};

/// Time by which every session has to be open.
const UP: Nanos = SECOND;
/// Interval at which the worker reports its measurements while it is used.
const MEASURED_EVERY: Nanos = 100 * MILLI;

/// Notes events that must not happen here.
#[derive(Default)]
struct Complaints(Option<SimulationError>);

impl ClusterObserver for Complaints {
    fn fact(&mut self, _: Nanos, _: NodeId, fact: NodeFact) {
        let why = match fact {
            NodeFact::Client(
                ClientFact::Failed { failure, .. } | ClientFact::Refused { failure },
            ) => {
                format!("{failure:?}")
            }
            NodeFact::Broken { why } => why,
            _ => return,
        };
        self.0.get_or_insert(SimulationError::Cluster(why));
    }
}

/// Runs a scenario on a cluster.
pub(crate) fn run(scenario: &Scenario) -> Result<ComparedRun, SimulationError> {
    // Figures of a cluster that violates an invariant are worthless.
    Invariant::make_fatal();
    let place = Rc::new(Place::new(scenario)?);
    let books = Rc::new(RefCell::new(Books::new(scenario)));
    let jitter = Jitter::new(Random::of(scenario.seed, 1), scenario.bus, scenario.jitter);
    let settings = ClusterOptions {
        seed: scenario.seed,
        ways: Ways::Jittered(jitter),
        delays: Delays {
            timers: 0,
            store: (scenario.bus, scenario.bus),
        },
    };
    let factory = factory(scenario, place, books.clone());
    let mut cluster = Cluster::new(settings, Complaints::default(), factory);
    cluster.add(NodeRole::Leader, 0, 0);
    cluster.add(NodeRole::Worker, 0, 0);
    for index in 0..scenario.tenants.len() {
        cluster.add(NodeRole::Client, index as u32, 0);
    }
    while cluster.next_at().is_some_and(|at| at <= scenario.end()) {
        cluster.step();
        if let Some(error) = cluster.observer.0.take() {
            return Err(error);
        }
    }
    let messages = cluster.network.sent;
    drop(cluster);
    let outcome = books.borrow_mut().finish(scenario, UP)?;
    Ok(ComparedRun {
        messages,
        ..outcome
    })
}

/// Makes the cluster's processes.
fn factory(scenario: &Scenario, place: Rc<Place>, books: Shared) -> Factory {
    let scenario = Rc::new(scenario.clone());
    Box::new(move |role, number, _, _| match role {
        NodeRole::Worker => {
            let settings = WorkerOptions {
                copies: CopySettings::default(),
                identity: Identity {
                    incarnation: WORKER,
                    gpu: GPU,
                    capacity: CAPACITY,
                },
                config: SequencerConfig {
                    preemptive: true,
                    ..SequencerConfig::default()
                },
                sms: SMS,
                one_at_a_time: false,
                memory_limit: CAPACITY,
                swap_ns_per_mib: 0,
                group: None,
                exclusive: false,
                reports: Reports::WhileUsed(MEASURED_EVERY),
            };
            let device = FedDevice::new(scenario.clone(), place.clone(), books.clone());
            Box::new(WorkerNode::new(place.subjects.clone(), settings, device))
        }
        NodeRole::Client => {
            let index = number as usize;
            let program =
                ClockedProgram::new(index, scenario.clone(), place.clone(), books.clone());
            let (cluster, tenant) = (place.subjects.cluster(), place.tenants[index].clone());
            let name = format!("client-{index}");
            Box::new(ClientNode::new(cluster, tenant, name, [program], None))
        }
        NodeRole::Leader | NodeRole::Administrator | NodeRole::Hostile => {
            let cluster = ClusterSettings {
                window_ns: scenario.window,
                quantum_ns: scenario.quantum,
                ..ClusterSettings::default()
            };
            let tenants = place.tenants.iter().cloned();
            let tenants = tenants.zip(scenario.tenants.iter().map(settings)).collect();
            let config = LeaderConfig::new(place.subjects.cluster().clone());
            Box::new(LeaderProcess::new(config, LeaderId(1), cluster, tenants))
        }
    })
}
