//! Stable error codes. The section of `docs/reference/errors.md` about the bus is made from this table.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::text;
use crate::kernel_fault::{KernelFault, cut};
use crate::limits;

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal, $cuda:literal, $retry:literal, $meaning:literal;)*) => {
        /// A stable error code: the number on the wire, the text for people, and the CUDA driver
        /// error that a CUDA program sees.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $(#[doc = $meaning] $name),* }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on the wire.
            #[must_use]
            pub fn number(self) -> u16 { match self { $(Self::$name => $number),* } }

            /// The name in messages and in `docs/reference/errors.md`.
            #[must_use]
            pub fn name(self) -> &'static str { match self { $(Self::$name => $text),* } }

            /// The meaning and the remedy, as the page has them.
            #[must_use]
            pub fn meaning(self) -> &'static str { match self { $(Self::$name => $meaning),* } }

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
    Unknown = 0, "E-UNKNOWN", 999, false,
        "a code of a newer version. Update this side.";
    Malformed = 1, "E-BUS-MALFORMED", 1, false,
        "a message could not be decoded. Mend the client; docs/reference/wire.md.";
    Version = 2, "E-BUS-VERSION", 803, false,
        "the message is of a newer wire version. Update the side that answered.";
    NoLeader = 3, "E-CLUSTER-NO-LEADER", 46, true,
        "no leader answered. Wait; `warploom status`; start a leader.";
    NoWorker = 4, "E-CLUSTER-NO-WORKER", 46, true,
        "no worker can take the session: there is none, or all are drained. Start a worker or \
         wait for one.";
    NoGroup = 5, "E-CLUSTER-GROUP", 46, true,
        "there is no worker of a group that the tenant may use. Start one with `warploom \
         worker --group`, or `tenant set --group`.";
    Occupied = 6, "E-CLUSTER-OCCUPIED", 46, true,
        "the workers that the tenant may use are exclusive and in use by other tenants. Wait \
         for a session to end, or start a worker.";
    MemoryFull = 7, "E-CLUSTER-MEMORY", 46, true,
        "no worker has enough free memory. Wait, free memory, or start a worker.";
    NoAddresses = 8, "E-CLUSTER-ADDRESSES", 46, true,
        "the workers have no address window left for the session. Wait, or lower quotas and \
         the tenants' limits on addresses: docs/reference/limits.md.";
    TooFewWorkers = 9, "E-CLUSTER-DEVICES", 46, true,
        "fewer workers can take a session than devices were requested, and each device must \
         be on another worker. Ask for fewer, or start workers.";
    UnknownTenant = 10, "E-TENANT-UNKNOWN", 100, false,
        "there is no such tenant. `warploom tenant create NAME`.";
    SessionLimit = 11, "E-TENANT-SESSIONS", 46, true,
        "the tenant has all the sessions it may have, on all workers together, or too many of \
         its requests wait. Close one, or `tenant set --sessions` (docs/reference/limits.md).";
    BadSettings = 12, "E-TENANT-SETTINGS", 1, false,
        "settings out of range. See `warploom tenant set --help`.";
    AddressLimit = 14, "E-TENANT-ADDRESSES", 2, true,
        "the tenant's sessions have all the device addresses that they may have on a worker. \
         Close some, lower the quota, or `tenant set --addresses` (docs/reference/limits.md).";
    ModuleShare = 15, "E-TENANT-MODULES", 2, true,
        "the module images of the tenant's sessions take all the memory that they may on a \
         worker. Unload modules, close sessions, or `tenant set --modules` \
         (docs/reference/limits.md).";
    StagedShare = 16, "E-TENANT-STAGED", 2, true,
        "the tenant's sessions have staged all that they may on a worker without progress for \
         10 s, or one transfer is larger than that. Use the staged bytes, or `tenant set \
         --staged` (docs/reference/limits.md).";
    Suspended = 17, "E-TENANT-SUSPENDED", 46, true,
        "the tenant is suspended: it gets no new sessions, and nothing more of its present \
         sessions is granted. `warploom tenant resume` ends that.";
    NoBroker = 13, "E-CLUSTER-NO-BROKER", 46, true,
        "the broker was not reached for `client.deadline`. Start it, or repair the network; \
         docs/reference/waits.md.";
    SessionGone = 20, "E-SESSION-GONE", 201, false,
        "the session has ended or never was. Open a new one.";
    DeviceLost = 21, "E-DEVICE-LOST", 46, false,
        "the worker or its device is gone. Open a new session and start over.";
    Protocol = 22, "E-SESSION-PROTOCOL", 1, false,
        "the client sent a message that a correct client does not send. Mend the client.";
    Expired = 23, "E-SESSION-EXPIRED", 201, false,
        "the client gave no sign of life for too long. Keep `alive` messages coming.";
    Killed = 24, "E-SESSION-KILLED", 201, false,
        "an administrator ended the session. Ask the administrator.";
    Unanswered = 25, "E-DEVICE-UNREACHABLE", 46, false,
        "the session's worker did not answer for `client.deadline`. `warploom status` shows \
         the workers; open a new session and start over.";
    Quota = 30, "E-MEMORY-QUOTA", 2, false,
        "allocation above the tenant's quota. Free memory, or `tenant set --quota`.";
    OutOfMemory = 31, "E-MEMORY-CAPACITY", 2, false,
        "allocation above the free memory of the device. Free memory, or use another worker.";
    BadAddress = 32, "E-MEMORY-ADDRESS", 1, false,
        "an address range that is not aligned, not free, or not the session's own. Mend the \
         program.";
    NotExported = 33, "E-MEMORY-NOT-EXPORTED", 400, false,
        "no memory is exported by that name to this tenant on the session's worker, or it was \
         freed. Keep the allocation until the other process has closed it; processes that \
         share memory are one tenant's, on one worker.";
    NotPinned = 34, "E-MEMORY-NOT-PINNED", 801, false,
        "the session's memory may be swapped out, so other sessions cannot use it. There is \
         no room to keep it on the device beside the largest of the others. Or the worker is \
         of a build without IPC memory. Free memory, or use a device that is not \
         overcommitted.";
    BadModule = 40, "E-MODULE-PTX", 218, false,
        "the image is not valid PTX; line and column are in the detail. Mend the image.";
    NoBinary = 41, "E-MODULE-NO-BINARY", 209, false,
        "the image has no code for this device. Compile to PTX, or, for a worker with a GPU, \
         for its architecture.";
    UnknownFunction = 42, "E-MODULE-FUNCTION", 500, false,
        "no such module or function. Check the entry's name.";
    BadLaunch = 43, "E-LAUNCH-INVALID", 1, false,
        "grid, block, shared bytes or parameters out of range. Mend the launch.";
    LaunchResources = 44, "E-LAUNCH-RESOURCES", 701, false,
        "more threads or shared memory than the device has. Launch smaller blocks.";
    PtxVersion = 45, "E-MODULE-VERSION", 222, false,
        "the image has a PTX version that the worker's driver does not know. Compile for an \
         older PTX version, or update the worker's driver.";
    ModuleLimit = 46, "E-MODULE-LIMIT", 2, false,
        "preparing the module takes more processor time or memory than one image may \
         (`worker.compile_seconds`, `worker.compile_bytes`). Send it in several images, or \
         raise the setting.";
    IllegalAddress = 50, "E-KERNEL-ADDRESS", 700, false,
        "access to memory that does not belong to the session. Mend the kernel; the detail \
         names the thread.";
    Misaligned = 51, "E-KERNEL-MISALIGNED", 716, false,
        "an access not naturally aligned. Mend the kernel.";
    IllegalInstruction = 52, "E-KERNEL-INSTRUCTION", 715, false,
        "an instruction that cannot be run. Check the target architecture.";
    Trap = 53, "E-KERNEL-TRAP", 719, false,
        "the kernel trapped. Mend the kernel.";
    Watchdog = 54, "E-KERNEL-WATCHDOG", 702, false,
        "the kernel ran longer than `worker.watchdog`. The CPU device counts processor time, \
         and ends a kernel also after twenty times as long by the clock. Mend the kernel, or \
         raise the setting.";
    StackOverflow = 55, "E-KERNEL-STACK", 719, false,
        "the kernel's stack overflowed. Bound its recursion.";
    Assert = 56, "E-KERNEL-ASSERT", 710, false,
        "an `assert` in a kernel was false; the detail has its text. Mend the kernel.";
    Device = 60, "E-DEVICE", 999, false,
        "the device reported an error that has no code here. See the detail.";
    Fenced = 70, "E-EPOCH-FENCED", 999, true,
        "the message came from a leader that no longer leads. No action is needed: its \
         successor answers.";
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

    /// The detail in at most [`limits::CALL_ERROR_BYTES`]: of a longer one the end is cut.
    #[must_use]
    pub fn words(&self) -> &str {
        cut(&self.detail, limits::CALL_ERROR_BYTES)
    }

    /// The detail in at most [`limits::BRIEF_FAILURE_BYTES`]. A kernel's fault stays readable: of
    /// its explanation the end is cut.
    #[must_use]
    pub fn brief(&self) -> String {
        let brief = cut(&self.detail, limits::BRIEF_FAILURE_BYTES);
        match self.detail.parse::<KernelFault>() {
            Ok(fault) if brief.len() < self.detail.len() => {
                let beyond = self.detail.len() - brief.len();
                let left = fault.detail().len().saturating_sub(beyond);
                let detail = cut(fault.detail(), left).to_owned();
                fault.because(&detail).to_string()
            }
            _ => brief.to_owned(),
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
