//! Live data of the cluster: periodic samples, and positions as its order is followed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admin::calendar::now_ms;
use admin::record::{Followed, follow_explained};
use admin::settings::Settings;
use admin::{Administrator, SessionFilter};
use anyhow::Result;
use bus_schemas::{GpuPosition, Incarnation};
use scheduler_leader_core::replay::ReplayedPosition;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::rows::Sample;

/// Device time of a position that has just ended, or the progress of a standing grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) gpu: u32,
    pub(crate) tenant: String,
    pub(crate) ended_ms: u64,
    pub(crate) ran_ns: u64,
}

/// Maximum number of standing grants with known progress.
const STANDING: usize = 1_024;
/// Delay before the order is followed again after an error.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes one sample.
pub(crate) async fn sample(administrator: &Administrator) -> Result<Sample> {
    let status = administrator.status(administrator.patience()).await?;
    let memory = administrator.memory(&status).await;
    let sessions = administrator.sessions(&SessionFilter::default()).await?;
    Ok(Sample {
        status,
        memory,
        sessions,
    })
}

/// Takes samples periodically and sends them; the display does not wait for a sample.
pub(crate) fn samples(
    administrator: &Arc<Administrator>,
    every: Duration,
) -> mpsc::Receiver<Result<Sample>> {
    let (tell, heard) = mpsc::channel(1);
    let administrator = administrator.clone();
    tokio::spawn(async move {
        let mut looks = tokio::time::interval(every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick completes at once: the caller has just taken a sample.
        looks.tick().await;
        loop {
            looks.tick().await;
            if tell.send(sample(&administrator).await).await.is_err() {
                return;
            }
        }
    });
    heard
}

/// Follows the order on its own thread, for a replay computes. Sends positions that end from now
/// on.
pub(crate) fn order(settings: &Settings) -> mpsc::Receiver<Ran> {
    let (tell, heard) = mpsc::channel(4_096);
    let settings = settings.clone();
    std::thread::spawn(move || {
        let followed = admin::block_on(async {
            let administrator = Administrator::of(&settings).await?;
            // After an error the order is followed from its beginning: a block may have been stored
            // late.
            let mut standing = Standing::default();
            while !tell.is_closed() {
                let followed = follow_explained(&administrator, |told| {
                    for ran in standing.news(told) {
                        // If the display is behind, the position is dropped: a picture without it
                        // is good enough.
                        drop(tell.try_send(ran));
                    }
                    Ok(())
                });
                if let Err(error) = followed.await {
                    tracing::info!("the order is followed anew: {error:#}");
                }
                tokio::time::sleep(AGAIN).await;
            }
            Ok(())
        });
        if let Err(error) = followed {
            tracing::info!("the order is not followed: {error:#}");
        }
    });
    heard
}

/// A standing grant: its worker, and its position there.
type Place = (Incarnation, GpuPosition);

/// Last reported progress of standing grants.
#[derive(Debug, Default)]
struct Standing {
    /// Nanoseconds reported of each grant that has not ended.
    told: BTreeMap<Place, u64>,
    /// True after the first report. Work before it belongs to no displayed time.
    begun: bool,
}

impl Standing {
    /// The device time that was used since the last report.
    fn news(&mut self, told: Followed) -> Vec<Ran> {
        match told {
            Followed::Whole | Followed::Idle(_) | Followed::Failed(_) => Vec::new(),
            Followed::Ended {
                position,
                news_of_ms,
            } => {
                let before = self.told.remove(&place(&position)).unwrap_or(0);
                let news = news_of_ms.map(|_| ran(&position, before));
                news.into_iter().collect()
            }
            Followed::Standing(grants) => {
                let begun = std::mem::replace(&mut self.begun, true);
                let news = grants.iter().map(|grant| self.further(grant, begun));
                news.collect()
            }
        }
    }

    fn further(&mut self, grant: &ReplayedPosition, begun: bool) -> Ran {
        let measured = measured(grant);
        if self.told.len() >= STANDING {
            self.told.pop_first();
        }
        let before = self.told.insert(place(grant), measured);
        ran(grant, before.unwrap_or(if begun { 0 } else { measured }))
    }
}

fn place(position: &ReplayedPosition) -> Place {
    (position.incarnation, position.position)
}

fn measured(position: &ReplayedPosition) -> u64 {
    position.end.map_or(0, |end| end.measured)
}

/// The time that a position ran beyond `before` nanoseconds.
fn ran(position: &ReplayedPosition, before: u64) -> Ran {
    Ran {
        gpu: position.gpu,
        tenant: position.tenant.to_string(),
        ended_ms: now_ms(),
        ran_ns: measured(position).saturating_sub(before),
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{GrantKind, Outcome, SessionId};
    use scheduler_leader_core::replay::End;

    use super::*;

    fn grant(at: GpuPosition, measured: u64, outcome: Outcome) -> ReplayedPosition {
        ReplayedPosition {
            gpu: 0,
            incarnation: Incarnation(1),
            position: at,
            global: at,
            epoch: 1,
            input: 0,
            tenant: "alice".parse().unwrap(),
            ordinal: 1,
            session: SessionId(1),
            kind: GrantKind::Standing,
            priority: 0,
            first: 1,
            last: 1,
            launches: Some(1),
            work: Vec::new(),
            cost: 0,
            end: Some(End { outcome, measured }),
            adopted: false,
            timing: None,
            chain: None,
        }
    }

    fn ended(at: GpuPosition, measured: u64) -> Followed {
        Followed::Ended {
            position: Box::new(grant(at, measured, Outcome::Ran)),
            news_of_ms: Some(1),
        }
    }

    fn standing(grants: &[(GpuPosition, u64)]) -> Followed {
        let grants = grants.iter();
        let grants = grants.map(|(at, measured)| grant(*at, *measured, Outcome::Part));
        Followed::Standing(grants.collect())
    }

    #[test]
    fn of_a_standing_grant_each_nanosecond_is_told_once() {
        let mut followed = Standing::default();
        let told = [
            standing(&[(1, 900)]),
            standing(&[(1, 950)]),
            standing(&[(1, 950)]),
            ended(1, 1_000),
            standing(&[(2, 30)]),
            ended(3, 7),
            ended(2, 40),
            standing(&[]),
        ];
        let ran = told.map(|it| followed.news(it).iter().map(|ran| ran.ran_ns).sum::<u64>());
        // Work before the first report is not shown.
        assert_eq!(ran, [0, 50, 0, 50, 30, 7, 10, 0]);
        assert!(followed.told.is_empty());
    }

    #[test]
    fn what_is_known_of_standing_grants_stays_small() {
        let mut followed = Standing::default();
        for at in 0..3 * STANDING as u64 {
            followed.news(standing(&[(at, 1)]));
        }
        assert_eq!(followed.told.len(), STANDING);
    }
}
