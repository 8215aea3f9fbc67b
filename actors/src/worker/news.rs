//! What heartbeats say only now and then.

/// Heartbeats with which it is said again, changed or not: somebody new may listen.
const AGAIN: u32 = 10;

/// Something that leaders are told, and how many heartbeats ago they were.
#[derive(Debug, Default)]
pub(super) struct News<T> {
    told: T,
    beats: u32,
}

impl<T: Clone + PartialEq> News<T> {
    /// What the next heartbeat says, given how it is now; nothing where it is not its turn.
    pub(super) fn next(&mut self, now: T) -> Option<T> {
        let turn = self.beats.is_multiple_of(AGAIN) || now != self.told;
        self.beats = if turn { 1 } else { self.beats + 1 };
        if turn {
            self.told.clone_from(&now);
        }
        turn.then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_when_it_changes_and_now_and_then() {
        let mut news = News::default();
        assert_eq!(news.next(0), Some(0));
        assert_eq!(news.next(0), None);
        assert_eq!(news.next(7), Some(7));
        for _ in 1..AGAIN {
            assert_eq!(news.next(7), None);
        }
        assert_eq!(news.next(7), Some(7));
        assert_eq!(news.next(7), None);
    }
}
