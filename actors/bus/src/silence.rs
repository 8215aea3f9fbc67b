//! The time after which a silent connection is given up. Its server may be cut off from the others,
//! which the server does not report.

use std::time::{Duration, Instant};

/// Maximum number of times that the patience doubles.
const DOUBLINGS: u32 = 3;

/// Decides if a silence has lasted too long.
#[derive(Debug, Clone)]
pub struct Silence {
    patience: Duration,
    since: Option<Instant>,
    moved: u32,
}

impl Silence {
    /// Accepts a silence of `patience`. The limit doubles after each change of server, up to eight
    /// times `patience`, because another server is no help if all are silent.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            since: None,
            moved: 0,
        }
    }

    /// Notes a sign of a peer that is not cut off.
    pub fn heard(&mut self) {
        (self.since, self.moved) = (None, 0);
    }

    /// Notes that the connection is down: silence on it has no meaning.
    pub fn interrupted(&mut self) {
        self.since = None;
    }

    /// Notes that nothing is heard. True if the caller should go to another server now.
    pub fn lasts(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < self.patience * (1 << self.moved) {
            return false;
        }
        self.moved = (self.moved + 1).min(DOUBLINGS);
        self.since = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_borne_longer_and_longer() {
        let (mut silence, start) = (Silence::new(Duration::from_secs(2)), Instant::now());
        let moves = |silence: &mut Silence, from: u64, to: u64| -> Vec<u64> {
            let at = |second: &u64| silence.lasts(start + Duration::from_secs(*second));
            (from..to).filter(at).collect()
        };
        assert_eq!(moves(&mut silence, 0, 60), [2, 6, 14, 30, 46]);
        silence.heard();
        assert_eq!(moves(&mut silence, 60, 65), [62]);
        silence.interrupted();
        assert_eq!(moves(&mut silence, 65, 70), [69], "it is not forgotten");
    }
}
