//! A part of heartbeats that is sent when it has changed, and otherwise only now and then.

/// Number of heartbeats after which an unchanged part is sent again, because there may be a new listener.
const AGAIN: u32 = 10;

/// The value sent last, and the number of heartbeats since.
#[derive(Debug, Default)]
pub struct SendOnChange<T> {
    sent: T,
    beats: u32,
}

impl<T: Clone + PartialEq> SendOnChange<T> {
    /// Returns the value for the next heartbeat, given the value now; `None` if it need not be sent.
    pub fn next(&mut self, now: T) -> Option<T> {
        let turn = self.beats.is_multiple_of(AGAIN) || now != self.sent;
        self.beats = if turn { 1 } else { self.beats + 1 };
        if turn {
            self.sent.clone_from(&now);
        }
        turn.then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sent_when_it_changes_and_now_and_then() {
        let mut sender = SendOnChange::default();
        assert_eq!(sender.next(0), Some(0));
        assert_eq!(sender.next(0), None);
        assert_eq!(sender.next(7), Some(7));
        for _ in 1..AGAIN {
            assert_eq!(sender.next(7), None);
        }
        assert_eq!(sender.next(7), Some(7));
        assert_eq!(sender.next(7), None);
    }
}
