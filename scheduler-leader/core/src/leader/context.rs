//! The context of a term: all that it is given with each event.

use bus_schemas::StoreStatus;

use super::config::Config;
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
    /// How late heartbeats and timers are.
    pub(super) lateness: &'c Lateness,
    /// What is kept in the broker.
    pub(super) stores: &'c [StoreStatus],
    pub(super) actions: &'c mut Vec<Action>,
}
