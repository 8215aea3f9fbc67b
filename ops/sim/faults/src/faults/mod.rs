//! Faults: the troubles that a run may have.

pub(crate) mod schedule;

use serde::{Deserialize, Serialize};

use sim_cluster::{Lossy, MILLI, Mishap, Nanos, Random};

/// Maximum delay of inputs that costs no leader and no worker its place.
pub(crate) const PATIENCE: Nanos = 400 * MILLI;

/// The kinds of trouble in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Troubles {
    /// Messages are lost, doubled, delayed, or overtaken.
    pub weather: bool,
    /// Links between nodes are blocked, each direction by itself.
    pub partitions: bool,
    /// Leaders and workers die and start again.
    pub crashes: bool,
    /// Nodes get no events for a while and then all at once, or only their timers stand still.
    pub pauses: bool,
    /// A node's connection is lost and restored.
    pub cuts: bool,
    /// The broker is away for a while, and may have lost an acknowledged tail.
    pub broker: bool,
    /// The lease's bucket is deleted.
    pub lease: bool,
    /// An administrator drains workers and undoes that; no work suffers.
    pub drains: bool,
    /// The store is reachable but full, slow or refusing, or loses writes or a bucket.
    pub stores: bool,
    /// Nodes handle each of their inputs late, as on a starved machine.
    pub slowness: bool,
    /// A tenant says anything that its login allows, and connects under any name; no other tenant's work
    /// suffers.
    pub hostile: bool,
}

impl Troubles {
    /// No trouble.
    pub const NONE: Self = Self {
        weather: false,
        partitions: false,
        crashes: false,
        pauses: false,
        cuts: false,
        broker: false,
        lease: false,
        drains: false,
        stores: false,
        slowness: false,
        hostile: false,
    };

    /// Draws a mixture: one run in eight has no trouble, the others have each kind with even chance.
    /// Drains, stores, slowness and the hostile tenant are drawn separately.
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
            drains: false,
            stores: false,
            slowness: false,
            hostile: false,
        }
    }

    /// True if there is no trouble.
    #[must_use]
    pub fn none(self) -> bool {
        self == Self::NONE
    }

    /// True if there is no trouble from which work may suffer.
    #[must_use]
    pub fn harmless(self) -> bool {
        let (drains, hostile) = (false, false);
        Self {
            drains,
            hostile,
            ..self
        }
        .none()
    }

    /// True if no leader or worker may be lost, provided that no delay is too long.
    #[must_use]
    pub(crate) fn patient(self) -> bool {
        let slowness = false;
        Self { slowness, ..self }.harmless()
    }

    /// True if leaders always reach the store, and read it in time.
    #[must_use]
    pub(crate) fn keeps_store(self) -> bool {
        let crashes = false;
        Self { crashes, ..self }.harmless()
    }

    /// The kinds of these faults.
    #[must_use]
    pub(crate) fn of(faults: &[Strike]) -> Self {
        let mut troubles = Self::NONE;
        for strike in faults {
            let kind = match strike.fault {
                Fault::Weather(_) | Fault::Next { .. } => &mut troubles.weather,
                Fault::Block { .. } | Fault::Isolate { .. } | Fault::Usurp { .. } => {
                    &mut troubles.partitions
                }
                Fault::Crash { .. } | Fault::Leave { .. } => &mut troubles.crashes,
                Fault::Pause { .. } | Fault::Stall { .. } => &mut troubles.pauses,
                Fault::Cut { .. } => &mut troubles.cuts,
                Fault::BrokerAway { .. } | Fault::StoreAway { .. } | Fault::StoreForgets { .. } => {
                    &mut troubles.broker
                }
                Fault::LeaseDeleted => &mut troubles.lease,
                Fault::Drain { .. } => &mut troubles.drains,
                Fault::Hostile { .. } => &mut troubles.hostile,
                Fault::SlowNode { .. } => &mut troubles.slowness,
                Fault::RecordFull { .. }
                | Fault::StoreSlow { .. }
                | Fault::StoreRefuses { .. }
                | Fault::WritesLost { .. }
                | Fault::StateDeleted => &mut troubles.stores,
            };
            *kind = true;
        }
        troubles
    }
}

/// Node that a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Target {
    /// The node that leads at that time.
    Leading,
    /// A leader candidate.
    Leader(u32),
    /// A worker.
    Worker(u32),
    /// A client.
    Client(u32),
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// The links behave like this from now on.
    Weather(Lossy),
    /// The next message, or answer of the store, to a node is affected.
    Next {
        /// The node.
        node: Target,
        /// The mishap.
        what: Mishap,
        /// Delay of a late message.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// Messages from one node to the other are lost for a while.
    Block {
        /// Sender.
        from: Target,
        /// Receiver.
        to: Target,
        /// True if the other direction is blocked too.
        both: bool,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node is cut off from all others.
    Isolate {
        /// The node.
        node: Target,
        /// True if its own messages are blocked.
        says: bool,
        /// True if messages to it are blocked.
        hears: bool,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The leading node reaches neither the other candidates nor the store for a while. Another node leads
    /// beside it, and workers and clients hear both.
    Usurp {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node dies; a leader or worker starts again.
    Crash {
        /// The node.
        node: Target,
        /// True if the broker tells the others that its connection was closed.
        told: bool,
        /// Time until it starts again.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node gets no events for a while, then all at once.
    Pause {
        /// The node.
        node: Target,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node's timers stand still for a while; it gets everything else.
    Stall {
        /// The node.
        node: Target,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node's connection is lost and restored.
    Cut {
        /// The node.
        node: Target,
        /// True if the broker tells the others that its connection was closed.
        told: bool,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The broker is away for a while.
    BrokerAway {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
        /// Number of acknowledged writes that it lost.
        lost: u32,
    },
    /// The store does not answer for a while, though the bus is there.
    StoreAway {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The store loses acknowledged writes without being away: it gives out revisions again, and perhaps an
    /// epoch.
    StoreForgets {
        /// Number of lost writes.
        lost: u32,
    },
    /// The lease's bucket is deleted.
    LeaseDeleted,
    /// The record is full: appends are refused.
    RecordFull {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// Writes are slow.
    StoreSlow {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
        /// Additional time of each write.
        #[serde(with = "sim_cluster::time_text")]
        by: Nanos,
    },
    /// The store's disk takes nothing: writes are refused, except for the lease, which is kept in memory.
    StoreRefuses {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// Writes are lost, or carried out with their answer lost.
    WritesLost {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The bucket with placement and profile is deleted.
    StateDeleted,
    /// A node handles each input late, as on a starved machine: messages, timers, answers of the store and
    /// news of connections. It continues to work.
    SlowNode {
        /// The node.
        node: Target,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
        /// Maximum delay of an input.
        #[serde(with = "sim_cluster::time_text")]
        by: Nanos,
    },
    /// A tenant says anything that its login allows, for sessions, workers and connections that it guesses,
    /// and connects under any name.
    Hostile {
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A leader hands over, or a worker finishes its accepted grants, and ends (SIGTERM).
    Leave {
        /// The node.
        node: Target,
    },
    /// An administrator drains a worker, and undoes that. This is no fault, but it comes between all
    /// others.
    Drain {
        /// The worker.
        node: Target,
        /// Duration.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
}

/// A fault and its time. It strikes before all other events of that time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Strike {
    /// Time of the fault.
    #[serde(with = "sim_cluster::time_text")]
    pub at: Nanos,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

impl Fault {
    /// Duration of the fault.
    #[must_use]
    pub(crate) fn time(mut self) -> Nanos {
        self.time_mut().map_or(0, |time| *time)
    }

    /// Duration of the fault, if it has one.
    fn time_mut(&mut self) -> Option<&mut Nanos> {
        match self {
            Self::Block { time, .. }
            | Self::Isolate { time, .. }
            | Self::Usurp { time }
            | Self::Crash { time, .. }
            | Self::Pause { time, .. }
            | Self::Stall { time, .. }
            | Self::Cut { time, .. }
            | Self::Next { time, .. }
            | Self::Drain { time, .. }
            | Self::SlowNode { time, .. }
            | Self::Hostile { time }
            | Self::StoreAway { time }
            | Self::RecordFull { time }
            | Self::StoreSlow { time, .. }
            | Self::StoreRefuses { time }
            | Self::WritesLost { time }
            | Self::BrokerAway { time, .. } => Some(time),
            Self::Weather(_)
            | Self::StoreForgets { .. }
            | Self::LeaseDeleted
            | Self::StateDeleted
            | Self::Leave { .. } => None,
        }
    }

    /// Names of the fault in the coverage, and true if it hits all nodes. There are no names if it is
    /// counted message by message.
    #[must_use]
    pub(crate) fn names(&self) -> (&'static [&'static str], bool) {
        match self {
            Self::Weather(_) | Self::Next { .. } => (&[], false),
            Self::Block { .. } | Self::Isolate { .. } => (&["partition"], false),
            Self::Usurp { .. } => (&["usurped"], true),
            Self::Crash { .. } => (&["crash"], false),
            Self::Pause { .. } => (&["pause"], false),
            Self::Stall { .. } => (&["stall"], false),
            Self::Cut { .. } => (&["cut"], false),
            Self::Leave { .. } => (&["leave"], false),
            Self::BrokerAway { lost: 0, .. } => (&["broker"], true),
            Self::BrokerAway { .. } => (&["broker", "tail lost"], true),
            Self::StoreAway { .. } => (&["store"], true),
            Self::StoreForgets { .. } => (&["tail lost"], true),
            Self::LeaseDeleted => (&["lease"], true),
            Self::RecordFull { .. } => (&["full"], true),
            Self::StoreSlow { .. } => (&["slow"], true),
            Self::StoreRefuses { .. } => (&["refused"], true),
            Self::WritesLost { .. } => (&["writes lost"], true),
            Self::StateDeleted => (&["state"], true),
            Self::Drain { .. } => (&["drain"], false),
            Self::SlowNode { .. } => (&["slow node"], false),
            Self::Hostile { .. } => (&["hostile"], true),
        }
    }

    /// The same fault with a shorter duration; `None` if it has none or cannot be shorter.
    #[must_use]
    pub(crate) fn shorter(mut self) -> Option<Self> {
        let time = self.time_mut()?;
        *time = *time / 2 / MILLI * MILLI;
        (*time > 0).then_some(self)
    }

    /// Nodes that the fault names.
    #[must_use]
    pub(crate) fn targets(&self) -> Vec<Target> {
        match *self {
            Self::Block { from, to, .. } => vec![from, to],
            Self::Next { node, .. }
            | Self::Isolate { node, .. }
            | Self::Crash { node, .. }
            | Self::Pause { node, .. }
            | Self::Stall { node, .. }
            | Self::Cut { node, .. }
            | Self::Drain { node, .. }
            | Self::SlowNode { node, .. }
            | Self::Leave { node } => vec![node],
            Self::Usurp { .. } => vec![Target::Leading],
            _ => Vec::new(),
        }
    }
}
