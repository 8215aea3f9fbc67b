//! What the naive view remembers of tenants with a target.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, SessionId, Tenant};

/// What the naive view remembers of an epoch.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// What each tenant's requests were charged on each worker, in the order they were announced.
    pub(super) requests: BTreeMap<(Incarnation, Tenant), Vec<u64>>,
    /// What each session was charged since its last sync.
    pub(super) open: BTreeMap<SessionId, u64>,
    /// Ticks each tenant is still active.
    pub(super) left: BTreeMap<(Incarnation, Tenant), u32>,
    /// Ticks so far, and at each tenant's last grant.
    pub(super) ticks: u32,
    pub(super) granted: BTreeMap<(Incarnation, Tenant), u32>,
}
