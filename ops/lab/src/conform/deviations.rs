//! Checks that Warploom's own driver fails, each with the reason.

/// Name of each check, and the reason why it fails.
pub(super) const ALL: &[(&str, &str)] = &[(
    "cuMipmappedArrayGetLevel: each level is half of the one before",
    "arrays have one level; more are refused",
)];
