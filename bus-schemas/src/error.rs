//! Stable error codes. `docs/reference/errors.md` lists each with its meaning and remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::text;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $cuda:literal, $retry:literal;)*) => {
        /// A stable error code: the number on the wire, the text for people, and the CUDA driver
        /// error that a CUDA program sees.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name),* }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on the wire.
            #[must_use]
            pub fn number(self) -> u16 { match self { $(Self::$name => $number),* } }

            /// The name in messages and in `docs/reference/errors.md`.
            #[must_use]
            pub fn name(self) -> &'static str { match self { $(Self::$name => $text),* } }

            /// The `CUresult` a CUDA program sees.
            #[must_use]
            pub fn cuda(self) -> u32 { match self { $(Self::$name => $cuda),* } }

            /// True if the same request may succeed later.
            #[must_use]
            pub fn retryable(self) -> bool { match self { $(Self::$name => $retry),* } }

            /// True if there is no place for a session now. A place may appear with a new worker,
            /// or when other sessions end.
            #[must_use]
            pub fn is_placement(self) -> bool {
                let numbers = Self::NoWorker.number()..=Self::TooFewWorkers.number();
                numbers.contains(&self.number())
            }

            /// Returns the code of a number; an unknown one (from a newer peer) is
            /// [`Code::Unknown`].
            #[must_use]
            pub fn from_number(number: u16) -> Self {
                match number { $($number => Self::$name,)* _ => Self::Unknown }
            }
        }
    };
}

codes! {
    /// An error without a name in this version.
    Unknown = 0, "E-UNKNOWN", 999, false;
    /// The message could not be decoded.
    Malformed = 1, "E-BUS-MALFORMED", 1, false;
    /// The message is of a newer wire version.
    Version = 2, "E-BUS-VERSION", 803, false;
    /// No leader answered.
    NoLeader = 3, "E-CLUSTER-NO-LEADER", 46, true;
    /// No worker can take the session.
    NoWorker = 4, "E-CLUSTER-NO-WORKER", 46, true;
    /// No worker of a group that the tenant may use exists.
    NoGroup = 5, "E-CLUSTER-GROUP", 46, true;
    /// Other tenants occupy the workers of an exclusive group.
    Occupied = 6, "E-CLUSTER-OCCUPIED", 46, true;
    /// All of the workers' memory is held.
    MemoryFull = 7, "E-CLUSTER-MEMORY", 46, true;
    /// The workers have no address window left.
    NoAddresses = 8, "E-CLUSTER-ADDRESSES", 46, true;
    /// Fewer workers can take the sessions than the number of requested devices.
    TooFewWorkers = 9, "E-CLUSTER-DEVICES", 46, true;
    /// The tenant does not exist.
    UnknownTenant = 10, "E-TENANT-UNKNOWN", 100, false;
    /// The tenant may not open another session.
    SessionLimit = 11, "E-TENANT-SESSIONS", 46, true;
    /// The settings are not acceptable.
    BadSettings = 12, "E-TENANT-SETTINGS", 1, false;
    /// The tenant's sessions use all the device addresses that it may have on a worker.
    AddressLimit = 14, "E-TENANT-ADDRESSES", 2, true;
    /// The images of the tenant's sessions use all the memory that they may on a worker.
    ModuleShare = 15, "E-TENANT-MODULES", 2, true;
    /// The tenant's sessions have staged all that they may on a worker.
    StagedShare = 16, "E-TENANT-STAGED", 2, true;
    /// The tenant is suspended and gets no sessions.
    Suspended = 17, "E-TENANT-SUSPENDED", 46, true;
    /// The broker was not reached within the client's deadline.
    NoBroker = 13, "E-CLUSTER-NO-BROKER", 46, true;
    /// The session has ended or never existed.
    SessionGone = 20, "E-SESSION-GONE", 201, false;
    /// The worker or its device is gone, and the session with it.
    DeviceLost = 21, "E-DEVICE-LOST", 46, false;
    /// A message that a correct client does not send (op gap, wrong kernel key, bad size).
    Protocol = 22, "E-SESSION-PROTOCOL", 1, false;
    /// The client was silent for too long.
    Expired = 23, "E-SESSION-EXPIRED", 201, false;
    /// An administrator, or the `run` command that owns the session, ended it.
    Killed = 24, "E-SESSION-KILLED", 201, false;
    /// The session's worker did not answer within the client's deadline.
    Unanswered = 25, "E-DEVICE-UNREACHABLE", 46, false;
    /// Allocation above the tenant's quota.
    Quota = 30, "E-MEMORY-QUOTA", 2, false;
    /// Allocation above the device's capacity.
    OutOfMemory = 31, "E-MEMORY-CAPACITY", 2, false;
    /// An address range that is not free, not aligned or outside the session's window.
    BadAddress = 32, "E-MEMORY-ADDRESS", 1, false;
    /// The session's worker has no exported memory of that name, or has it no more.
    NotExported = 33, "E-MEMORY-NOT-EXPORTED", 400, false;
    /// The session's memory may be swapped out, so other sessions cannot use it.
    NotPinned = 34, "E-MEMORY-NOT-PINNED", 801, false;
    /// The module image is not valid PTX; the detail has line and column.
    BadModule = 40, "E-MODULE-PTX", 218, false;
    /// The image has no code for this device.
    NoBinary = 41, "E-MODULE-NO-BINARY", 209, false;
    /// The module or function named by a launch does not exist.
    UnknownFunction = 42, "E-MODULE-FUNCTION", 500, false;
    /// Grid, block, shared bytes or parameters are out of range.
    BadLaunch = 43, "E-LAUNCH-INVALID", 1, false;
    /// More threads or shared memory than the device has.
    LaunchResources = 44, "E-LAUNCH-RESOURCES", 701, false;
    /// The image has a PTX version that the device's driver does not know.
    PtxVersion = 45, "E-MODULE-VERSION", 222, false;
    /// Preparing the module takes more processor time or memory than allowed for an image.
    ModuleLimit = 46, "E-MODULE-LIMIT", 2, false;
    /// A kernel accessed memory that is not the session's.
    IllegalAddress = 50, "E-KERNEL-ADDRESS", 700, false;
    /// A kernel's access was not naturally aligned.
    Misaligned = 51, "E-KERNEL-MISALIGNED", 716, false;
    /// A kernel reached an instruction that cannot run.
    IllegalInstruction = 52, "E-KERNEL-INSTRUCTION", 715, false;
    /// A kernel trapped.
    Trap = 53, "E-KERNEL-TRAP", 719, false;
    /// A kernel ran longer than the watchdog allows.
    Watchdog = 54, "E-KERNEL-WATCHDOG", 702, false;
    /// A kernel's stack overflowed.
    StackOverflow = 55, "E-KERNEL-STACK", 719, false;
    /// An `assert` in a kernel was false; the detail has its text.
    Assert = 56, "E-KERNEL-ASSERT", 710, false;
    /// The device reported another error.
    Device = 60, "E-DEVICE", 999, false;
    /// The epoch of a message is lower than one already accepted.
    Fenced = 70, "E-EPOCH-FENCED", 999, true;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.number())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u16::deserialize(deserializer).map(Self::from_number)
    }
}

/// An error, as reported to a request or a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Failure {
    /// The stable code.
    pub code: Code,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// The error, its place, and the remedy.
    #[serde(with = "text")]
    pub detail: String,
}

impl Failure {
    /// Creates a failure with a detail for people.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            retryable: code.retryable(),
            detail: detail.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let mut numbers: Vec<_> = Code::ALL.iter().map(|c| c.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), *code);
        }
    }
}
