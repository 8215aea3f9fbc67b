//! The cost of a message that is useless to its role.

use bus_schemas::subject::{ToLeader, ToWorker};

/// Nanoseconds on the role's monotonic clock.
pub(super) type Nanos = u64;

/// Time that a useless message costs its tenant: 2,000 a second are heard.
pub(super) const APART: Nanos = 500_000;
/// Bytes of such a message that cost the same again: a window of copies may be sent twice.
pub(super) const BYTES: usize = 64 << 10;

/// The share of the full cost that a message is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waste {
    /// The full cost: the message meant nothing, or is of a rare kind.
    Whole,
    /// A quarter: a message of an open session that repeats known facts.
    Repeated,
    /// A sixteenth: a message with work, but of a kind without a window.
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

/// A tenant's message as a worker handled it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handled {
    /// True if it was well formed.
    pub(crate) sound: bool,
    /// True if its tenant has the session open here.
    pub(crate) open: bool,
    /// True if it brought work or an acknowledgement.
    pub(crate) took: bool,
}

impl Waste {
    /// Returns the waste of a message that a worker handled; `None` if the message was useful.
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

    /// Returns the waste of a message that reaches no queue of a leader. Clients ask rarely. After
    /// a change of leaders a session's intents may arrive before the session is known.
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
