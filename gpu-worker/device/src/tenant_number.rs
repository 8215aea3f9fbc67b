//! The numbers by which a device distinguishes tenants.

/// A tenant of a worker, by a number from the worker. A device's scarce resources are divided by tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantNumber(pub u64);
