//! A session's requests about memory that sessions share: one at a time, each resent until the
//! worker has answered.

use bus_schemas::{ExportPlace, Failure, IpcAction, IpcAnswer, IpcRequest, WIRE_VERSION, encode};

use crate::event::Nanos;
use crate::retry::Retry;

/// Wait without an answer before a request is sent again, at first and at most.
const FIRST_NS: Nanos = 5_000_000;
const MOST_NS: Nanos = 500_000_000;

/// The requests of one session.
#[derive(Debug)]
pub struct Exchange {
    /// Number of the newest request.
    number: u64,
    /// The request on its way, and the time at which it was made.
    asked: Option<(IpcRequest, Nanos)>,
    unsent: bool,
    retry: Retry,
    answer: Option<Result<Option<ExportPlace>, Failure>>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            number: 0,
            asked: None,
            unsent: false,
            retry: Retry::new(FIRST_NS, MOST_NS),
            answer: None,
        }
    }
}

impl Exchange {
    /// Makes a request, unless one is on its way; returns true if it did.
    pub fn ask(&mut self, now: Nanos, action: IpcAction) -> bool {
        if self.asked.is_some() {
            return false;
        }
        self.number += 1;
        let request = IpcRequest {
            v: WIRE_VERSION,
            number: self.number,
            action,
        };
        self.asked = Some((request, now));
        self.answer = None;
        self.unsent = true;
        self.retry.arm(now, false);
        self.retry.arm(now, true);
        true
    }

    /// The message of the request, if it is due: for the first time, or after a long silence.
    pub fn message(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let (request, _) = self.asked?;
        let due = std::mem::take(&mut self.unsent) || self.retry.fire(now);
        due.then(|| encode(&request))
    }

    /// Handles an answer; one to no request, or to an earlier one, changes nothing.
    pub fn answered(&mut self, now: Nanos, answer: IpcAnswer) {
        let asked = self.asked.take_if(|(it, _)| it.number == answer.number);
        if asked.is_some() {
            self.retry.arm(now, false);
            self.answer = Some(match answer.failure {
                Some(failure) => Err(failure),
                None => Ok(answer.place),
            });
        }
    }

    /// Takes the answer to the last request.
    pub fn take(&mut self) -> Option<Result<Option<ExportPlace>, Failure>> {
        self.answer.take()
    }

    /// Time that the request on its way has waited.
    #[must_use]
    pub fn waits(&self, now: Nanos) -> Nanos {
        self.asked.map_or(0, |(_, since)| now.saturating_sub(since))
    }

    /// Drops the request: its answer is no longer waited for.
    pub fn give_up(&mut self, now: Nanos) {
        self.asked = None;
        self.retry.arm(now, false);
    }

    /// Resends soon: the connection is back, and a request on its way may be lost.
    pub fn hurry(&mut self, now: Nanos) {
        self.retry.hurry(now);
    }

    /// The time at which [`Exchange::message`] must be called, if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.retry.due()
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Code, ExportKey, decode};

    use super::*;

    const FIND: IpcAction = IpcAction::Find {
        key: ExportKey([1, 2]),
    };

    fn answer(number: u64, failure: Option<Failure>) -> IpcAnswer {
        IpcAnswer {
            v: WIRE_VERSION,
            number,
            place: None,
            failure,
        }
    }

    fn number(bytes: Option<Vec<u8>>) -> Option<u64> {
        bytes.map(|bytes| decode::<IpcRequest>(&bytes).expect("a request").number)
    }

    #[test]
    fn a_question_is_said_until_it_is_answered_and_no_longer() {
        let mut exchange = Exchange::default();
        assert!(exchange.ask(0, FIND) && !exchange.ask(0, FIND));
        assert_eq!(number(exchange.message(0)), Some(1));
        assert_eq!(exchange.message(1), None);
        let due = exchange.next_wakeup().expect("it is said again");
        assert_eq!(number(exchange.message(due)), Some(1));
        let later = exchange.next_wakeup().expect("and again");
        assert_eq!(number(exchange.message(later)), Some(1));
        assert!(exchange.next_wakeup().expect("later") - later > later - due);
        exchange.answered(due, answer(7, None));
        assert_eq!(exchange.take(), None);
        exchange.answered(due, answer(1, None));
        assert_eq!((exchange.take(), exchange.take()), (Some(Ok(None)), None));
        assert_eq!(
            (exchange.message(due * 9), exchange.next_wakeup()),
            (None, None)
        );
        // The next request; a late answer to the first has no effect on it.
        assert!(exchange.ask(due, FIND));
        exchange.answered(due, answer(1, None));
        let why = Failure::new(Code::NotExported, "gone");
        exchange.answered(due, answer(2, Some(why.clone())));
        assert_eq!(exchange.take(), Some(Err(why)));
    }
}
