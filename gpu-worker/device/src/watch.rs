//! The watch over an image while it is prepared.

use std::fmt;

/// The reason for which the preparation of an image is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// No session needs it any more, or the worker leaves.
    Unwanted,
    /// It took as much processor time as one image may, in seconds.
    Seconds(u64),
    /// It took as much memory as one image may, in bytes.
    Bytes(u64),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwanted => f.write_str("no session wants the module any more"),
            Self::Seconds(most) => {
                write!(
                    f,
                    "the module takes more than {most} s of processor time to prepare"
                )
            }
            Self::Bytes(most) => write!(f, "the module takes more than {most} bytes to prepare"),
        }
    }
}

/// A watch over the preparation of an image, which is called every few microseconds.
pub trait Watch: Sync {
    /// Notes that the preparation holds `bytes` more, and decides if it continues.
    ///
    /// # Errors
    /// The reason to give it up.
    fn goes_on(&self, bytes: u64) -> Result<(), Halt>;
}

/// A watch that lets everything continue.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn goes_on(&self, _: u64) -> Result<(), Halt> {
        Ok(())
    }
}
