//! The work of streams.

use crate::Nanos;

/// An engine that does one copy at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// From the host to the device.
    Inwards,
    /// From the device to the host.
    Outwards,
    /// On the device: copies and fills.
    Within,
}

/// Work of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A kernel that takes so long on so many multiprocessors.
    Kernel { ns: Nanos, sms: u64 },
    /// A copy or a fill.
    Copy { engine: Engine, bytes: u64 },
    /// A record of an event; it is this record of it.
    Mark {
        event: u64,
        record: u64,
        timed: bool,
    },
    /// A wait for a record of an event.
    Wait { event: u64, record: u64 },
}

/// The part of the device that work uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseKind {
    Multiprocessors,
    Engine(Engine),
}

/// The use of a part of the device, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) kind: UseKind,
    pub(super) amount: u64,
}

impl Work {
    /// The part of the device that it uses; `None` if it takes no time.
    pub(super) fn uses(self) -> Option<Use> {
        match self {
            Self::Kernel { sms, .. } => Some(Use {
                kind: UseKind::Multiprocessors,
                amount: sms,
            }),
            Self::Copy { engine, .. } => Some(Use {
                kind: UseKind::Engine(engine),
                amount: 1,
            }),
            Self::Mark { .. } | Self::Wait { .. } => None,
        }
    }
}

/// Work in its stream, with its effect.
#[derive(Debug)]
pub(crate) struct Item<E> {
    /// End of the call that brought it.
    pub(crate) ready: Nanos,
    pub(crate) work: Work,
    pub(crate) effect: Option<E>,
    /// True if the device was beyond that time already: another thread has waited for it.
    pub(super) late: bool,
}
