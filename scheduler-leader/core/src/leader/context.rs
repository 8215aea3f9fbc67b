//! The context of a term: all that it is given with each event.

use bus_schemas::StoreStatus;

use super::config::{Config, Servers};
use super::event::Action;
use super::lateness::Lateness;
use super::members::Members;
use crate::time::Nanos;

/// What every step of a term needs.
pub(super) struct Context<'c> {
    pub(super) now: Nanos,
    pub(super) config: &'c Config,
    pub(super) members: &'c mut Members,
    /// Since when our connection is up, and known not to be one with a server that is cut off.
    pub(super) connected_at: Nanos,
    /// Since when the lease cannot be written, if it cannot.
    pub(super) unstored_at: Option<Nanos>,
    /// How late heartbeats and timers are.
    pub(super) lateness: &'c Lateness,
    /// What is kept in the broker.
    pub(super) stores: &'c [StoreStatus],
    pub(super) actions: &'c mut Vec<Action>,
}

impl Context<'_> {
    /// Whether we have listened for long enough to tell a silent peer from one that looks for us.
    pub(super) fn is_listening(&self) -> bool {
        self.now >= self.connected_at.saturating_add(self.config.grace)
    }

    /// Whether we, and not a server that stored, are what is missing.
    pub(super) fn is_cut_off(&self, servers: &Servers) -> bool {
        let since = self.unstored_at;
        since.is_some_and(|since| self.now >= since.saturating_add(servers.choice))
    }
}
