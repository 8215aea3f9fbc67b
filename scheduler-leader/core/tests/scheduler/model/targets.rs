//! The naive view's record of tenants with a target.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, SessionId, Tenant};

/// The naive view's record of an epoch.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// Charges of each tenant's requests on each worker, in the order of their announcement.
    pub(super) requests: BTreeMap<(Incarnation, Tenant), Vec<u64>>,
    /// Charge of each session since its last sync.
    pub(super) open: BTreeMap<SessionId, u64>,
    /// Ticks for which each tenant is still active.
    pub(super) left: BTreeMap<(Incarnation, Tenant), u32>,
    /// Ticks so far, and at each tenant's last grant.
    pub(super) ticks: u32,
    pub(super) granted: BTreeMap<(Incarnation, Tenant), u32>,
}
