//! What goes wrong, and when: drawn from the seed before the run begins.

use crate::network::Weather;
use virtual_time::Random;
use virtual_time::{MILLI, Nanos, SECOND};

/// The kinds of trouble a run may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Troubles {
    /// Messages are lost, doubled, delayed, overtaken.
    pub weather: bool,
    /// Links between nodes stop, each direction by itself.
    pub partitions: bool,
    /// Leaders and workers die and start again.
    pub crashes: bool,
    /// Nodes get no events for a while and then all at once.
    pub pauses: bool,
    /// A node's connection is lost and restored.
    pub cuts: bool,
    /// The broker is away for a while, and may have lost an acknowledged tail.
    pub broker: bool,
    /// The lease's bucket is deleted.
    pub lease: bool,
}

impl Troubles {
    /// None at all.
    pub const NONE: Self = Self {
        weather: false,
        partitions: false,
        crashes: false,
        pauses: false,
        cuts: false,
        broker: false,
        lease: false,
    };

    /// A mixture: one run in eight has none, the others each kind with even chance.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        if random.chance(125) {
            return Self::NONE;
        }
        let mut even = || random.chance(500);
        Self {
            weather: even(),
            partitions: even(),
            crashes: even(),
            pauses: even(),
            cuts: even(),
            broker: even(),
            lease: even(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn none(self) -> bool {
        self == Self::NONE
    }
}

/// Which node a fault meets: an index into the nodes of a role, taken modulo their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Whoever leads then.
    Leading,
    /// A leader candidate.
    Leader(usize),
    /// A worker.
    Worker(usize),
    /// A client.
    Client(usize),
}

/// One trouble.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The links behave like this from now on.
    Weather(Weather),
    /// Messages from one node to the other are lost for a while.
    Block {
        /// From.
        from: Target,
        /// To.
        to: Target,
        /// Whether the other direction is blocked too.
        both: bool,
        /// For how long.
        time: Nanos,
    },
    /// A node cannot reach, or hear, any of a role's nodes (or of any role).
    Isolate {
        /// The node.
        node: Target,
        /// Blocked: what it says, what it hears, or both.
        says: bool,
        /// See `says`.
        hears: bool,
        /// For how long.
        time: Nanos,
    },
    /// A node dies; a leader or worker starts again.
    Crash {
        /// The node.
        node: Target,
        /// Whether the broker tells the others that its connection was closed.
        told: bool,
        /// Until it starts again.
        time: Nanos,
    },
    /// A node gets no events for a while, then all at once.
    Pause {
        /// The node.
        node: Target,
        /// For how long.
        time: Nanos,
    },
    /// A node's connection is lost and restored.
    Cut {
        /// The node.
        node: Target,
        /// Whether the broker tells the others that its connection was closed.
        told: bool,
        /// For how long.
        time: Nanos,
    },
    /// The broker is away for a while.
    BrokerAway {
        /// For how long.
        time: Nanos,
        /// Acknowledged writes it lost.
        lost: usize,
    },
    /// The store does not answer for a while, though the bus is there.
    StoreAway {
        /// For how long.
        time: Nanos,
    },
    /// The lease's bucket is deleted.
    LeaseDeleted,
    /// A leader hands over, or a worker finishes what it accepted, and ends (SIGTERM).
    Leave {
        /// The node.
        node: Target,
    },
}

impl Fault {
    /// How long it lasts.
    #[must_use]
    pub(crate) fn time(&self) -> Nanos {
        match *self {
            Self::Block { time, .. }
            | Self::Isolate { time, .. }
            | Self::Crash { time, .. }
            | Self::Pause { time, .. }
            | Self::Cut { time, .. }
            | Self::StoreAway { time }
            | Self::BrokerAway { time, .. } => time,
            Self::Weather(_) | Self::LeaseDeleted | Self::Leave { .. } => 0,
        }
    }
}

/// Faults in order of time; all are over by `until`.
#[must_use]
pub(crate) fn schedule(
    random: &mut Random,
    troubles: Troubles,
    until: Nanos,
) -> Vec<(Nanos, Fault)> {
    let mut kinds: Vec<fn(&mut Random) -> Fault> = Vec::new();
    if troubles.weather {
        kinds.push(|random| Fault::Weather(Weather::draw(random)));
        kinds.push(|_| Fault::Weather(Weather::FAIR));
    }
    if troubles.partitions {
        kinds.extend([block as fn(&mut Random) -> Fault, isolate]);
    }
    if troubles.crashes {
        kinds.extend([crash as fn(&mut Random) -> Fault, crash, leave]);
    }
    if troubles.pauses {
        kinds.push(pause);
    }
    if troubles.cuts {
        kinds.push(cut);
    }
    if troubles.broker {
        kinds.extend([broker as fn(&mut Random) -> Fault, |random| {
            Fault::StoreAway {
                time: time(random, 10 * SECOND),
            }
        }]);
    }
    if troubles.lease {
        kinds.push(|_| Fault::LeaseDeleted);
    }
    let mut faults = Vec::new();
    if kinds.is_empty() {
        return faults;
    }
    let every = random.between(100, 1500) * MILLI;
    let mut at = random.between(0, 300) * MILLI;
    if troubles.weather {
        faults.push((0, Fault::Weather(Weather::draw(random))));
    }
    while at < until {
        let draw = kinds[random.index(kinds.len())];
        let fault = draw(random);
        if at + fault.time() < until {
            faults.push((at, fault));
        }
        at += random.between(1, 2 * every);
    }
    faults
}

fn node(random: &mut Random) -> Target {
    match random.between(0, 9) {
        0..=2 => Target::Leading,
        3..=4 => Target::Leader(random.index(16)),
        5..=7 => Target::Worker(random.index(16)),
        _ => Target::Client(random.index(16)),
    }
}

/// Mostly short, now and then longer than each of the protocol's patiences.
fn time(random: &mut Random, longest: Nanos) -> Nanos {
    let most = match random.between(0, 9) {
        0..=3 => 60 * MILLI,
        4..=6 => 700 * MILLI,
        7..=8 => 2500 * MILLI,
        _ => longest,
    };
    random.between(MILLI, most.min(longest))
}

fn block(random: &mut Random) -> Fault {
    Fault::Block {
        from: node(random),
        to: node(random),
        both: random.chance(500),
        time: time(random, 5 * SECOND),
    }
}

fn isolate(random: &mut Random) -> Fault {
    let says = random.chance(600);
    Fault::Isolate {
        node: node(random),
        says,
        hears: !says || random.chance(500),
        time: time(random, 5 * SECOND),
    }
}

fn crash(random: &mut Random) -> Fault {
    let node = match random.between(0, 4) {
        0..=1 => Target::Leading,
        2 => Target::Leader(random.index(16)),
        _ => Target::Worker(random.index(16)),
    };
    Fault::Crash {
        node,
        told: random.chance(700),
        time: time(random, 3 * SECOND),
    }
}

fn leave(random: &mut Random) -> Fault {
    let index = random.index(16);
    Fault::Leave {
        node: match random.between(0, 9) {
            0..=4 => Target::Leading,
            5..=6 => Target::Leader(index),
            _ => Target::Worker(index),
        },
    }
}

fn pause(random: &mut Random) -> Fault {
    Fault::Pause {
        node: node(random),
        time: time(random, 5 * SECOND),
    }
}

fn cut(random: &mut Random) -> Fault {
    Fault::Cut {
        node: node(random),
        told: random.chance(700),
        time: time(random, 2 * SECOND),
    }
}

fn broker(random: &mut Random) -> Fault {
    Fault::BrokerAway {
        time: time(random, 8 * SECOND),
        lost: if random.chance(600) {
            random.index(40)
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
            let faults = schedule(&mut random, troubles, 8 * SECOND);
            assert_eq!(troubles.none(), faults.is_empty() && troubles.none());
            assert!(
                faults
                    .iter()
                    .all(|(at, fault)| at + fault.time() < 8 * SECOND)
            );
            assert!(faults.is_sorted_by_key(|(at, _)| *at));
        }
    }
}
