//! Time, as the shells hand it in.

/// Monotonic nanoseconds, handed in by the shell.
pub type Nanos = u64;
