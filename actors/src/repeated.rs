//! Warnings that would repeat: logged at first, then with growing pauses.

use std::time::{Duration, Instant};

/// The first and the longest pause between two warnings.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The last warning about a lasting problem.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// Time of the next warning, and the pause after it.
    again: Option<(Instant, Duration)>,
    unsaid: u64,
}

impl Repeated {
    /// Notes an occurrence. `Some` if a warning is due, with the number of occurrences since the
    /// last one.
    pub(crate) fn happened(&mut self, now: Instant) -> Option<u64> {
        let (first, longest) = PAUSES;
        let pause = match self.again {
            Some((at, _)) if now < at => {
                self.unsaid += 1;
                return None;
            }
            Some((_, pause)) => (pause * 2).min(longest),
            None => first,
        };
        self.again = Some((now + pause, pause));
        Some(std::mem::take(&mut self.unsaid))
    }

    /// Notes the end of the problem: the next occurrence is a first one. True if a warning was ever
    /// due.
    pub(crate) fn is_over(&mut self) -> bool {
        self.unsaid = 0;
        self.again.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_comes_at_once_and_then_ever_more_seldom() {
        let (mut repeated, start) = (Repeated::default(), Instant::now());
        let mut said = Vec::new();
        for second in 0..1_000 {
            let now = start + Duration::from_secs(second);
            if let Some(unsaid) = repeated.happened(now) {
                said.push((second, unsaid));
            }
        }
        let expected = [
            (0, 0),
            (1, 0),
            (3, 1),
            (7, 3),
            (15, 7),
            (31, 15),
            (63, 31),
            (127, 63),
            (255, 127),
            (511, 255),
            (811, 299),
        ];
        assert_eq!(said, expected);
        assert!(repeated.is_over() && !repeated.is_over());
        assert_eq!(repeated.happened(start), Some(0));
    }
}
