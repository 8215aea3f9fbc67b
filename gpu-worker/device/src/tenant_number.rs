//! Tenants, as a device tells them apart.

/// A tenant of a worker, by a number that the worker gave it. What a device has few of is divided by tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantNumber(pub u64);
