//! Every duration and bound of the leader's protocol in one place.

use bus_schemas::Tenant;

use super::lateness::Lateness;
use crate::time::Nanos;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// The configuration of the leader's protocol. All durations in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The cluster's name.
    pub cluster: Tenant,
    /// When the zero of the leader's clock was, nanoseconds since 1970, as its host knew then: when inputs
    /// came is recorded by it, so that the times of two leaders can be put on one line.
    pub clock_zero: Nanos,
    /// Between two heartbeats of the leader.
    pub beat: Nanos,
    /// A leader not heard from for so long is dead, where nothing is late.
    pub silence: Nanos,
    /// The same where heartbeats or timers are late: at most.
    pub silence_most: Nanos,
    /// Between two renewals of the lease. Its TTL, 2 s, is the shell's.
    pub renew: Nanos,
    /// Before a lease operation that failed is tried again.
    pub lease_retry: Nanos,
    /// Before a seal without an answer is sent again.
    pub seal_retry: Nanos,
    /// Before unaccepted grants are sent again.
    pub order_retry: Nanos,
    /// An order without grants (what is recorded, which reports are here) waits so long for one
    /// with grants.
    pub order_linger: Nanos,
    /// Between two heartbeats of a worker.
    pub worker_beat: Nanos,
    /// A worker not heard from for so long is lost, where nothing is late.
    pub worker_silence: Nanos,
    /// The same where heartbeats or timers are late: at most.
    pub worker_silence_most: Nanos,
    /// A worker not heard from for so long is lost where a later start of its device is heard.
    /// The later start is the proof, so lateness does not lengthen this time.
    pub worker_replaced: Nanos,
    /// After the bus came back, nobody is declared lost or expired for so long.
    pub grace: Nanos,
    /// A leader or candidate that itself stood still for so long heard no peer meanwhile: that time does not
    /// count as a peer's silence.
    pub stall: Nanos,
    /// A worker whose connection was closed while no leader led is lost unless it is heard within this.
    pub worker_back: Nanos,
    /// A session lives so long after its client's connection closed.
    pub connection_lost: Nanos,
    /// A session lives so long without a sign of its client.
    pub expiry: Nanos,
    /// An open request waits so long for a worker.
    pub open_wait: Nanos,
    /// Between two reports of what a worker holds at least.
    pub report: Nanos,
    /// Between two profile versions at least.
    pub learn: Nanos,
    /// A record block is sent when its first input is so old.
    pub record_linger: Nanos,
    /// Bytes of record not yet acknowledged at most, where the cluster is not set to fewer; above it
    /// inputs go unrecorded and a gap is named.
    pub record_bytes: usize,
    /// A leader told to leave waits so long for workers that are about to leave, to record that they did.
    pub farewell: Nanos,
    /// A leader told to leave waits so long for its record, then.
    pub leave: Nanos,
    /// Where the broker is a cluster of servers, what that changes.
    pub cluster_of: Option<Servers>,
}

/// What a broker of several servers changes: a connection that is closed may have gone to another
/// server, and a server may be cut off from the others with who is connected to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    /// A worker whose connection was closed is lost unless it is heard within this.
    pub worker_moves: Nanos,
    /// The same where heartbeats or timers are late: at most.
    pub worker_moves_most: Nanos,
    /// The same of a connection that was closed in doubtful time: before the candidate's own connection
    /// came back and the lease could be written again, or within `grace` of that.
    pub doubtful_moves: Nanos,
    /// The same where heartbeats or timers are late: at most.
    pub doubtful_moves_most: Nanos,
    /// Servers choose anew within this which of them stores. A leader that cannot write the lease for
    /// longer is cut off, and hears no worker that lives elsewhere.
    pub choice: Nanos,
    /// A leader whose connection was closed is gone unless it is heard within this.
    pub leader_moves: Nanos,
    /// The same where heartbeats or timers are late: at most.
    pub leader_moves_most: Nanos,
    /// What a closed connection had on its way may be heard so much later: it is no sign that its
    /// owner lives.
    pub on_the_way: Nanos,
    /// Between two heartbeats of the leader to the clients of a tenant: by these they know that
    /// their server is not cut off.
    pub tenant_beat: Nanos,
}

impl Servers {
    /// How long a worker may be unheard whose connection was closed, in certain or in doubtful time.
    pub(super) fn moves(&self, certain: bool, now: Nanos, lateness: &Lateness) -> Nanos {
        let (base, most) = match certain {
            true => (self.worker_moves, self.worker_moves_most),
            false => (self.doubtful_moves, self.doubtful_moves_most),
        };
        lateness.patience(now, base, most)
    }
}

impl Config {
    /// The defaults of `ARCHITECTURE.md`, for a cluster.
    #[must_use]
    pub fn new(cluster: Tenant) -> Self {
        Self {
            cluster,
            clock_zero: 0,
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

    /// The same for a candidate that hears the broker's events. A leader that is killed is known to be
    /// dead by its closed connection, so silence alone means a host that stands still or is cut off:
    /// that may take a moment longer to be sure of.
    #[must_use]
    pub fn with_events(self) -> Self {
        Self {
            silence: self.silence.max(SECOND),
            ..self
        }
    }

    /// The same for a broker that is a cluster of servers. Who is connected to a server that stands
    /// still or is cut off takes seconds to notice and go to another, and for up to nine seconds
    /// nothing can be stored. A worker that is cut off together with the leader takes longest: the
    /// leader notices within 5 s, the worker, which hears it until then, within 4 s more.
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
