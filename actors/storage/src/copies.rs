//! The copies of streams and buckets, and the servers that have them.

use super::store::Storage;
use super::table::Stored;

/// The copies of a stream or bucket on the servers of a broker that is a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copies {
    /// The stream or bucket.
    pub stored: Stored,
    /// Required number of copies.
    pub wanted: usize,
    /// The server that accepts writes; `None` during an election.
    pub leader: Option<String>,
    /// The servers with the other copies.
    pub followers: Vec<Copy>,
}

/// One server's copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// The server.
    pub server: String,
    /// True if it has all that the leader has, and was seen lately.
    pub in_step: bool,
    /// Number of messages that it lacks.
    pub lag: u64,
}

impl Copies {
    /// True if any one server may be lost without a loss of data.
    #[must_use]
    pub fn are_in_step(&self) -> bool {
        let there = self.followers.iter().filter(|copy| copy.in_step).count();
        self.leader.is_some() && there + 1 >= self.wanted
    }
}

impl Storage {
    /// Returns the copies of a stream or bucket; `None` if the broker is a single server.
    ///
    /// # Errors
    /// The reason that they cannot be determined.
    pub async fn copies_of(&self, stored: Stored) -> Result<Option<Copies>, String> {
        let stream = self.jetstream.get_stream(self.stream_name(stored)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let info = stream.cached_info();
        let Some(cluster) = &info.cluster else {
            return Ok(None);
        };
        let followers = cluster.replicas.iter().map(|peer| {
            let lag = peer.lag.unwrap_or(0);
            Copy {
                server: peer.name.clone(),
                in_step: peer.current && !peer.offline && lag == 0,
                lag,
            }
        });
        Ok(Some(Copies {
            stored,
            wanted: self.copies(Some(info.config.num_replicas)),
            leader: cluster.leader.clone(),
            followers: followers.collect(),
        }))
    }
}
