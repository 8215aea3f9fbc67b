//! Faults: what can go wrong.

pub(crate) mod schedule;

use serde::{Deserialize, Serialize};

use sim_cluster::{Lossy, MILLI, Mishap, Nanos, Random};

/// Inputs that are late by no more than this cost no leader and no worker its place.
pub(crate) const PATIENCE: Nanos = 400 * MILLI;

/// The kinds of trouble a run may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Troubles {
    /// Messages are lost, doubled, delayed, overtaken.
    pub weather: bool,
    /// Links between nodes stop, each direction by itself.
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
    /// An administrator drains workers, and undoes it: nobody's work suffers by that.
    pub drains: bool,
    /// The store is there, and full, slow or refusing, or loses what is written or a bucket.
    pub stores: bool,
    /// Nodes handle each of their inputs late, as on a starved machine.
    pub slowness: bool,
    /// A tenant says whatever its login allows, and connects under any name: no other tenant's work suffers
    /// by that.
    pub hostile: bool,
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
        drains: false,
        stores: false,
        slowness: false,
        hostile: false,
    };

    /// A mixture: one run in eight has none, the others each kind with even chance. Drains,
    /// stores, slowness and the hostile tenant are drawn apart.
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

    /// Whether there are none.
    #[must_use]
    pub fn none(self) -> bool {
        self == Self::NONE
    }

    /// Whether there are none that anybody's work may suffer by.
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

    /// Whether there are none that any leader or worker may be lost by, if no delay is too long.
    #[must_use]
    pub(crate) fn patient(self) -> bool {
        let slowness = false;
        Self { slowness, ..self }.harmless()
    }

    /// Whether leaders always reach the store, and read it in time.
    #[must_use]
    pub(crate) fn keeps_store(self) -> bool {
        let crashes = false;
        Self { crashes, ..self }.harmless()
    }

    /// The kinds that these faults are of.
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

/// Which node a fault meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Target {
    /// Whoever leads then.
    Leading,
    /// A leader candidate.
    Leader(u32),
    /// A worker.
    Worker(u32),
    /// A client.
    Client(u32),
}

/// One trouble.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// The links behave like this from now on.
    Weather(Lossy),
    /// The next message or answer of the store to a node.
    Next {
        /// The node.
        node: Target,
        /// What becomes of it.
        what: Mishap,
        /// By how much it comes late.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// Messages from one node to the other are lost for a while.
    Block {
        /// From.
        from: Target,
        /// To.
        to: Target,
        /// Whether the other direction is blocked too.
        both: bool,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node cannot reach, or hear, any other.
    Isolate {
        /// The node.
        node: Target,
        /// Blocked: what it says.
        says: bool,
        /// Blocked: what it hears.
        hears: bool,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// Whoever leads reaches neither the other candidates nor the store for a while: another leads
    /// beside it, and workers and clients hear both.
    Usurp {
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node dies; a leader or worker starts again.
    Crash {
        /// The node.
        node: Target,
        /// Whether the broker tells the others that its connection was closed.
        told: bool,
        /// Until it starts again.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node gets no events for a while, then all at once.
    Pause {
        /// The node.
        node: Target,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node's timers stand still for a while; it gets everything else.
    Stall {
        /// The node.
        node: Target,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A node's connection is lost and restored.
    Cut {
        /// The node.
        node: Target,
        /// Whether the broker tells the others that its connection was closed.
        told: bool,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The broker is away for a while.
    BrokerAway {
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
        /// Acknowledged writes it lost.
        lost: u32,
    },
    /// The store does not answer for a while, though the bus is there.
    StoreAway {
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The store loses acknowledged writes without being away: revisions, and perhaps an epoch,
    /// are given out again.
    StoreForgets {
        /// How many.
        lost: u32,
    },
    /// The lease's bucket is deleted.
    LeaseDeleted,
    /// The record is full: what is appended is refused.
    RecordFull {
        /// Until there is room.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// Writes take long.
    StoreSlow {
        /// For how long they do.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
        /// How much longer each takes.
        #[serde(with = "sim_cluster::time_text")]
        by: Nanos,
    },
    /// The store's disk takes nothing: what is written is refused, but for the lease, which is kept in
    /// memory.
    StoreRefuses {
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// What is written is lost, or carried out and its answer lost.
    WritesLost {
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// The bucket with placement and profile is deleted.
    StateDeleted,
    /// A node handles each input late, as on a starved machine: messages, timers, answers of the store
    /// and news of connections. It goes on working.
    SlowNode {
        /// The node.
        node: Target,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
        /// By how much each input is late at most.
        #[serde(with = "sim_cluster::time_text")]
        by: Nanos,
    },
    /// A tenant says whatever its login allows, for sessions, workers and connections that it guesses, and
    /// connects under any name.
    Hostile {
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
    /// A leader hands over, or a worker finishes what it accepted, and ends (SIGTERM).
    Leave {
        /// The node.
        node: Target,
    },
    /// An administrator drains a worker, and undoes it: no fault, but it comes between all others.
    Drain {
        /// The worker.
        node: Target,
        /// For how long.
        #[serde(with = "sim_cluster::time_text")]
        time: Nanos,
    },
}

/// A fault and when it strikes: before anything else that happens at that time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Strike {
    /// When.
    #[serde(with = "sim_cluster::time_text")]
    pub at: Nanos,
    /// What.
    #[serde(flatten)]
    pub fault: Fault,
}

impl Fault {
    /// How long it lasts.
    #[must_use]
    pub(crate) fn time(mut self) -> Nanos {
        self.time_mut().map_or(0, |time| *time)
    }

    /// How long it lasts, if it does.
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

    /// What it is called where states that faults met are counted, and whether it meets everybody.
    /// None for what is counted message by message.
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

    /// The same, shorter; none where it has no length or is as short as can be.
    #[must_use]
    pub(crate) fn shorter(mut self) -> Option<Self> {
        let time = self.time_mut()?;
        *time = *time / 2 / MILLI * MILLI;
        (*time > 0).then_some(self)
    }

    /// The nodes it names.
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
