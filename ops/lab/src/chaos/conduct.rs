//! Carries out a plan: strikes at their times, and strikes that have to wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use admin::output;
use anyhow::Result;

use super::plan::{Planned, Strike};
use super::strikes::Strikes;

/// Time between two looks at all processes.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// Time within which all roles of an undisturbed cluster have to be there.
pub(super) const RECOVERY: Duration = Duration::from_secs(90);
/// Interval between attempts to strike a broker that may not be struck yet.
const AGAIN: Duration = Duration::from_millis(250);

/// Minimum time between a late strike and any other, so that delayed strikes do not come all at once.
const APART: Duration = Duration::from_millis(500);

/// Carries out strikes one after the other. Returns the number of strikes that could not be carried out.
/// Strikes that need several brokers in step wait in a queue; the other strikes do not wait for them.
pub(super) async fn carry_out(
    strikes: &mut Strikes,
    planned: &[Planned],
    whole: Duration,
) -> Result<usize> {
    let several = strikes.cluster.broker.servers().len() > 1;
    let mut left = planned.iter().peekable();
    let mut brokers = VecDeque::new();
    let (mut said, mut tried) = (Instant::now(), Instant::now());
    // With many strikes the time between them is shorter.
    let apart = APART.min(whole / (2 * planned.len().max(1)) as u32);
    let mut last = Instant::now();
    // Strikes that are late at the end still get their time: a busy machine takes longer.
    let until = whole + RECOVERY;
    while strikes.began.elapsed() < until {
        let elapsed = strikes.began.elapsed();
        strikes.tend().await?;
        let due = |planned: &&Planned| {
            let late = elapsed.checked_sub(planned.at);
            late.is_some_and(|late| late < apart || last.elapsed() >= apart)
        };
        match left.next_if(due) {
            Some(planned) if several && planned.strike.wants_all_brokers() => {
                brokers.push_back(planned.strike);
            }
            Some(planned) => {
                let done = try_until(strikes, planned.strike, until).await?;
                if !done {
                    return Ok(1 + left.count() + brokers.len());
                }
                last = Instant::now();
            }
            None if left.peek().is_none() && brokers.is_empty() && elapsed >= whole => {
                return Ok(0);
            }
            None => {}
        }
        if tried.elapsed() >= AGAIN && last.elapsed() >= apart {
            let done = match brokers.front() {
                Some(strike) => strikes
                    .strike(*strike)
                    .await
                    .inspect(|()| last = Instant::now()),
                None if strikes.pulse.is_lost() => strikes.in_step().await,
                None => Ok(()),
            };
            match done {
                Ok(()) => drop(brokers.pop_front()),
                Err(error) => tracing::debug!("{:?}: {error:#}", brokers.front()),
            }
            tried = Instant::now();
        }
        if said.elapsed() > Duration::from_secs(30) {
            said = Instant::now();
            let (done, all) = (planned.len() - left.len() - brokers.len(), planned.len());
            output::note(format_args!(
                "{} s: {done} of {all} strikes",
                elapsed.as_secs()
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(left.count() + brokers.len())
}

/// Retries a strike until it succeeds. Returns false if the run has lasted `until` before that.
async fn try_until(strikes: &mut Strikes, strike: Strike, until: Duration) -> Result<bool> {
    let mut tries = Instant::now();
    while let Err(error) = strikes.strike(strike).await {
        tracing::debug!("{strike:?}: {error:#}");
        if strikes.began.elapsed() > until {
            return Ok(false);
        }
        if tries.elapsed() > Duration::from_secs(20) {
            output::note(format_args!("{strike:?} has to wait: {error:#}"));
            tries = Instant::now();
        }
        tokio::time::sleep(LOOK).await;
        strikes.tend().await?;
    }
    Ok(true)
}
