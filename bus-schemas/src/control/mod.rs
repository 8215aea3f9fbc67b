//! The control plane: opening and closing of sessions, members and their heartbeats, placement,
//! settings and the cluster's status.

pub(crate) mod allowance;
pub(crate) mod devices;
pub(crate) mod drain;
pub(crate) mod ipc;
pub(crate) mod liveness;
pub(crate) mod memory;
pub(crate) mod memory_status;
pub(crate) mod opening;
pub(crate) mod placement;
pub(crate) mod process;
pub(crate) mod properties;
pub(crate) mod quota;
pub(crate) mod residency;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod target;
