//! The context of a term, passed to it with each event.

use bus_schemas::StoreStatus;

use super::config::{LeaderConfig, Servers};
use super::event::Action;
use super::lateness::Lateness;
use super::members::Members;
use crate::time::Nanos;

/// The data that every step of a term needs.
pub(super) struct Context<'c> {
    pub(super) now: Nanos,
    pub(super) config: &'c LeaderConfig,
    pub(super) members: &'c mut Members,
    /// Time since which our connection is up, and known not to be with a cut-off server.
    pub(super) connected_at: Nanos,
    /// Time since which the lease cannot be written, if it cannot.
    pub(super) unstored_at: Option<Nanos>,
    /// Lateness of heartbeats and timers.
    pub(super) lateness: &'c Lateness,
    /// Status of the streams and buckets in the broker.
    pub(super) stores: &'c [StoreStatus],
    pub(super) actions: &'c mut Vec<Action>,
}

impl Context<'_> {
    /// Returns true if we have listened long enough to tell a silent peer from one that looks for
    /// us.
    pub(super) fn is_listening(&self) -> bool {
        self.now >= self.connected_at.saturating_add(self.config.grace)
    }

    /// Returns true if we are cut off, rather than a server that stored having failed.
    pub(super) fn is_cut_off(&self, servers: &Servers) -> bool {
        let since = self.unstored_at;
        since.is_some_and(|since| self.now >= since.saturating_add(servers.choice))
    }
}
