//! Domains of sessions that may share memory.

/// A set of sessions that may share memory with one another. A session always reads its own bytes. But times
/// and charges can show that other sessions hold the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharingDomain(pub u64);
