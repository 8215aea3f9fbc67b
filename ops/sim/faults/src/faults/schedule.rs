//! Faults drawn from the seed before the run begins.

use super::{Fault, PATIENCE, Strike, Target, Troubles};
use crate::scene::Customer;
use sim_cluster::{Lossy, MILLI, Mishap, Nanos, Random, SECOND};

/// Number of nodes of each role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cast {
    /// Leader candidates.
    pub leaders: usize,
    /// Workers.
    pub workers: usize,
    /// Clients.
    pub clients: usize,
}

type Draw = fn(&mut Random, Cast) -> Fault;

/// Draws faults in order of time; all end by `until`.
#[must_use]
pub(crate) fn schedule(
    random: &mut Random,
    troubles: Troubles,
    cast: Cast,
    until: Nanos,
) -> Vec<Strike> {
    let mut kinds: Vec<Draw> = Vec::new();
    if troubles.weather {
        kinds.push(|random, _| Fault::Weather(Lossy::draw(random)));
        kinds.push(|_, _| Fault::Weather(Lossy::FAIR));
        kinds.push(next);
    }
    if troubles.partitions {
        kinds.extend([block as Draw, isolate]);
        kinds.push(|random, _| Fault::Usurp {
            time: time(random, 5 * SECOND),
        });
    }
    if troubles.crashes {
        kinds.extend([crash as Draw, crash, leave]);
    }
    if troubles.pauses {
        kinds.extend([pause as Draw, stall]);
    }
    if troubles.cuts {
        kinds.push(cut);
    }
    if troubles.broker {
        kinds.push(broker);
        kinds.push(|random, _| Fault::StoreAway {
            time: time(random, 10 * SECOND),
        });
        kinds.push(|random, _| Fault::StoreForgets {
            lost: random.between(1, 40) as u32,
        });
    }
    if troubles.lease {
        kinds.push(|_, _| Fault::LeaseDeleted);
    }
    let mut faults = Vec::new();
    if kinds.is_empty() {
        return faults;
    }
    let every = random.between(100, 1500) * MILLI;
    let mut at = random.between(0, 300) * MILLI;
    if troubles.weather {
        let fault = Fault::Weather(Lossy::draw(random));
        faults.push(Strike { at: 0, fault });
    }
    while at < until {
        let draw = kinds[random.index(kinds.len())];
        let fault = draw(random, cast);
        if at + fault.time() < until {
            faults.push(Strike { at, fault });
        }
        at += random.between(1, 2 * every);
    }
    faults
}

/// Purpose of the random source of drains. It is separate, so that a scene without drains is as its seed
/// made it before.
const DRAINS: u64 = 0x0064_7261_696e_7321;

/// The random source of a scene's drains, and true if the scene has any.
#[must_use]
pub(crate) fn drains(seed: u64) -> (Random, bool) {
    let mut random = Random::of(seed, DRAINS);
    let any = random.chance(300);
    (random, any)
}

/// Adds an administrator's drains to the other faults.
pub(crate) fn drain(random: &mut Random, cast: Cast, until: Nanos, faults: &mut Vec<Strike>) {
    for _ in 0..1 + random.index(4) {
        let at = random.between(0, until / MILLI) * MILLI;
        let node = worker(random, cast);
        let fault = Fault::Drain {
            node,
            time: time(random, 5 * SECOND),
        };
        if at + fault.time() < until {
            faults.push(Strike { at, fault });
        }
    }
    faults.sort_by_key(|strike| strike.at);
}

/// Purpose of the random source of store faults, which is separate too.
const STORES: u64 = 0x0073_746f_7265_7321;

/// The random source of a scene's full, slow and lost stores, and true if the scene has any.
#[must_use]
pub(crate) fn stores(seed: u64) -> (Random, bool) {
    let mut random = Random::of(seed, STORES);
    let any = random.chance(300);
    (random, any)
}

/// Adds full, slow and lost stores to the other faults.
pub(crate) fn store_faults(random: &mut Random, until: Nanos, faults: &mut Vec<Strike>) {
    for _ in 0..1 + random.index(4) {
        let at = random.between(0, until / MILLI) * MILLI;
        let time = time(random, 5 * SECOND);
        let fault = match random.index(7) {
            0..=2 => Fault::RecordFull { time },
            3 => Fault::StoreSlow {
                time,
                by: random.between(1, 700) * MILLI,
            },
            4 => Fault::StoreRefuses { time },
            5 => Fault::WritesLost { time },
            _ => Fault::StateDeleted,
        };
        if at + fault.time() < until {
            faults.push(Strike { at, fault });
        }
    }
    faults.sort_by_key(|strike| strike.at);
}

/// Purpose of the random source of slow nodes, which is separate too.
const SLOWNESS: u64 = 0x736c_6f77_6e6f_6465;

/// The random source of a scene's slow nodes, and true if the scene has any.
#[must_use]
pub(crate) fn slowness(seed: u64) -> (Random, bool) {
    let mut random = Random::of(seed, SLOWNESS);
    let any = random.chance(300);
    (random, any)
}

/// Adds slow nodes to the other faults. In one of five scenes they are slower than leaders tolerate.
pub(crate) fn slow_nodes(random: &mut Random, cast: Cast, until: Nanos, faults: &mut Vec<Strike>) {
    let most = if random.chance(200) { 5 } else { 1 };
    for _ in 0..1 + random.index(5) {
        let at = random.between(0, until / MILLI) * MILLI;
        let fault = Fault::SlowNode {
            node: node(random, cast),
            time: random.between(100, 4000) * MILLI,
            by: random.between(1, most * (PATIENCE / MILLI)) * MILLI,
        };
        if at + fault.time() < until {
            faults.push(Strike { at, fault });
        }
    }
    faults.sort_by_key(|strike| strike.at);
}

/// Purpose of the random source of a hostile tenant, which is separate too.
const HOSTILE: u64 = 0x686f_7374_696c_6521;

/// The random source of a scene's hostile tenant, and true if the scene has one.
#[must_use]
pub(crate) fn hostile(seed: u64) -> (Random, bool) {
    let mut random = Random::of(seed, HOSTILE);
    let any = random.chance(300);
    (random, any)
}

/// Adds the times at which a hostile tenant acts to the other faults.
pub(crate) fn hostile_times(random: &mut Random, until: Nanos, faults: &mut Vec<Strike>) {
    for _ in 0..1 + random.index(3) {
        let at = random.between(0, until / MILLI) * MILLI;
        let time = random.between(50, 2500) * MILLI;
        let fault = Fault::Hostile { time };
        if at + time < until {
            faults.push(Strike { at, fault });
        }
    }
    faults.sort_by_key(|strike| strike.at);
}

/// Purpose of the random source of faults that hit requests for several devices.
const HALVES: u64 = 0x0068_616c_7665_7321;

/// Adds faults by which requests for several devices fail to get one. Its worker takes the session and
/// begins others, or receives nothing, and dies before all have begun.
pub(crate) fn halve(seed: u64, cast: Cast, clients: &[Customer], until: Nanos) -> Vec<Strike> {
    let random = &mut Random::of(seed, HALVES);
    let mut faults = Vec::new();
    for client in clients {
        for program in client.programs.iter().filter(|it| it.devices > 1) {
            if random.chance(300) {
                continue;
            }
            let begins = client.start + program.start;
            let at = begins.saturating_sub(random.between(0, 20) * MILLI);
            let silent = time(random, 3 * SECOND).max(30 * MILLI);
            let to = worker(random, cast);
            for leader in 0..cast.leaders as u32 {
                let (from, both) = (Target::Leader(leader), false);
                let fault = Fault::Block {
                    from,
                    to,
                    both,
                    time: silent,
                };
                faults.push(Strike { at, fault });
            }
            let fault = Fault::Crash {
                node: to,
                told: random.chance(500),
                time: time(random, SECOND),
            };
            let at = begins + random.between(MILLI, silent);
            faults.push(Strike { at, fault });
        }
    }
    faults.retain(|strike| strike.at + strike.fault.time() < until);
    faults
}

fn leader(random: &mut Random, cast: Cast) -> Target {
    Target::Leader(random.index(cast.leaders) as u32)
}

fn worker(random: &mut Random, cast: Cast) -> Target {
    Target::Worker(random.index(cast.workers) as u32)
}

fn node(random: &mut Random, cast: Cast) -> Target {
    match random.between(0, 9) {
        0..=2 => Target::Leading,
        3..=4 => leader(random, cast),
        5..=7 => worker(random, cast),
        _ => Target::Client(random.index(cast.clients) as u32),
    }
}

/// Draws a duration: mostly short, sometimes longer than each timeout of the protocol.
fn time(random: &mut Random, longest: Nanos) -> Nanos {
    let most = match random.between(0, 9) {
        0..=3 => 60 * MILLI,
        4..=6 => 700 * MILLI,
        7..=8 => 2500 * MILLI,
        _ => longest,
    };
    random.between(MILLI, most.min(longest))
}

fn block(random: &mut Random, cast: Cast) -> Fault {
    Fault::Block {
        from: node(random, cast),
        to: node(random, cast),
        both: random.chance(500),
        time: time(random, 5 * SECOND),
    }
}

fn isolate(random: &mut Random, cast: Cast) -> Fault {
    let says = random.chance(600);
    Fault::Isolate {
        node: node(random, cast),
        says,
        hears: !says || random.chance(500),
        time: time(random, 5 * SECOND),
    }
}

fn crash(random: &mut Random, cast: Cast) -> Fault {
    let node = match random.between(0, 4) {
        0..=1 => Target::Leading,
        2 => leader(random, cast),
        _ => worker(random, cast),
    };
    Fault::Crash {
        node,
        told: random.chance(700),
        time: time(random, 3 * SECOND),
    }
}

fn leave(random: &mut Random, cast: Cast) -> Fault {
    Fault::Leave {
        node: match random.between(0, 9) {
            0..=4 => Target::Leading,
            5..=6 => leader(random, cast),
            _ => worker(random, cast),
        },
    }
}

fn pause(random: &mut Random, cast: Cast) -> Fault {
    Fault::Pause {
        node: node(random, cast),
        time: time(random, 5 * SECOND),
    }
}

fn stall(random: &mut Random, cast: Cast) -> Fault {
    Fault::Stall {
        node: node(random, cast),
        time: time(random, 5 * SECOND),
    }
}

fn next(random: &mut Random, cast: Cast) -> Fault {
    Fault::Next {
        node: node(random, cast),
        what: [Mishap::Lost, Mishap::Doubled, Mishap::Late][random.index(3)],
        time: time(random, SECOND),
    }
}

fn cut(random: &mut Random, cast: Cast) -> Fault {
    Fault::Cut {
        node: node(random, cast),
        told: random.chance(700),
        time: time(random, 2 * SECOND),
    }
}

fn broker(random: &mut Random, _: Cast) -> Fault {
    Fault::BrokerAway {
        time: time(random, 8 * SECOND),
        lost: if random.chance(600) {
            random.index(40) as u32
        } else {
            0
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trouble_is_over_in_time_and_none_means_none() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let troubles = Troubles::draw(&mut random);
            let cast = Cast {
                leaders: 3,
                workers: 2,
                clients: 4,
            };
            let faults = schedule(&mut random, troubles, cast, 8 * SECOND);
            let over = |strike: &Strike| strike.at + strike.fault.time() < 8 * SECOND;
            assert!(faults.iter().all(over));
            assert!(faults.is_sorted_by_key(|strike| strike.at));
            let mut met = Troubles::of(&faults);
            let kinds = [troubles.weather, troubles.partitions, troubles.crashes];
            assert!(!met.weather || kinds[0]);
            assert!(!met.partitions || kinds[1]);
            assert!(!met.crashes || kinds[2]);
            met = Troubles::of(&[]);
            assert!(met.none() && (!troubles.none() || faults.is_empty()));
        }
    }
}
