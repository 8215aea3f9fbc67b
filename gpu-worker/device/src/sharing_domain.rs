//! Who shares with whom.

/// Sessions that may share memory with one another: those of one domain. What a session reads is its
/// own bytes in any case; whether others hold the same can be learnt from time and charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharingDomain(pub u64);
