//! The operations, one module for each kind of resource.

pub(crate) mod cluster;
pub(crate) mod document;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod groups;
pub(crate) mod identity;
pub(crate) mod metrics;
pub(crate) mod order;
pub(crate) mod profiles;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod why;
pub(crate) mod workers;
