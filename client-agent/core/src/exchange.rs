//! A session's questions about memory that sessions use of one another: one at a time, said again until the
//! worker has answered.

use bus_schemas::{ExportPlace, Failure, IpcAction, IpcAnswer, IpcRequest, WIRE_VERSION, encode};

use crate::event::Nanos;
use crate::retry::Retry;

/// How long nothing is heard before a question is said again, at first and at most.
const FIRST_NS: Nanos = 5_000_000;
const MOST_NS: Nanos = 500_000_000;

/// The questions of one session.
#[derive(Debug)]
pub struct Exchange {
    /// The number of the newest question.
    number: u64,
    /// The question on its way, and since when.
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
    /// Asks, unless a question is on its way; gives whether it did.
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

    /// The question, if it is to be said now: for the first time, or because nothing was heard for long.
    pub fn message(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let (request, _) = self.asked?;
        let due = std::mem::take(&mut self.unsent) || self.retry.fire(now);
        due.then(|| encode(&request))
    }

    /// The worker has answered; what answers no question, or an earlier one, changes nothing.
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

    /// The answer to the question asked last, once.
    pub fn take(&mut self) -> Option<Result<Option<ExportPlace>, Failure>> {
        self.answer.take()
    }

    /// How long the question on its way has waited.
    #[must_use]
    pub fn waits(&self, now: Nanos) -> Nanos {
        self.asked.map_or(0, |(_, since)| now.saturating_sub(since))
    }

    /// Nobody waits for the answer any more.
    pub fn give_up(&mut self, now: Nanos) {
        self.asked = None;
        self.retry.arm(now, false);
    }

    /// The connection is back: what is on its way may have been lost.
    pub fn hurry(&mut self, now: Nanos) {
        self.retry.hurry(now);
    }

    /// When [`Exchange::message`] is to be called, if nothing happens before.
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
        // The next one; what is said late of the first is nothing to it.
        assert!(exchange.ask(due, FIND));
        exchange.answered(due, answer(1, None));
        let why = Failure::new(Code::NotExported, "gone");
        exchange.answered(due, answer(2, Some(why.clone())));
        assert_eq!(exchange.take(), Some(Err(why)));
    }
}
