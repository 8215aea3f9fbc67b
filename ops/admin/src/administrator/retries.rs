//! Requests that are made again: servers that elect a leader drop requests silently, and a leader may not have done
//! yet what it was asked.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use crate::errors::Unreachable;

/// The pause before another attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// Pauses between two looks at what is about to change: 2 ms at first, doubled up to 50 ms.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(Duration::from_millis(2))
    }

    /// Waits before the next look.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (2 * self.0).min(PAUSE);
    }
}

/// The outcome of a failed attempt.
pub(super) enum Failed {
    /// No answer came; the text says so to a user.
    Unanswered(String),
    /// The broker refused; another attempt would change nothing.
    Refused(anyhow::Error),
}

/// Retries until an attempt succeeds or is refused, or the patience ends. The timeout of an attempt
/// is `first`, and doubles after each one that timed out, so that a slow broker is heard, too.
pub(super) async fn again<T, F: Future<Output = Result<T, Failed>>>(
    patience: Duration,
    first: Duration,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<T> {
    let (begun, mut wait) = (Instant::now(), first);
    loop {
        let before = begun.elapsed();
        let failed = match attempt(wait.min(patience.saturating_sub(before))).await {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        match failed {
            Failed::Refused(error) => return Err(error),
            Failed::Unanswered(why) if begun.elapsed() >= patience => bail!(Unreachable(why)),
            // The broker itself may say at once that the store has no leader yet.
            Failed::Unanswered(_) if begun.elapsed() - before >= wait => wait *= 2,
            Failed::Unanswered(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(2);

    /// Timeouts of the attempts until `failing` of them have failed, each after `spent` or its own
    /// timeout.
    async fn waits(patience: u64, failing: usize, spent: Duration) -> (Vec<u64>, Result<()>) {
        let mut waits = Vec::new();
        let ended = again(
            Duration::from_secs(patience),
            Duration::from_secs(2),
            |wait| {
                waits.push(wait.as_secs());
                let fails = waits.len() <= failing;
                async move {
                    if !fails {
                        return Ok(());
                    }
                    tokio::time::sleep(wait.min(spent)).await;
                    Err(Failed::Unanswered("no answer".into()))
                }
            },
        );
        let ended = ended.await;
        (waits, ended)
    }

    #[tokio::test(start_paused = true)]
    async fn what_nothing_answers_is_attempted_again_with_more_time() {
        let (waits, ended) = waits(60, 3, Duration::MAX).await;
        assert_eq!(waits, [2, 4, 8, 16]);
        ended.expect("answered in the end");
    }

    #[tokio::test(start_paused = true)]
    async fn the_patience_ends() {
        let begun = Instant::now();
        let (waits, ended) = waits(10, 9, Duration::MAX).await;
        assert_eq!(waits, [2, 4, 3], "the last has what is left");
        assert!(ended.is_err_and(|error| error.is::<Unreachable>()));
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_fail_at_once_end_no_patience() {
        let (waits, ended) = waits(60, 100, Duration::ZERO).await;
        assert_eq!((waits.len(), waits[100]), (101, 2));
        ended.expect("done in the end");
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_soon_is_seen_soon_and_what_does_not_is_looked_at_less_often() {
        let mut pauses = Pauses::new();
        for expected in [2, 4, 8, 16, 32, 50, 50] {
            assert_eq!(pauses.0, Duration::from_millis(expected));
            pauses.pause().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_not_attempted_again() {
        let mut attempts = 0;
        let patience = Duration::from_secs(60);
        let ended = again(patience, FIRST, |_| {
            attempts += 1;
            async { Err::<(), _>(Failed::Refused(anyhow::anyhow!("the entry is too large"))) }
        });
        assert!(ended.await.is_err());
        assert_eq!(attempts, 1);
    }
}
