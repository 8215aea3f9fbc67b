//! Every duration and bound of the leader's protocol in one place.

use bus_schemas::Tenant;

use super::lateness::Lateness;
use crate::time::Nanos;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// The configuration of the leader's protocol. All durations in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderConfig {
    /// The cluster's name.
    pub cluster: Tenant,
    /// Zero of the leader's clock, nanoseconds since 1970, by its host's clock at that time.
    /// Recorded arrival times of inputs include it, so that the times of two leaders can be
    /// compared.
    pub clock_zero: Nanos,
    /// True if programs report their requests: their sessions are told so.
    pub traced: bool,
    /// Time between two heartbeats of the leader.
    pub beat: Nanos,
    /// Silence after which a leader is dead, if nothing is late.
    pub silence: Nanos,
    /// Maximum of that silence if heartbeats or timers are late.
    pub silence_most: Nanos,
    /// Time between two renewals of the lease. The shell sets its TTL, 2 s.
    pub renew: Nanos,
    /// Delay before a failed lease operation is retried.
    pub lease_retry: Nanos,
    /// Delay before a seal without an answer is sent again.
    pub seal_retry: Nanos,
    /// Delay before unaccepted grants are sent again.
    pub order_retry: Nanos,
    /// Time for which an order without grants (the recorded inputs, the received reports) waits for
    /// one with grants.
    pub order_linger: Nanos,
    /// Time between two heartbeats of a worker.
    pub worker_beat: Nanos,
    /// Silence after which a worker is lost, if nothing is late.
    pub worker_silence: Nanos,
    /// Maximum of that silence if heartbeats or timers are late.
    pub worker_silence_most: Nanos,
    /// Silence after which a worker is lost if a later start of its device is heard. The later
    /// start is the proof, so lateness does not lengthen this time.
    pub worker_replaced: Nanos,
    /// Time after the bus came back in which no worker is declared lost and no session expires.
    pub grace: Nanos,
    /// Pause after which a leader or candidate counts as having stood still. It heard no peer in
    /// that time, which does not count as a peer's silence.
    pub stall: Nanos,
    /// Time within which a worker must be heard if its connection was closed while no leader led;
    /// else it is lost.
    pub worker_back: Nanos,
    /// Time for which a lost worker is missed, unless its device is served before.
    pub missed: Nanos,
    /// Time that a session lives after its client's connection was closed.
    pub connection_lost: Nanos,
    /// Time that a session lives without a sign of its client.
    pub expiry: Nanos,
    /// Maximum time that an open request waits for a worker.
    pub open_wait: Nanos,
    /// Minimum time between two reports of a worker's holdings.
    pub report: Nanos,
    /// Minimum time between two profile versions.
    pub learn: Nanos,
    /// Age of its first input at which a record block is sent.
    pub record_linger: Nanos,
    /// Maximum bytes of the record that are not yet acknowledged, unless the cluster's settings
    /// allow fewer. Above it inputs go unrecorded and a gap is named.
    pub record_bytes: usize,
    /// Time for which a leader told to leave waits for workers that are about to leave, to record
    /// that they did.
    pub farewell: Nanos,
    /// Time for which a leader told to leave then waits for its record.
    pub leave: Nanos,
    /// Changes for a broker that is a cluster of servers.
    pub cluster_of: Option<Servers>,
}

/// Changes for a broker of several servers. The client of a closed connection may have gone to
/// another server, and a server may be cut off together with its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// Time within which a worker must be heard after its connection was closed; else it is lost.
    pub worker_moves: Nanos,
    /// Maximum of that time if heartbeats or timers are late.
    pub worker_moves_most: Nanos,
    /// Like `worker_moves`, for a connection that was closed in doubtful time: before the
    /// candidate's own connection came back and the lease could be written again, or within `grace`
    /// of that.
    pub doubtful_moves: Nanos,
    /// Maximum of that time if heartbeats or timers are late.
    pub doubtful_moves_most: Nanos,
    /// Time within which servers elect the ones that store. A leader that cannot write the lease
    /// for longer is cut off, and hears no worker that lives elsewhere.
    pub choice: Nanos,
    /// Time within which a leader must be heard after its connection was closed; else it is gone.
    pub leader_moves: Nanos,
    /// Maximum of that time if heartbeats or timers are late.
    pub leader_moves_most: Nanos,
    /// Time for which messages of a closed connection may still arrive: they are no sign that its
    /// owner lives.
    pub on_the_way: Nanos,
    /// Time between two heartbeats of the leader to the clients of a tenant. They show the clients
    /// that their server is not cut off.
    pub tenant_beat: Nanos,
}

impl Servers {
    /// Maximum silence of a worker with a closed connection, in certain or in doubtful time.
    pub(super) fn moves(&self, certain: bool, now: Nanos, lateness: &Lateness) -> Nanos {
        let (base, most) = match certain {
            true => (self.worker_moves, self.worker_moves_most),
            false => (self.doubtful_moves, self.doubtful_moves_most),
        };
        lateness.patience(now, base, most)
    }
}

impl LeaderConfig {
    /// The defaults of `ARCHITECTURE.md`, for a cluster.
    #[must_use]
    pub fn new(cluster: Tenant) -> Self {
        Self {
            cluster,
            clock_zero: 0,
            traced: false,
            beat: 25 * MS,
            silence: 300 * MS,
            silence_most: 3 * SECOND,
            renew: 500 * MS,
            lease_retry: 50 * MS,
            seal_retry: 20 * MS,
            order_retry: 5 * MS,
            order_linger: 2 * MS,
            worker_beat: 100 * MS,
            worker_silence: 3 * SECOND,
            worker_silence_most: 12 * SECOND,
            worker_replaced: 1_500 * MS,
            grace: 3 * SECOND,
            stall: 500 * MS,
            worker_back: 300 * MS,
            missed: 3_600 * SECOND,
            connection_lost: 10 * SECOND,
            expiry: 60 * SECOND,
            open_wait: 3 * SECOND,
            report: SECOND,
            learn: SECOND,
            record_linger: 20 * MS,
            record_bytes: usize::MAX,
            farewell: 2 * SECOND,
            leave: 2 * SECOND,
            cluster_of: None,
        }
    }

    /// The configuration for a candidate that hears the broker's events. A killed leader is known
    /// to be dead by its closed connection. So silence alone means a host that stands still or is
    /// cut off, which may take a moment longer to be sure of.
    #[must_use]
    pub fn with_events(self) -> Self {
        Self {
            silence: self.silence.max(SECOND),
            ..self
        }
    }

    /// The configuration for a broker that is a cluster of servers. A client of a server that
    /// stands still or is cut off takes seconds to notice and to go to another. For up to nine
    /// seconds nothing can be stored. A worker that is cut off together with the leader takes
    /// longest: the leader notices within 5 s. The worker, which hears the leader until then,
    /// notices within 4 s more.
    #[must_use]
    pub fn on_servers(self) -> Self {
        Self {
            worker_silence: 12 * SECOND,
            worker_silence_most: 24 * SECOND,
            connection_lost: 20 * SECOND,
            leave: 12 * SECOND,
            cluster_of: Some(Servers {
                worker_moves: 1_500 * MS,
                worker_moves_most: 3 * SECOND,
                doubtful_moves: 3 * SECOND,
                doubtful_moves_most: 4 * SECOND,
                choice: 12 * SECOND,
                leader_moves: 150 * MS,
                leader_moves_most: SECOND,
                on_the_way: 250 * MS,
                tenant_beat: SECOND,
            }),
            ..self
        }
    }
}
