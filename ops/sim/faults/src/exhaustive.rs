//! Every fault at every step: each kind of fault is tried at events of each class in a scene.

use std::collections::BTreeMap;

use crate::fault_points::{Class, FaultPoint};
use crate::faults::{Fault, Strike, Target};
use crate::run::fault_points;
use crate::scene::Scene;
use sim_cluster::{MICRO, MILLI, Nanos};
use sim_cluster::{Mishap, NodeRole};

/// A scene with one more fault.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    /// The seed of the scene.
    pub seed: u64,
    /// The fault.
    pub strike: Strike,
}

impl Trial {
    /// Makes the scene.
    pub(crate) fn scene(&self) -> Scene {
        let mut scene = Scene::draw(self.seed, None);
        let over = self.strike.at + self.strike.fault.time() + 200 * MILLI;
        scene.quiet = scene.quiet.max(over);
        scene.faults.push(self.strike);
        if let Fault::RecordFull { .. } = self.strike.fault {
            // A record that is full for long must exceed the buffer.
            scene.settings.record_buffer = scene.settings.record_buffer.min(64 << 10);
        }
        scene.faults.sort_by_key(|strike| strike.at);
        scene
    }
}

/// The classes of a seed's scene and their points, up to its time of quiet.
pub(crate) fn classes(seed: u64) -> Vec<(Class, Vec<FaultPoint>)> {
    let scene = Scene::draw(seed, None);
    let early = |moment: &FaultPoint| moment.at < scene.quiet;
    let classes = fault_points(&scene).into_classes();
    let kept = classes.map(|(class, moments)| {
        let early = moments.into_iter().filter(early).collect();
        (class, early)
    });
    kept.filter(|(_, moments): &(_, Vec<_>)| !moments.is_empty())
        .collect()
}

/// A seed, and the classes and points in its scene.
pub(crate) type Found = (u64, Vec<(Class, Vec<FaultPoint>)>);

/// The trials: each fault at `each` points of every class, taken from as many seeds as possible.
pub(crate) fn trials(found: &[Found], each: u64) -> (u64, Vec<Trial>) {
    let mut tried: BTreeMap<Class, u64> = BTreeMap::new();
    let mut trials = Vec::new();
    // First points of all seeds, then the later ones.
    for later in [0, 1] {
        for (seed, classes) in found {
            for (class, moments) in classes {
                let count = tried.entry(*class).or_default();
                let Some(moment) = moments.get(later).filter(|_| *count < each) else {
                    continue;
                };
                *count += 1;
                let faults = faults(class, moment.node).into_iter();
                trials.extend(faults.map(|(after, fault)| Trial {
                    seed: *seed,
                    strike: Strike {
                        at: moment.at + after,
                        fault,
                    },
                }));
            }
        }
    }
    (tried.len() as u64, trials)
}

/// All faults that can meet a node at an event, each with its delay after the event.
fn faults(class: &Class, node: Target) -> Vec<(Nanos, Fault)> {
    let mut all = Vec::new();
    if class.came {
        for (what, time) in [
            (Mishap::Lost, 0),
            (Mishap::Doubled, 2 * MILLI),
            (Mishap::Doubled, 700 * MILLI),
            (Mishap::Late, 2 * MILLI),
            (Mishap::Late, 700 * MILLI),
        ] {
            all.push((0, Fault::Next { node, what, time }));
        }
    }
    if class.state == "opening several" {
        // The request is placed on several workers.
        for number in 0..3 {
            of_place(Target::Worker(number), &mut all);
        }
    }
    of_role(class.role, node, &mut all);
    for time in [60 * MILLI, 1500 * MILLI] {
        lasting(node, time, &mut all);
    }
    for lost in [1, 5] {
        all.push((1, Fault::StoreForgets { lost }));
    }
    all.push((0, Fault::LeaseDeleted));
    all.push((0, Fault::Hostile { time: 700 * MILLI }));
    all.push((0, Fault::Usurp { time: 2000 * MILLI }));
    all
}

/// Adds faults of a worker on which a request for several devices is placed.
fn of_place(node: Target, all: &mut Vec<(Nanos, Fault)>) {
    for told in [true, false] {
        let time = 50 * MILLI;
        all.push((0, Fault::Crash { node, told, time }));
        all.push((400 * MICRO, Fault::Crash { node, told, time }));
    }
    let (told, time) = (true, 1500 * MILLI);
    all.push((0, Fault::Cut { node, told, time }));
    all.push((0, Fault::Pause { node, time }));
    all.push((0, Fault::Leave { node }));
    all.push((0, Fault::Drain { node, time }));
}

/// Adds faults that only nodes of this role can have.
fn of_role(role: NodeRole, node: Target, all: &mut Vec<(Nanos, Fault)>) {
    if role == NodeRole::Worker {
        for time in [150 * MILLI, 1500 * MILLI] {
            all.push((0, Fault::Drain { node, time }));
        }
    }
    if role == NodeRole::Leader {
        for time in [60 * MILLI, 1500 * MILLI] {
            let by = time / 3;
            all.push((0, Fault::RecordFull { time }));
            all.push((0, Fault::StoreSlow { time, by }));
            all.push((0, Fault::StoreRefuses { time }));
            all.push((0, Fault::WritesLost { time }));
        }
        all.push((0, Fault::StateDeleted));
    }
    if role != NodeRole::Client {
        for after in [0, 1] {
            for (told, time) in [(true, 50), (false, 50), (false, 1200)] {
                let time = time * MILLI;
                all.push((after, Fault::Crash { node, told, time }));
            }
        }
        all.push((0, Fault::Leave { node }));
    }
}

/// Adds faults with this duration.
fn lasting(node: Target, time: Nanos, all: &mut Vec<(Nanos, Fault)>) {
    all.push((0, Fault::Pause { node, time }));
    all.push((0, Fault::Stall { node, time }));
    let by = 400 * MILLI;
    all.push((0, Fault::SlowNode { node, time, by }));
    for (says, hears) in [(true, false), (false, true), (true, true)] {
        let isolate = Fault::Isolate {
            node,
            says,
            hears,
            time,
        };
        all.push((0, isolate));
    }
    for (after, told) in [(0, true), (0, false), (1, true)] {
        all.push((after, Fault::Cut { node, told, time }));
    }
    for lost in [0, 3, 40] {
        all.push((0, Fault::BrokerAway { time, lost }));
    }
    all.push((0, Fault::StoreAway { time: 2 * time }));
}
