//! The cluster, asked again and again, and its order, followed: what comes goes to whoever shows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bus_schemas::{GpuPosition, Incarnation};
use scheduler_leader_core::replay::ReplayedPosition;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use warploom_cli::admin::{Administrator, SessionFilter};
use warploom_cli::calendar::now_ms;
use warploom_cli::record::{Followed, follow_explained};
use warploom_cli::settings::Settings;

use crate::rows::Sample;

/// A position that has ended just now, or a standing grant that has run further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) gpu: u32,
    pub(crate) tenant: String,
    pub(crate) ended_ms: u64,
    pub(crate) ran_ns: u64,
}

/// Standing grants of which it is known how far they have run.
const STANDING: usize = 1_024;
/// Before the order is followed anew, where that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Asks once.
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

/// Asks again and again, and tells what it finds; whoever shows it does not wait meanwhile.
pub(crate) fn samples(
    administrator: &Arc<Administrator>,
    every: Duration,
) -> mpsc::Receiver<Result<Sample>> {
    let (tell, heard) = mpsc::channel(1);
    let administrator = administrator.clone();
    tokio::spawn(async move {
        let mut looks = tokio::time::interval(every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is there at once, and so is what there was to see.
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

/// Follows the order on a thread of its own, for a replay computes; what ends from now on is told.
pub(crate) fn order(settings: &Settings) -> mpsc::Receiver<Ran> {
    let (tell, heard) = mpsc::channel(4_096);
    let settings = settings.clone();
    std::thread::spawn(move || {
        let followed = warploom_cli::commands::block_on(async {
            let administrator = Administrator::of(&settings).await?;
            // Where it cannot go on it begins anew: a block may have been stored late.
            let mut standing = Standing::default();
            while !tell.is_closed() {
                let followed = follow_explained(&administrator, |told| {
                    for ran in standing.news(told) {
                        // Whoever shows it is behind: a picture with less in it is as good.
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

/// What standing grants had run when that was told last.
#[derive(Debug, Default)]
struct Standing {
    /// Nanoseconds, of each that has not ended.
    told: BTreeMap<Place, u64>,
    /// Whether anything was told: what ran before belongs to no moment that is shown.
    begun: bool,
}

impl Standing {
    /// What has run just now.
    fn news(&mut self, told: Followed) -> Vec<Ran> {
        match told {
            Followed::Whole => Vec::new(),
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

/// What a position ran beyond these nanoseconds.
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
        // What ran before anybody looked is not shown.
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
