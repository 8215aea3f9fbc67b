//! How much a message wastes that brings its role nothing.

use bus_schemas::subject::{ToLeader, ToWorker};

/// Nanoseconds on the role's monotonic clock.
pub(super) type Nanos = u64;

/// A message that brought nothing uses up this time of its tenant: 2,000 a second are heard.
pub(super) const APART: Nanos = 500_000;
/// Bytes of such a message that use up as much again: a window of copies may be sent twice.
pub(super) const BYTES: usize = 64 << 10;

/// How much of its tenant's account a message uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waste {
    /// All that one message may: it meant nothing, or is of a kind that is rare.
    Whole,
    /// A quarter: an open session's, which repeats what is known.
    Repeated,
    /// A sixteenth: work, but of a kind that has no window of its own.
    Unbounded,
}

impl Waste {
    pub(super) fn time(self, bytes: usize) -> Nanos {
        let more = Nanos::try_from(bytes / BYTES).unwrap_or(Nanos::MAX);
        let whole = APART.saturating_mul(more.saturating_add(1));
        match self {
            Waste::Whole => whole,
            Waste::Repeated => whole / 4,
            Waste::Unbounded => whole / 16,
        }
    }
}

/// A message of a tenant, as a worker handled it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handled {
    /// It could be read.
    pub(crate) sound: bool,
    /// It is of a session that its tenant has open here.
    pub(crate) open: bool,
    /// It brought work or an acknowledgement.
    pub(crate) took: bool,
}

impl Waste {
    /// The waste of a message that a worker handled; none where it brought something.
    pub(crate) fn at_worker(what: ToWorker, handled: Handled) -> Option<Self> {
        if !handled.sound || !handled.open {
            return Some(Waste::Whole);
        }
        match what {
            ToWorker::Memory => Some(Waste::Unbounded),
            ToWorker::Ipc => Some(Waste::Repeated),
            ToWorker::Batch | ToWorker::Data | ToWorker::State | ToWorker::Offer => {
                (!handled.took).then_some(Waste::Repeated)
            }
        }
    }

    /// The waste of a message that goes to no queue of a leader. No client asks often. After a change of
    /// leaders its intents come before its session is known.
    pub(crate) fn at_leader(what: ToLeader) -> Self {
        match what {
            ToLeader::Intent(_) => Waste::Repeated,
            _ => Waste::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_an_open_session_wastes_nothing() {
        let handled = Handled {
            sound: true,
            open: true,
            took: true,
        };
        let at = |what, handled| Waste::at_worker(what, handled);
        for what in [
            ToWorker::Batch,
            ToWorker::Data,
            ToWorker::State,
            ToWorker::Offer,
        ] {
            assert_eq!(at(what, handled), None);
            let again = Handled {
                took: false,
                ..handled
            };
            assert_eq!(at(what, again), Some(Waste::Repeated));
            let nonsense = Handled {
                sound: false,
                ..handled
            };
            assert_eq!(at(what, nonsense), Some(Waste::Whole));
            let foreign = Handled {
                open: false,
                ..handled
            };
            assert_eq!(at(what, foreign), Some(Waste::Whole));
        }
        assert_eq!(at(ToWorker::Memory, handled), Some(Waste::Unbounded));
        assert_eq!(at(ToWorker::Ipc, handled), Some(Waste::Repeated));
    }

    #[test]
    fn an_intent_without_a_queue_wastes_less_than_a_request() {
        let intent = ToLeader::Intent(bus_schemas::SessionId(1));
        let times = [intent, ToLeader::Open].map(|what| Waste::at_leader(what).time(0));
        assert_eq!(times, [APART / 4, APART]);
        assert_eq!(Waste::Whole.time(BYTES), 2 * APART);
    }
}
