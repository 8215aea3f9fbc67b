//! Roles.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A role.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// Reads everything except logins.
    Viewer,
    /// Reads one tenant, ends its sessions, renews its login.
    TenantAdmin,
    /// Does everything.
    Operator,
    /// Reads everything, verifies and exports the order.
    Auditor,
}

impl Role {
    /// All roles.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [
        Self::Viewer,
        Self::TenantAdmin,
        Self::Operator,
        Self::Auditor,
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::TenantAdmin => "tenant-admin",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
        }
    }
}
