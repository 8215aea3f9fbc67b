//! Checks that Warploom's own driver fails, each with the reason.

/// A worker's memory has one address.
const MAPPED_ONCE: &str = "memory of cuMemCreate is made where it is mapped first, and lives there alone until it is unmapped";

/// Name of the check, and why it fails.
pub(super) const ALL: &[(&str, &str)] = &[
    (
        "cuMemMap: two places of one piece are the same bytes",
        MAPPED_ONCE,
    ),
    (
        "cuMemUnmap: bytes stay while the handle is there, and are found where it is mapped again",
        MAPPED_ONCE,
    ),
    (
        "cuMipmappedArrayGetLevel: each level is half of the one before",
        "arrays have one level; more are refused",
    ),
];
